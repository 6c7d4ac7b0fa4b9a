#!/usr/bin/env bash
# Checks the dependencies by deny.toml: their licences, where they come from, and known
# vulnerabilities if the list of these can be fetched. Then writes what the service is made of, as
# CycloneDX, to target/tourbillond.cdx.json.
. "$(dirname "$0")/lib.sh"
need_cargo_tool cargo-deny
need_cargo_tool cargo-cyclonedx

# Of all packages: without that option of the library alone.
deny() { cargo deny --locked --workspace "$@"; }

say "licences and sources"
deny check licenses bans sources
say "known vulnerabilities"
unknown=
if deny fetch db; then
    deny check advisories
else
    unknown=yes
fi

say "what the service is made of"
# In a copy, as it writes a file for each program of the workspace beside its manifest.
copy=target/supply
rm -rf $copy && mkdir -p $copy
git ls-files -z | tar --null -T - -c | tar -x -C $copy
cargo cyclonedx --quiet --manifest-path $copy/crates/tourbillond/Cargo.toml --describe binaries \
    --format json --spec-version 1.5 --no-build-deps
cp $copy/crates/tourbillond/tourbillond_bin.cdx.json target/tourbillond.cdx.json
echo target/tourbillond.cdx.json

[ -z "$unknown" ] || not_checked "known vulnerabilities" "the list of them cannot be fetched"
