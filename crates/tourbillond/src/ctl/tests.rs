use clap::{CommandFactory as _, Parser as _};
use serde_json::{Value, json};

use super::apply::{self, Step, Wanted, plan, shown};
use super::crontab::{self, Whose};
use super::remote::{Remote, refusal};
use super::{Cli, Command, Failure, lines, show};
use crate::model::{Definition, Header, MissedPolicy, OverlapPolicy, RetryPolicy, When};

fn wanted(text: &str) -> Wanted {
    Wanted::parse(text.as_bytes(), true).unwrap()
}

const TWO: &str = r#"
    [schedules.hourly]
    when = { every = "1h" }
    callback = { url = "https://example.com/hourly" }

    [schedules.nightly]
    when = { cron = "0 2 * * *", zone = "Europe/Berlin" }
    callback = { url = "https://example.com/nightly", headers = { X-Who = "me" } }
    missed = { catch_up = 3 }
"#;

/// A list in the form of the service's answer, with the wanted schedules and its own fields.
fn answered(wanted: &Wanted) -> Value {
    let item = |(key, definition): (&String, _)| {
        let mut item = serde_json::to_value(definition).unwrap();
        let own =
            json!({ "app": "shop", "key": key, "state": "enabled", "version": 3, "next": [] });
        item.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        item
    };
    wanted.schedules.iter().map(item).collect()
}

