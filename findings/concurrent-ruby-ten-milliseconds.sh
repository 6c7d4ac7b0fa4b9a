#!/usr/bin/env bash
# concurrent-ruby 1.1.6 (Debian's ruby-concurrent 1.1.6+dfsg-5): a delay of 10 ms or less is none. A
# `ScheduledTask` of 10 ms runs at once, one of 11 ms in time. So a `TimerTask` with an interval of 10 ms has no
# pause at all: it runs thousands of times in half a second, and keeps a core busy. Its documents have this limit
# (of less than 10 ms) only with `TimerSet#post`, and nothing of it with the two classes.
#
# Seen: "a task of 11 ms: in time; of 10 ms: at once", "a timer of 11 ms in 0.5 s: up to 46 runs; of 10 ms: over
# 500", which were 3779.
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
version=1.1.6+dfsg-5
ruby=3.1.7+really3.1.2-0+deb12u1
apt-get download "ruby-concurrent=$version" "ruby3.1=$ruby" "libruby3.1=$ruby" >/dev/null 2>&1 || {
    echo "not checked: no Debian packages ruby-concurrent $version and ruby3.1 $ruby here"
    exit 77
}
for package in *.deb; do dpkg -x "$package" .; done
cat >runs.rb <<'END'
require 'concurrent'

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

# The shortest of some delays, in seconds.
def least(delay)
  Array.new(20) do
    come = Queue.new
    start = now
    Concurrent::ScheduledTask.execute(delay) { come << now }
    come.pop - start
  end.min
end

def runs(interval)
  count = 0
  task = Concurrent::TimerTask.new(execution_interval: interval) { count += 1 }
  task.execute
  sleep 0.5
  task.shutdown
  count
end

def told(delay)
  shortest = least(delay)
  return 'in time' if shortest >= delay

  shortest < delay / 4 ? 'at once' : 'early'
end

puts "a task of 11 ms: #{told(0.011)}; of 10 ms: #{told(0.010)}"
slower = runs(0.011)
faster = runs(0.010)
slower = 'up to 46' if slower <= 46
faster = 'over 500' if faster > 500
puts "a timer of 11 ms in 0.5 s: #{slower} runs; of 10 ms: #{faster}"
END
libraries=$(dirname "$(find "$PWD" -name 'libruby-3.1.so.3.1')")
export LD_LIBRARY_PATH=$libraries
RUBYLIB=$PWD/usr/lib/ruby/3.1.0:$libraries/ruby/3.1.0:$(dirname "$(find "$PWD" -name concurrent.rb)")
export RUBYLIB
timeout 60 usr/bin/ruby3.1 --disable-gems runs.rb | tee seen
diff - seen <<'END'
a task of 11 ms: in time; of 10 ms: at once
a timer of 11 ms in 0.5 s: up to 46 runs; of 10 ms: over 500
END
