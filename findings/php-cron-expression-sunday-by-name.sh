#!/usr/bin/env bash
# dragonmantank/cron-expression 3.3.1 (Debian's php-dragonmantank-cron-expression 3.3.1-2), the cron of Laravel and
# Symfony: a range of days that ends with Sunday by its name leaves Sunday out. `SAT-SUN` is Saturday alone, and a
# job of `MON-SUN` does not run on Sundays; by number, `6-7` and `1-7`, it does. And the working day nearest to a
# day that the month does not have is sought in the next month: `31W` is February 3 and April 1 as well as the
# last working day of a month of 31. Its DayOfWeekField says that days may be 0-7 or SUN to SAT, its
# DayOfMonthField that W does not leave the month (https://github.com/dragonmantank/cron-expression, src/Cron). 3.6.0
# does the same.
#
# Seen, from Saturday, January 3, 2026: "0 9 * * SAT-SUN: Sat 01-03, Sat 01-10, Sat 01-17; due on Sunday: no",
# "0 9 * * 6-7: Sat 01-03, Sun 01-04, Sat 01-10; due on Sunday: yes", "0 9 31W * *: Fri 01-30, Tue 02-03, Tue
# 03-31, Wed 04-01".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
version=3.3.1-2
apt-get download "php-dragonmantank-cron-expression=$version" php-webmozart-assert=1.11.0-1 \
    php8.2-cli=8.2.36-1~deb12u1 >/dev/null 2>&1 || {
    echo "not checked: no Debian packages php-dragonmantank-cron-expression $version and php8.2-cli 8.2.36 here"
    exit 77
}
for package in *.deb; do dpkg -x "$package" .; done
cat >runs.php <<'END'
<?php
require 'Cron/autoload.php';

foreach (['SAT-SUN', '6-7', 'MON-SUN', '1-7'] as $days) {
    $cron = new Cron\CronExpression("0 9 * * $days");
    $runs = array_map(fn ($run) => $run->format('D m-d'), $cron->getMultipleRunDates(3, '2026-01-03 00:00'));
    $due = $cron->isDue(new DateTime('2026-01-04 09:00')) ? 'yes' : 'no';
    echo "0 9 * * $days: " . implode(', ', $runs) . "; due on Sunday: $due\n";
}
$cron = new Cron\CronExpression('0 9 31W * *');
$runs = array_map(fn ($run) => $run->format('D m-d'), $cron->getMultipleRunDates(4, '2026-01-03 00:00'));
$due = $cron->isDue(new DateTime('2026-02-03 09:00')) ? 'yes' : 'no';
echo '0 9 31W * *: ' . implode(', ', $runs) . "; due on February 3: $due\n";
END
# -n: no settings; the warnings are of PHP 8.2 about the library.
timeout 60 usr/bin/php8.2 -n -d display_errors=0 -d date.timezone=UTC -d include_path="$PWD/usr/share/php" runs.php |
    tee seen
diff - seen <<'END'
0 9 * * SAT-SUN: Sat 01-03, Sat 01-10, Sat 01-17; due on Sunday: no
0 9 * * 6-7: Sat 01-03, Sun 01-04, Sat 01-10; due on Sunday: yes
0 9 * * MON-SUN: Sat 01-03, Mon 01-05, Tue 01-06; due on Sunday: no
0 9 * * 1-7: Sat 01-03, Sun 01-04, Mon 01-05; due on Sunday: yes
0 9 31W * *: Fri 01-30, Tue 02-03, Tue 03-31, Wed 04-01; due on February 3: yes
END
