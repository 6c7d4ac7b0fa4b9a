//! The reader of crontab(5) files.

use std::time::SystemTime;

use jiff::Timestamp;
use tourbillon_cron::Schedule;
use tourbillon_crontab::{Fault, Format, Job, Table, parse};

/// Lines of the kinds that Debian's packages install.
const SYSTEM: &str = include_str!("system.crontab");

/// A minute in UTC, as `2026-03-29T01:00`.
fn utc(text: &str) -> SystemTime {
    let time: Timestamp = format!("{text}:00Z").parse().expect("a time");
    time.into()
}

fn shown(time: SystemTime) -> String {
    let text = Timestamp::try_from(time).expect("within range").to_string();
    text.trim_end_matches(":00Z").to_owned()
}

fn user(text: &str) -> Table {
    parse(text, Format::User, "UTC").unwrap_or_else(|faults| panic!("{faults:?}"))
}

fn only(line: &str) -> Job {
    let jobs = user(&format!("{line}\n")).jobs;
    assert_eq!(jobs.len(), 1, "{line}");
    jobs.into_iter().next().expect("one job")
}

fn faults(text: &str, format: Format) -> Vec<Fault> {
    parse(text, format, "UTC").expect_err(text)
}

fn value<'a>(job: &'a Job, name: &str) -> Option<&'a str> {
    let mut values = job.variables.iter().rev();
    values.find(|(set, _)| set == name).map(|(_, value)| value.as_str())
}

#[test]
fn a_system_file_has_users_variables_and_comments() {
    let table = parse(SYSTEM, Format::System, "Europe/Berlin").expect("no faults");
    let jobs: Vec<_> = table
        .jobs
        .iter()
        .map(|job| {
            let when = job.when.as_ref().map(|cron| cron.expression());
            (job.line, when, job.user.as_deref().unwrap(), job.command.as_str())
        })
        .collect();
    assert_eq!(
        jobs,
        [
            (8, Some("17 *\t* * *"), "root", "cd / && run-parts /etc/cron.hourly"),
            (
                9,
                Some("25 6 * * *"),
                "root",
                "test -x /usr/sbin/anacron || run-parts /etc/cron.daily"
            ),
            (11, None, "logs", "if [ -x /usr/sbin/check ]; then check -R; fi"),
            (12, Some("09,39 *  * * *"), "www-data", "[ -x /usr/lib/clean ] && /usr/lib/clean"),
            (13, Some("57 0 * * 0"), "root", "[ $(date +%d) -le 7 ] && check --all"),
            (16, Some("0 9 * * mon-fri"), "root", "open"),
        ]
    );
    assert_eq!(value(&table.jobs[0], "SHELL"), Some("/bin/sh"));
    assert_eq!(value(&table.jobs[0], "MAILTO"), None);
    assert_eq!(value(&table.jobs[2], "MAILTO"), Some("root"));
    let next = |place: usize| {
        let cron = table.jobs[place].when.as_ref().unwrap();
        shown(cron.next_after(utc("2026-06-30T12:00")).unwrap())
    };
    // 6:25 in Berlin, and 9:00 in Tokyo.
    assert_eq!((next(1).as_str(), next(5).as_str()), ("2026-07-01T04:25", "2026-07-01T00:00"));
}

#[test]
fn variables_are_those_above_with_or_without_quotes() {
    let table = user(concat!(
        "A=1\n  B = two words \n'C D' = \" x \"\nE='\nF=\"it's\"\nG=\n* * * * * one\nA=2\n",
        "* * * * * X=1 env\n"
    ));
    let [one, env] = &table.jobs[..] else { panic!("two jobs") };
    for (name, expected) in
        [("A", "1"), ("B", "two words"), ("C D", " x "), ("E", "'"), ("F", "it's"), ("G", "")]
    {
        assert_eq!(value(one, name), Some(expected), "{name}");
    }
    assert_eq!((value(env, "A"), env.command.as_str()), (Some("2"), "X=1 env"));
}

