#!/usr/bin/env bash
# human-interval 2.0.1 (npm), by which Agenda and Bree read their intervals: "a minute", "an hour", "half an hour"
# and "every 5 minutes" are 0, "two and a half hours" are two, "1,000 seconds" and "one thousand seconds" one, and
# "500 milliseconds" 500 seconds, for "second" is found in them. "5 Minutes" is NaN, and `setTimeout` makes of it
# 1 ms, as of 0. Only a text without a unit that it knows is NaN too; nothing is refused. Its README
# (https://www.npmjs.com/package/human-interval) says that it takes numbers written out in English words, and its
# first example is a `setTimeout`.
#
# Seen, in seconds: "half an hour: 0", "two and a half hours: 7200", "one thousand seconds: 1", "500 milliseconds:
# 500" and so on, as below.
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
npm install --silent --no-audit --no-fund human-interval@2.0.1
cat >read.cjs <<'END'
const humanInterval = require('human-interval');

for (const text of [
    'minute',
    'one minute',
    'a minute',
    'half an hour',
    'every 5 minutes',
    'twenty-five seconds',
    'two and a half hours',
    'nine hundred seconds',
    'one thousand seconds',
    '1,000 seconds',
    '1.5 seconds',
    '500 milliseconds',
    '5 minutes',
    '5 Minutes',
]) {
    console.log(`${text}: ${humanInterval(text) / 1000}`);
}
END
timeout 60 node read.cjs | tee seen
diff - seen <<'END'
minute: 60
one minute: 60
a minute: 0
half an hour: 0
every 5 minutes: 0
twenty-five seconds: 25
two and a half hours: 7200
nine hundred seconds: 900
one thousand seconds: 1
1,000 seconds: 1
1.5 seconds: 1.5
500 milliseconds: 500
5 minutes: 300
5 Minutes: NaN
END
