#!/usr/bin/env bash
# QuickJS 2025-04-26, `qjs` (quickjs 2025.04.26-1 of Debian 13): while a timeout is due, no handler of a file
# descriptor is called, however long it has been ready. A chain of `setTimeout(f, 0)`, the usual way to let
# others in, lets in none of them; a thousand such turns come before the handler of a pipe that has a byte.
# And of timeouts that are due the one that was set first comes first, 50 ms before 10 ms. In Node.js both
# are the other way about. Its manual has nothing of either.
#
# Seen: "the handler of a ready pipe: after 1000 of 1000 turns", "set: 50 10 30, come: 50 10 30".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
# A system older than Debian 13 takes its C library too, and `qjs` is run by the loader of that.
mkdir -p lists/partial archives/partial
key=/usr/share/keyrings/debian-archive-keyring.gpg
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m 1 '/debian/$')
echo "deb [signed-by=$key] $mirror trixie main" >sources.list
debian=(-o "Dir::Etc::sourcelist=$PWD/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::lists=$PWD/lists" -o "Dir::Cache=$PWD")
version=2025.04.26-1
if ! apt-get "${debian[@]}" update >/dev/null 2>&1 ||
    ! apt-get "${debian[@]}" download "quickjs=$version" libc6 >/dev/null 2>&1; then
    echo "not checked: no Debian package quickjs $version here"
    exit 77
fi
for package in *.deb; do dpkg -x "$package" .; done
libraries=$(dirname "$(find usr/lib -name libm.so.6)")
cat >run.js <<'END'
import * as os from "os";
import * as std from "std";

const wait = (delay) => new Promise((resolve) => os.setTimeout(resolve, delay));
const turns = 1000;
const [reader, writer] = os.pipe();
os.write(writer, new Uint8Array(1).buffer, 0, 1);
let turn = 0;
let handled = "none";
os.setReadHandler(reader, () => {
    handled = turn;
    os.setReadHandler(reader, null);
});
for (; turn < turns; turn++) await wait(0);
await wait(50);
console.log(`the handler of a ready pipe: after ${handled} of ${turns} turns`);

const seen = [];
for (const delay of [50, 10, 30]) os.setTimeout(() => seen.push(delay), delay);
const until = Date.now() + 100;
while (Date.now() < until);
await wait(50);
console.log(`set: 50 10 30, come: ${seen.join(" ")}`);
std.exit(Number(handled !== turns || seen.join() !== "50,10,30"));
END
"$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" usr/bin/qjs --module run.js
