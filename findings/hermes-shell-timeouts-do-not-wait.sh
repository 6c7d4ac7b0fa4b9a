#!/usr/bin/env bash
# Hermes 0.12.0, its shell `hermes` (npm's hermes-engine-cli 0.12.0): `setTimeout` leaves its delay unread and
# calls what was set in the order in which it was set, so a minute comes before no delay at all, and a
# promise's callback, which elsewhere comes before any timeout, has its place in the same row. A test that
# races a timeout against work passes or fails there by the order of its lines. In React Native, to which
# Hermes belongs, timeouts are others. Its `--help` and README do not speak of it.
#
# Seen: "set: minute promise none, come: minute promise none".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
npm install --silent --no-audit --no-fund hermes-engine-cli@0.12.0
cat >run.js <<'END'
var seen = [];
function see(name) {
    seen.push(name);
    if (seen.length === 3) print('set: minute promise none, come: ' + seen.join(' '));
}
setTimeout(function () { see('minute'); }, 60000);
Promise.resolve().then(function () { see('promise'); });
setTimeout(function () { see('none'); }, 0);
END
timeout 50 node_modules/hermes-engine-cli/linux64-bin/hermes run.js | tee seen
diff - seen <<'END'
set: minute promise none, come: minute promise none
END
