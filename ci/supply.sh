#!/usr/bin/env bash
# Checks the dependencies by deny.toml: their licences, where they come from, and known
# vulnerabilities if the list of these can be fetched. Then writes what the service is made of, as
# CycloneDX, to target/tourbillond.cdx.json.
. "$(dirname "$0")/lib.sh"
need_cargo_tool cargo-deny
need_cargo_tool cargo-cyclonedx

say "licences and sources"
cargo deny --locked check licenses bans sources
say "known vulnerabilities"
cargo deny --locked check advisories

say "what the service is made of"
cargo cyclonedx --quiet --manifest-path crates/tourbillond/Cargo.toml --describe binaries \
    --format json --spec-version 1.5 --no-build-deps
