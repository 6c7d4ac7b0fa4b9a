#!/usr/bin/env bash
# Schedule::Cron 1.05 (Debian's libschedule-cron-perl 1.05-1), a Perl module: a step in days of the month or in
# months counts from nought, and has the first as well. `*/3` in months is 1, 3, 6, 9, 12, so a job of each
# quarter runs five times a year, in December and again in January; `*/2` in days begins with the 1st and the
# 2nd. Its documents say that a star is the range from first to last, as in crontab(5), by which they are 1, 4,
# 7, 10, and 1, 3, 5; so it is here too if the range is written out, `1-12/3`. And a job of February 29 ends
# `run`, with all other jobs, as soon as it has run: no time within a year comes after it.
#
# Seen: "0 9 1 */3 *: 01-01 03-01 06-01 09-01 12-01 01-01", "0 9 1 1-12/3 *: 01-01 04-01 07-01 10-01 01-01 04-01",
# "0 9 */2 * *: 01-01 01-02 01-04 01-06 01-08 01-10", "on February 29: leap job, No suitable next execution time".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
version=1.05-1
apt-get download "libschedule-cron-perl=$version" libtime-parsedate-perl=2015.103-4 libfaketime=0.9.10-2.1 \
    >/dev/null 2>&1 || {
    echo "not checked: no Debian packages libschedule-cron-perl $version and libfaketime 0.9.10-2.1 here"
    exit 77
}
for package in *.deb; do dpkg -x "$package" .; done
cat >steps.pl <<'END'
use strict;
use warnings;
use POSIX 'strftime';
use Schedule::Cron;
use Time::Local 'timegm';

my $cron = Schedule::Cron->new(sub { });
for my $entry ('0 9 1 */3 *', '0 9 1 1-12/3 *', '0 9 */2 * *') {
    my $time = timegm(0, 0, 12, 31, 11, 2026);
    my @days;
    for (1 .. 6) {
        $time = $cron->get_next_execution_time($entry, $time);
        push @days, strftime('%m-%d', gmtime $time);
    }
    print "$entry: @days\n";
}
END
cat >leap.pl <<'END'
use strict;
use warnings;
use Schedule::Cron;

my @seen;
my $cron = Schedule::Cron->new(sub { push @seen, "$_[0] job" }, { nofork => 1 });
$cron->add_entry('0 0 29 2 *', 'leap');
$cron->add_entry('0 9 * * *', 'daily');
eval { $cron->run };
push @seen, $@ =~ /^(No suitable next execution time)/;
print 'on February 29: ', join(', ', @seen), "\n";
END
{
    TZ=UTC timeout 60 perl -Iusr/share/perl5 steps.pl
    TZ=UTC LD_PRELOAD=$(find "$PWD" -name libfaketime.so.1) FAKETIME='@2028-02-28 23:59:58' \
        timeout 60 perl -Iusr/share/perl5 leap.pl
} | tee seen
diff - seen <<'END'
0 9 1 */3 *: 01-01 03-01 06-01 09-01 12-01 01-01
0 9 1 1-12/3 *: 01-01 04-01 07-01 10-01 01-01 04-01
0 9 */2 * *: 01-01 01-02 01-04 01-06 01-08 01-10
on February 29: leap job, No suitable next execution time
END