#[test]
fn a_percent_sign_parts_the_command_from_its_input() {
    for (line, command, input) in [
        ("* * * * * cat%a%b", "cat", Some("a\nb\n")),
        ("* * * * * cat%a%", "cat", Some("a\n")),
        ("* * * * * cat%", "cat", Some("")),
        (r"* * * * * date +\%d%50\% and \n", "date +%d", Some("50% and \\n\n")),
        (r"* * * * * a\\b \\\\ \c \ ", r"a\b \\ \c \ ", None),
        (r"* * * * * cat \\%a\\b\\\%c", r"cat \", Some("a\\\\b\\\\%c\n")),
    ] {
        let job = only(line);
        assert_eq!((job.command.as_str(), job.input.as_deref()), (command, input), "{line}");
    }
}

#[test]
fn nicknames_stand_for_the_fields_and_reboot_for_none() {
    assert_eq!(only("@Daily  run  it").command, "run  it");
    assert!(only("\t@reboot run").when.is_none());
    assert!(only("@hourly run").when.is_some());
}

#[test]
fn every_fault_of_a_file_is_told_with_its_line_and_column() {
    let text = concat!(
        "# fine\n0 26 * * * run\n\t5 4 * *\nCRON_TZ = 'Mars/X'\n@fortnightly run\n",
        "0 0 32 FEB *\trun\n* * * * *\n* * * * * é run\n",
    );
    let lines = |format| -> Vec<_> {
        let at = |fault: &Fault| (fault.line, fault.text[fault.range.clone()].to_owned());
        faults(text, format).iter().map(at).collect()
    };
    let expected: Vec<_> =
        [(2, "26"), (3, "5 4 * *"), (4, "Mars/X"), (5, "@fortnightly"), (6, "32"), (7, "")]
            .map(|(line, text)| (line, text.to_owned()))
            .into();
    assert_eq!(lines(Format::User), expected);
    assert_eq!(lines(Format::System), expected);
    assert_eq!(
        faults("\t0 0 * * é é\n", Format::System)[0].to_string(),
        "1:10: day of week: `é` is not a value\n    \t0 0 * * é é\n    \t        ^"
    );
    assert_eq!(
        faults("@daily root\n", Format::System)[0].to_string(),
        "1:12: the command is missing\n    @daily root\n               ^"
    );
    let unknown = parse("* * * * * run\n", Format::User, "Mars/X").expect_err("an unknown zone");
    assert_eq!(unknown[0].message, "time zone: `Mars/X` is not known");
}

#[test]
fn a_line_whose_time_never_comes_is_told_and_left_out_and_the_others_are_jobs() {
    let text = "1 1 * * * a\n0 0 31 2 * b\n0 22-6 * * * c\n0 1 * * fri-mon d\n2 2 * * * e\n";
    let table = user(text);
    let jobs: Vec<_> = table.jobs.iter().map(|job| &*job.command).collect();
    assert_eq!(jobs, ["a", "e"]);
    let told: Vec<_> = table.never.iter().map(|fault| fault.to_string()).collect();
    let first = |text: &String| text.lines().next().unwrap().to_owned();
    assert_eq!(
        told.iter().map(first).collect::<Vec<_>>(),
        [
            "2:5: day of month: `31 2` never comes",
            "3:3: hour: `22-6` ends before it starts",
            "4:9: day of week: `fri-mon` ends before it starts",
        ]
    );
    // It has the other parts of a line, or the file is not used, as with cron.
    assert_eq!(faults("0 0 31 2 *\n", Format::User)[0].message, "the command is missing");
    assert_eq!(faults("0 0 31 2 * b\n", Format::System)[0].message, "the command is missing");
}

#[test]
fn a_line_that_is_not_utf8_is_a_fault_unless_it_is_a_comment() {
    let text = b"# caf\xe9\n \t#\xff\n@daily run\r\n@daily caf\xe9 x\nA=\xff\n@daily caf\xc3\xa9\n";
    let faults = parse(text, Format::User, "UTC").expect_err("two lines");
    let told: Vec<_> = faults.iter().map(|fault| fault.to_string()).collect();
    assert_eq!(
        told,
        [
            "4:11: this is not UTF-8\n    @daily caf\u{fffd} x\n              ^",
            "5:3: this is not UTF-8\n    A=\u{fffd}\n      ^",
        ]
    );
    let table = parse(&text[..24], Format::User, "UTC").expect("comments and a job");
    assert_eq!((table.jobs[0].line, table.jobs[0].command.as_str()), (3, "run"));
}

#[test]
fn a_last_line_without_an_end_is_a_fault_unless_it_is_blank_or_a_comment() {
    for last in ["@daily two", "A=b", " \t@daily two "] {
        let text = format!("@daily one\n{last}");
        let fault = &faults(&text, Format::User)[0];
        let column = last.chars().count() + 1;
        let said = format!("2:{column}: the last line does not end with a newline\n");
        assert!(fault.to_string().starts_with(&said), "{fault}");
    }
    for last in ["", "\n", "  \t", "# two", "\t# two"] {
        assert_eq!(user(&format!("@daily one\n{last}")).jobs.len(), 1, "{last}");
    }
}

#[test]
fn a_fault_shows_no_more_than_an_excerpt_and_nothing_that_a_terminal_acts_upon() {
    let text = format!("{}\u{1b}[2J* * * * *\n", "9".repeat(1_000_000));
    let fault = &faults(&text, Format::User)[0];
    let shown = fault.to_string();
    let (_, excerpt) = shown.split_once('\n').expect("an excerpt");
    assert!(excerpt.chars().count() < 400, "{}", excerpt.len());
    let far = format!("{} x \u{1b}[2J\n", "1,".repeat(1000) + "77 * * * *");
    let shown = faults(&far, Format::User)[0].to_string();
    assert!(shown.starts_with("1:2001: minute: `77`"), "{shown}");
    let expected = format!("    {}77 * * * * x \\u{{1b}}[2J\n    {:60}^^", "1,".repeat(30), "");
    assert_eq!(shown.split_once('\n').map(|(_, excerpt)| excerpt), Some(expected.as_str()));
}

#[test]
fn no_file_makes_the_reader_panic() {
    let parts =
        ["* ", "\t", "\n", "=", "'", "\"", "%", "\\", "@daily ", "é", "#", "A", "0 ", "CRON_TZ="];
    let mut state = 1_u64;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..16 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            text.push_str(parts[(state >> 33) as usize % parts.len()]);
        }
        for format in [Format::User, Format::System] {
            for fault in parse(&text, format, "UTC").err().into_iter().flatten() {
                assert!(fault.to_string().starts_with(&format!("{}:", fault.line)));
            }
        }
    }
}
