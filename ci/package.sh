#!/usr/bin/env bash
# Packages the crates in the order of RELEASING.md, and builds each from what it contains. With
# --release it fails unless they are ready to be published.
. "$(dirname "$0")/lib.sh"

mapfile -t packages < <(sed -nE 's/^[0-9]+\. `(tourbillon[a-z-]*)`$/\1/p' RELEASING.md)
[ ${#packages[@]} -gt 0 ]
[ "${1:-}" = --release ] || dirty=--allow-dirty

if [ "${1:-}" = --release ]; then
    metadata=$(cargo metadata --locked --no-deps --format-version 1)
    for package in "${packages[@]}"; do
        say "$package"
        fields='[.version, .manifest_path, .repository] | @tsv'
        read -r version manifest repository < <(jq -r --arg name "$package" \
            ".packages[] | select(.name == \$name) | $fields" <<<"$metadata")
        [ -n "$repository" ] || { echo "it has no repository, which its pictures need"; exit 1; }
        grep -q "^## \[\?$version\b" "${manifest%/*}/CHANGELOG.md" ||
            { echo "its changelog has no $version"; exit 1; }
    done
fi
# Those that are not published yet are taken from here. Cargo keeps what it unpacks of them by
# version alone, in a folder whose name has no host in it: an earlier run's would be built.
for package in "${packages[@]}"; do
    rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-*/"$package"-[0-9]*
done
cargo package --quiet --locked ${dirty:-} "${packages[@]/#/--package=}"
for package in "${packages[@]}"; do
    listed=$(cargo package --quiet --locked ${dirty:-} --list --package "$package")
    for file in LICENSE-APACHE LICENSE-MIT README.md CHANGELOG.md; do
        grep -qx "$file" <<<"$listed" || { echo "$package lacks $file"; exit 1; }
    done
done