/// The definition of a `put` by these flags.
fn put(flags: &str) -> Result<Definition, Failure> {
    let line = format!("tourbillonctl put k --to http://h/ {flags}");
    match Cli::try_parse_from(line.split_whitespace()).unwrap().command {
        Command::Put { define, .. } => define.definition(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_commands_make_sense() {
    Cli::command().debug_assert();
}

#[test]
fn flags_make_a_definition() {
    let flags = "--cron @daily --zone Asia/Tokyo --header A:b:c --secret-header B:ledger \
                 --missed catch-up=7 --overlap queue=2 --attempts 3 --disabled";
    let definition = put(flags).unwrap();
    assert_eq!(definition.callback.headers["A"], "b:c".into());
    let named = Header::Secret { secret: "ledger".to_owned() };
    assert_eq!(definition.callback.headers["B"], named);
    assert_eq!(definition.missed, Some(MissedPolicy::CatchUp(7)));
    assert_eq!(definition.overlap, Some(OverlapPolicy::Queue(2)));
    let pauses = RetryPolicy::default();
    assert_eq!(definition.retry.unwrap(), RetryPolicy { attempts: 3, ..pauses });
    assert!(!definition.enabled);
    let When::Cron(cron) = definition.when else { panic!("another time") };
    assert_eq!((&*cron.cron, &*cron.zone), ("@daily", "Asia/Tokyo"));
}

#[test]
fn flags_make_bounds_a_lane_labels_and_alerts() {
    let flags = "--every 1h --lane customer-7 --label team:billing --label urgent \
                 --notify http://h/alert --success-within 2h --disable-after 3 \
                 --start 2030-01-01T00:00:00Z --end 2031-01-01T00:00:00Z --exclude a..b \
                 --exclude c..d=run-at-end";
    let definition = serde_json::to_value(put(flags).unwrap()).unwrap();
    assert_eq!(definition["lane"], "customer-7");
    assert_eq!(definition["labels"], json!({ "team": "billing", "urgent": "" }));
    assert_eq!(definition["notify"], json!({ "url": "http://h/alert" }));
    assert_eq!(definition["success_within"], "2h");
    assert_eq!(definition["disable_after"], 3);
    let windows = json!([
        { "from": "a", "until": "b", "then": "skip" },
        { "from": "c", "until": "d", "then": "run_at_end" },
    ]);
    let (start, end) = ("2030-01-01T00:00:00Z", "2031-01-01T00:00:00Z");
    assert_eq!(
        definition["when"],
        json!({ "every": "1h", "start": start, "end": end, "excluded": windows })
    );
    assert!(put("--at 2030-01-01T00:00:00Z --end x").is_err());
}

/// A definition with a value in every field.
const FULL: &str = r#"
    [schedules.full]
    when = { every = "1h", excluded = [{ from = "a", until = "b" }] }
    callback = { url = "https://example.com/" }
    labels = { team = "billing" }
    missed = "skip"
    on_time_within = "2m"
    overlap = "skip"
    jitter = "1s"
    lane = "a"
    retry = { attempts = 3 }
    notify = { url = "https://example.com/alert" }
    success_within = "25h"
    disable_after = 5
"#;

#[test]
fn every_field_of_a_definition_is_compared() {
    let full = wanted(FULL);
    let fields = serde_json::to_value(&full.schedules["full"]).unwrap();
    let Value::Object(fields) = fields else { panic!("no object") };
    assert!(fields.keys().eq(&apply::fields()), "a field is not in `FULL`");
    let there = answered(&full);
    assert_eq!(plan(&full, &there, None).unwrap(), []);
    for (old, new, shown_as) in [
        ("\"a\", until", "\"0\", until", "when.excluded[0].from: a -> 0"),
        ("lane = \"a\"", "", "lane: a -> -"),
        ("\"billing\"", "\"sales\"", "labels.team: billing -> sales"),
    ] {
        let text = shown(&plan(&wanted(&FULL.replace(old, new)), &there, None).unwrap());
        assert_eq!(text, format!("~ full\n    {shown_as}\n"));
    }
}

#[test]
fn flags_that_contradict_are_refused() {
    for line in [
        "tourbillonctl put k --cron @daily --every 5s --to http://h/",
        "tourbillonctl put k --at now --after 5s --to http://h/",
        "tourbillonctl put k --every 5s --zone UTC --to http://h/",
        "tourbillonctl put k --every 5s --missed sometimes --to http://h/",
        "tourbillonctl put k --every 5s --to http://h/ --header nothing",
        "tourbillonctl preview",
        "tourbillonctl preview k --every 5s",
        "tourbillonctl preview k --end 2030-01-01T00:00:00Z",
        "tourbillonctl preview k --anchor 2030-01-01T00:17:00Z",
        "tourbillonctl put k --cron @daily --to http://h/ --anchor 2030-01-01T00:17:00Z",
        "tourbillonctl put k --every 5s --to http://h/ --exclude a",
        "tourbillonctl put k --every 5s --to http://h/ --exclude a..b=sometimes",
        "tourbillonctl pause k",
        "tourbillonctl backfill k --since 2030-01-01T00:00:00Z",
        "tourbillonctl delete",
    ] {
        assert!(Cli::try_parse_from(line.split_whitespace()).is_err(), "{line}");
    }
    assert!(put("").is_err());
}

#[test]
fn a_plan_says_what_differs() {
    let there = answered(&wanted(TWO));
    let new = wanted(&TWO.replace("0 2", "30 3").replace("hourly", "half").replace("1h", "30m"));
    let steps = plan(&new, &there, None).unwrap();
    let [Step::Create(made, _), Step::Replace(changed, ..)] = &*steps else { panic!("{steps:?}") };
    assert_eq!((&**made, &**changed), ("half", "nightly"));
    let text = shown(&steps);
    assert_eq!(text, "+ half\n~ nightly\n    when.cron: 0 2 * * * -> 30 3 * * *\n");
    let pruned = plan(&new, &there, Some("")).unwrap();
    assert_eq!(pruned[2..], [Step::Delete("hourly".to_owned())]);
    assert_eq!(plan(&new, &there, Some("night")).unwrap(), steps, "only what begins so goes");
}

#[test]
fn a_value_that_is_not_shown_is_not_shown_in_a_plan_either() {
    let two = wanted(&TWO.replace("X-Who = \"me\"", "Authorization = \"hunter2\""));
    let mut there = answered(&two);
    there[1]["callback"]["headers"]["Authorization"] = json!("••••••••");
    let steps = plan(&two, &there, None).unwrap();
    assert!(matches!(&*steps, [Step::Hidden(key, _, 3)] if key == "nightly"), "{steps:?}");
    assert_eq!(shown(&steps), "~ nightly\n    callback.headers: a value that is not shown\n");
    there[1]["callback"]["url"] = json!("https://example.com/other");
    let text = shown(&plan(&two, &there, None).unwrap());
    assert!(text.contains("callback.url: https://example.com/other ->"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    there[1]["callback"]["headers"] = json!({});
    let text = shown(&plan(&two, &there, None).unwrap());
    assert!(text.contains("callback.headers.Authorization: - -> ••••••••"), "{text}");
}

#[test]
fn what_is_over_is_not_there() {
    let two = wanted(TWO);
    let mut there = answered(&two);
    there[0]["state"] = json!("succeeded");
    let steps = plan(&two, &there, Some("")).unwrap();
    assert!(matches!(&*steps, [Step::Create(key, _)] if key == "hourly"), "{steps:?}");
}

#[test]
fn a_file_is_refused_with_the_reason() {
    let refused = |text: &str| Wanted::parse(text.as_bytes(), true).unwrap_err();
    assert!(refused(&TWO.replace("missed", "mised")).contains("mised"));
    assert!(refused(&TWO.replace("every =", "after =")).contains("`at`"));
    assert!(Wanted::parse(b"\xff", true).is_err());
    assert!(Wanted::parse(TWO.as_bytes(), false).is_err(), "it is no JSON");
}

#[test]
fn lines_are_refused_with_their_number() {
    let line = r#"{"key":"k","when":{"every":"1h"},"callback":{"url":"https://h/"}}"#;
    let refused = |text: String| lines::parse(text.as_bytes()).unwrap_err();
    let whole = format!("\n{line}\r\n\n{{\"end\":1}}\n\n");
    assert_eq!(lines::parse(whole.as_bytes()).unwrap().schedules.len(), 1);
    assert!(lines::parse(b"{\"end\":0}\n").unwrap().schedules.is_empty());
    for cut in ["", "\n", line] {
        assert!(refused(cut.to_owned()).starts_with("the lines may be cut short"), "{cut}");
    }
    assert!(refused(format!("{line}\n{{\"end\":2}}")).starts_with("the last line counts 2"));
    assert!(refused(format!("{{\"end\":0}}\n{line}")).starts_with("line 2: nothing may follow"));
    assert!(refused(format!("{line}\n{line}")).starts_with("line 2: an earlier line has"));
    assert!(refused(line.replace("every", "after")).contains("`at`, not `after`"));
    assert!(refused(line.replace("\"key\"", "\"name\"")).starts_with("line 1: it has no `key`"));
    assert!(refused(line.replace("url", "uri")).contains("uri"));
    assert!(refused(format!("{line}{line}")).starts_with("line 1: "));
}

#[test]
fn an_import_is_of_lines_or_of_another_scheduler() {
    let parse = |line: &str| match Cli::try_parse_from(line.split_whitespace()) {
        Ok(Cli { command: Command::Import(import), .. }) => Some(import),
        _ => None,
    };
    assert!(parse("tourbillonctl import").is_none());
    let lines = parse("tourbillonctl import --yes file").unwrap();
    assert!(lines.from.is_none() && lines.file.is_some() && lines.consent.yes);
    let crontab = parse("tourbillonctl import crontab file --to http://h/ --dry-run").unwrap();
    assert!(crontab.from.is_some() && crontab.file.is_none());
}

/// Keys and definitions of a crontab, in the order of keys.
fn imported(text: &str) -> Vec<(String, Definition)> {
    let read = crontab::read(text.as_bytes(), Whose::User, "UTC", "tab-", "http://h/{key}");
    read.unwrap().schedules.into_iter().collect()
}

#[test]
fn a_crontab_becomes_schedules() {
    let text = b"MAILTO=ann\nCRON_TZ=Europe/Paris\n# all is well\n0 5 * * 1 echo {{x}} 50\\%\n\
                 @hourly /bin/cat%one%two\n";
    let to = "https://example.com/{user}/{line}/{key}";
    let read = crontab::read(text, Whose::User, "UTC", "tab-", to).unwrap();
    let [(second, hourly), (first, weekly)] = &*Vec::from_iter(&read.schedules) else {
        panic!("{read:?}")
    };
    assert!(first.starts_with("tab-echo-") && second.starts_with("tab-cat-"), "{first} {second}");
    assert_eq!(weekly.callback.url, format!("https://example.com//4/{first}"));
    assert_eq!(weekly.callback.body, "echo {{{{x}} 50%");
    assert_eq!(weekly.missed, Some(MissedPolicy::Skip));
    let When::Cron(cron) = &weekly.when else { panic!("another time") };
    assert_eq!((&*cron.cron, &*cron.zone), ("0 5 * * 1", "Europe/Paris"));
    assert_eq!(hourly.callback.body, "/bin/cat\none\ntwo\n");
}

#[test]
fn a_line_keeps_its_key_wherever_it_stands() {
    let before = imported("0 5 * * 1 backup all\n@hourly ping\n");
    let after = imported("# more\n\n1 1 * * * first\n@hourly ping\n0  5 * * 1   backup all\n");
    assert_eq!(after.len(), 3);
    assert!(before.iter().all(|line| after.contains(line)), "{before:?} {after:?}");
}

#[test]
fn a_line_that_says_something_else_has_another_key() {
    let keys = imported(
        "0 5 * * 1 a\n1 5 * * 1 a\n0 5 * * 1 a b\n0 5 * * 1 ab\n0 5 * * 1 /bin/a\n\
         0 5 * * 1 a%\n0 5 * * 1 a%b\nCRON_TZ=Asia/Tokyo\n0 5 * * 1 a\n0 5 * * 1 %%\n",
    );
    assert_eq!(keys.len(), 9, "{keys:?}");
    let user = |line: &str| {
        let read = crontab::read(line.as_bytes(), Whose::System, "UTC", "", "h").unwrap();
        read.schedules.into_keys().next().unwrap()
    };
    assert_ne!(user("0 5 * * 1 ann a\n"), user("0 5 * * 1 bob a\n"));
}

#[test]
fn lines_that_say_the_same_are_counted() {
    let keys = imported("@daily a\n@daily a\n@daily a\n");
    let [one, two, three] = &*keys else { panic!("{keys:?}") };
    assert_eq!((format!("{}-2", one.0), format!("{}-3", one.0)), (two.0.clone(), three.0.clone()));
}

#[test]
fn a_crontab_with_faults_makes_nothing() {
    let text = b"* * * * * root true\n@reboot root true\n61 * * * * root true\n";
    let faults = crontab::read(text, Whose::System, "UTC", "", "http://h/").unwrap_err();
    assert!(faults.starts_with("3:1: "), "{faults}");
    let never = crontab::read(b"@daily a b\n0 0 31 2 * a b\n", Whose::System, "UTC", "", "h");
    assert!(never.unwrap_err().starts_with("2:5: day of month: `31 2` never comes\n"));
    let faults = crontab::read(b"@reboot a b\n", Whose::System, "UTC", "", "h").unwrap_err();
    assert_eq!(faults, "1: `@reboot` cannot be imported, because it names no time\n");
    let faults = crontab::read(b"A=b\n@daily a\n", Whose::User, "UTC", "", "h").unwrap_err();
    assert_eq!(faults, "2: the variable `A` cannot be imported, because a callback has none\n");
}

#[test]
fn periods_have_an_anchor_and_previews_have_notes() {
    let definition = put("--every 1h --anchor 2030-01-01T00:17:00Z").unwrap();
    let definition = serde_json::to_value(definition).unwrap();
    assert_eq!(definition["when"], json!({ "every": "1h", "anchor": "2030-01-01T00:17:00Z" }));
    let shown = show::preview(&json!({
        "items": [{ "at": "2026-01-01T00:00:00Z", "local": "2026-01-01T00:00:00" }],
        "notes": ["either_day", "another"],
    }));
    let notes: Vec<_> = shown.lines().skip(2).collect();
    assert!(notes[0].starts_with("Note: Days match that match either field."), "{shown}");
    assert_eq!(notes[1], "Note: another");
}

#[test]
fn flags_make_a_test() {
    let line = "tourbillonctl test --to http://h/ --method PUT --body b --timeout 3s --success 404";
    let cli = Cli::try_parse_from(line.split_whitespace()).unwrap();
    let Command::Test { request } = cli.command else { panic!("another command") };
    let callback = serde_json::to_value(request.callback().unwrap()).unwrap();
    let expected = json!({
        "url": "http://h/", "method": "PUT", "body": "b", "timeout": "3s", "success": [404],
    });
    assert_eq!(callback, expected);
    let cli = Cli::try_parse_from(["tourbillonctl", "test"]).unwrap();
    let Command::Test { request } = cli.command else { panic!("another command") };
    assert!(request.callback().is_err());
}

#[test]
fn a_problem_names_its_fields_and_moves_no_cursor() {
    let problem = json!({
        "title": "Unprocessable Content",
        "detail": "the definition cannot be kept",
        "errors": [{ "field": "when.cron", "detail": "a minute is 0 to 59\u{1b}[2J" }],
    });
    assert_eq!(
        refusal(422, &problem),
        "422 Unprocessable Content: the definition cannot be kept\n  \
         when.cron: a minute is 0 to 59\\u{1b}[2J",
    );
}

#[test]
fn a_key_is_one_segment_of_an_address() {
    let remote = Remote::new("https://example.com/base/", None, None).unwrap();
    let url = remote.url(["v1", "a/b ?#", "enable"], &[("state", Some("a&b")), ("key", None)]);
    assert_eq!(url.as_str(), "https://example.com/base/v1/a%2Fb%20%3F%23/enable?state=a%26b");
    assert!(Remote::new("ftp://example.com", None, None).is_err());
    assert!(Remote::new("example", None, None).is_err());
}

#[test]
fn columns_are_as_wide_as_what_is_in_them() {
    let items = json!([
        { "key": "a", "state": "enabled", "when": { "every": "5s" }, "next": ["t"],
          "last_runs": [{ "state": "dead", "status": 503, "recorded": "r" }],
          "labels": { "team": "x\u{202e}", "urgent": "" }, "callback": { "url": "u" } },
        { "key": "b", "state": "enabled", "when": { "every": "5s" }, "next": ["t"],
          "last_runs": [{ "state": "skipped", "recorded": "r" }], "callback": { "url": "u" } },
        { "key": "long\u{202e}", "state": "disabled", "when": { "cron": "@daily", "zone": "UTC" },
          "last_runs": [], "next": [], "callback": { "url": "u" } },
    ]);
    let expected = "\
KEY           STATE     WHEN        LAST RUN     NEXT  LABELS                  CALLS
a             enabled   every 5s    dead 503, r  t     team:x\\u{202e}, urgent  u
b             enabled   every 5s    skipped, r   t     -                       u
long\\u{202e}  disabled  @daily UTC  -            -     -                       u
";
    assert_eq!(show::schedules(&items), expected);
}

#[test]
fn an_attempt_shows_its_answer_before_its_headers() {
    let shown = show::attempt(&json!({
        "attempt": 1, "ms": 7, "headers": { "a": "b" }, "error": null, "answer": "pong",
        "status": 200, "request": { "headers": {} },
    }));
    let names = shown.lines().map(|line| line.split(' ').next().unwrap());
    assert_eq!(
        names.collect::<Vec<_>>(),
        ["status", "error", "answer", "ms", "attempt", "headers.a"]
    );
}

#[test]
fn figures_that_are_cut_are_at_least_so_many() {
    let answer = json!({
        "now": "t", "overdue": 20_000, "running": 3, "enabled": 5, "disabled": 0,
        "outcomes": { "succeeded": 7, "dead": 1 }, "pending_next_hour": [5, 3],
        "at_least": ["overdue", "pending_next_hour", "outcomes", "failing"],
        "failing": [{ "id": "1", "key": "k", "ended_attempts": [] }], "nodes": [],
    });
    let shown = show::overview(&answer);
    for line in [
        "overdue     at least 20000",
        "running     3",
        "outcomes    dead at least 1, succeeded at least 7",
        "next hour   at least 8",
        "the last 1: there are more",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
    }
}
