//! Answers as tables.

use serde_json::Value;

/// Returns `text` without control characters for a terminal: names and answers are others'.
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || directs(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// Returns whether it changes the direction of the text behind it.
const fn directs(c: char) -> bool {
    let marks = matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}');
    marks || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A value as a cell.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => visible(text),
        Value::Array(all) if all.is_empty() => "-".to_owned(),
        Value::Array(all) => all.iter().map(cell).collect::<Vec<_>>().join(", "),
        other => visible(&other.to_string()),
    }
}

/// Rows below their titles, in columns.
pub(super) fn table(titles: &[&str], rows: &[Vec<String>]) -> String {
    let wide = |text: &str| text.chars().count();
    let mut widths: Vec<usize> = titles.iter().map(|title| wide(title)).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(wide(cell));
        }
    }
    let titles: Vec<String> = titles.iter().map(|title| (*title).to_owned()).collect();
    let mut text = String::new();
    for row in std::iter::once(&titles).chain(rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line += &format!("{cell:width$}  ");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn rows(items: &Value, row: impl Fn(&Value) -> Vec<String>) -> Vec<Vec<String>> {
    items.as_array().into_iter().flatten().map(row).collect()
}

/// Some fields of each item of a list.
fn columns(items: &Value, names: &[&str], titles: &[&str]) -> String {
    table(titles, &rows(items, |item| names.iter().map(|name| cell(&item[*name])).collect()))
}

/// When, in a word or two.
fn when(when: &Value) -> String {
    let field = |name: &str| when[name].as_str();
    let text = match (field("cron"), field("every"), field("at"), field("after")) {
        (Some(cron), ..) => format!("{cron} {}", field("zone").unwrap_or("UTC")),
        (_, Some(every), ..) => match field("anchor") {
            Some(anchor) => format!("every {every} from {anchor}"),
            None => format!("every {every}"),
        },
        (_, _, Some(at), _) => format!("at {at}"),
        (_, _, _, Some(after)) => format!("after {after}"),
        _ => "-".to_owned(),
    };
    visible(&text)
}

pub(super) fn apps(answer: &Value) -> String {
    let items = if answer.is_array() { answer } else { &answer["items"] };
    columns(items, &["name"], &["APP"])
}

/// Labels, as `--label` takes each.
fn labels(labels: &Value) -> String {
    let all = labels.as_object().into_iter().flatten();
    let all = all.map(|(name, value)| match value.as_str() {
        Some("") => visible(name),
        _ => format!("{}:{}", visible(name), cell(value)),
    });
    let all: Vec<_> = all.collect();
    if all.is_empty() { "-".to_owned() } else { all.join(", ") }
}

/// Returns the result of a schedule's last run, and its time.
fn last(run: &Value) -> String {
    let [state, status, recorded] = ["state", "status", "recorded"].map(|name| &run[name]);
    match (state, status) {
        (Value::Null, _) => "-".to_owned(),
        (_, Value::Null) => format!("{}, {}", cell(state), cell(recorded)),
        _ => format!("{} {}, {}", cell(state), cell(status), cell(recorded)),
    }
}

pub(super) fn schedules(items: &Value) -> String {
    let row = |item: &Value| {
        let next = match &item["unreadable"] {
            Value::String(why) => format!("none: {}", visible(why)),
            _ => item["next"].get(0).map_or_else(|| "-".to_owned(), cell),
        };
        let url = cell(&item["callback"]["url"]);
        let [key, state] = ["key", "state"].map(|name| cell(&item[name]));
        let (last, labels) = (last(&item["last_runs"][0]), labels(&item["labels"]));
        vec![key, state, when(&item["when"]), last, next, labels, url]
    };
    table(&["KEY", "STATE", "WHEN", "LAST RUN", "NEXT", "LABELS", "CALLS"], &rows(items, row))
}

/// Names the runs that continue after a disable or a delete, if any.
pub(super) fn switched(answer: &Value) -> String {
    match answer["running"].as_array() {
        Some(running) if !running.is_empty() => {
            format!("done; attempts that run still: {}\n", cell(&answer["running"]))
        }
        _ => "done\n".to_owned(),
    }
}

pub(super) fn preview(answer: &Value) -> String {
    let mut text = columns(&answer["items"], &["at", "local", "note"], &["AT", "LOCAL", "NOTE"]);
    for note in answer["notes"].as_array().into_iter().flatten() {
        let about = match note.as_str().unwrap_or_default() {
            "either_day" => {
                "Days match that match either field. Some other schedulers ask for both."
            }
            "both_days" => "Days match that match both fields. Some other schedulers take either.",
            "weekday_numbers" => "Day 0 or 7 of the week is Sunday. In Quartz it is 1.",
            other => other,
        };
        text.push_str(&format!("Note: {}\n", visible(about)));
    }
    text
}

pub(super) fn runs(items: &Value) -> String {
    let row = |item: &Value| {
        let last = item["ended_attempts"].as_array().and_then(|attempts| attempts.last());
        let answer = last.map_or_else(|| "-".to_owned(), outcome);
        let fields = ["id", "key", "scheduled_for", "state", "attempts"];
        fields.iter().map(|name| cell(&item[*name])).chain([answer]).collect()
    };
    table(&["ID", "KEY", "SCHEDULED FOR", "STATE", "ATTEMPTS", "LAST ANSWER"], &rows(items, row))
}

/// Returns the outcome of an attempt.
fn outcome(one: &Value) -> String {
    match (&one["status"], &one["error"]) {
        (Value::Null, error) => cell(error),
        (status, Value::Null) => cell(status),
        (status, error) => format!("{} {}", cell(status), cell(error)),
    }
}

pub(super) fn run(answer: &Value) -> String {
    let row = |one: &Value| {
        let fields = ["attempt", "started", "ms"];
        let outcome = outcome(one);
        fields.iter().map(|name| cell(&one[*name])).chain([outcome, cell(&one["answer"])]).collect()
    };
    let attempts = rows(&answer["ended_attempts"], row);
    let mut rest = answer.clone();
    if let Some(rest) = rest.as_object_mut() {
        rest.remove("ended_attempts");
    }
    let mut text = fields(&rest);
    if !attempts.is_empty() {
        text +=
            &format!("\n{}", table(&["ATTEMPT", "STARTED", "MS", "CAME TO", "ANSWER"], &attempts));
    }
    text
}

pub(super) fn overview(answer: &Value) -> String {
    let cut = answer["at_least"].as_array().map(Vec::as_slice).unwrap_or_default();
    let least = |name: &str| if cut.iter().any(|cut| cut == name) { "at least " } else { "" };
    let single = ["now", "overdue", "running", "enabled", "disabled"];
    let mut text = String::new();
    for name in single {
        text += &format!("{name:10}  {}{}\n", least(name), cell(&answer[name]));
    }
    for name in ["outcomes", "lateness"] {
        let counts = answer[name].as_object().into_iter().flatten();
        let counts = counts.filter(|(_, value)| value.is_number());
        let counts = counts.map(|(part, value)| format!("{part} {}{value}", least(name)));
        text += &format!("{name:10}  {}\n", visible(&counts.collect::<Vec<_>>().join(", ")));
    }
    let next = answer["pending_next_hour"].as_array().into_iter().flatten();
    let next: u64 = next.filter_map(Value::as_u64).sum();
    text += &format!("{:10}  {}{next}\n\n", "next hour", least("pending_next_hour"));
    text += &columns(
        &answer["nodes"],
        &["id", "beat", "expires", "clock_offset_ms"],
        &["NODE", "BEAT", "LEASE ENDS", "CLOCK OFF BY MS"],
    );
    if let Some(failing) = answer["failing"].as_array().filter(|failing| !failing.is_empty()) {
        text += &format!("\n{}", runs(&answer["failing"]));
        if !least("failing").is_empty() {
            text += &format!("the last {}: there are more\n", failing.len());
        }
    }
    text
}

/// Fields of an attempt that are looked for first, in this order.
const FIRST: [&str; 4] = ["status", "error", "answer", "ms"];

/// Returns the fields of an attempt: its outcome and the answer before the headers.
pub(super) fn attempt(answer: &Value) -> String {
    let mut lines = Vec::new();
    flatten("", answer, &mut lines);
    let place = |name: &str| FIRST.iter().position(|first| *first == name);
    lines.sort_by_key(|(name, _)| place(name).unwrap_or(FIRST.len()));
    aligned(&lines)
}

/// Returns every field on a line; nested fields have a dot between the names.
pub(super) fn fields(answer: &Value) -> String {
    let mut lines = Vec::new();
    flatten("", answer, &mut lines);
    aligned(&lines)
}

fn aligned(lines: &[(String, String)]) -> String {
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    lines.iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect()
}

/// Values by their paths.
pub(super) fn flatten(path: &str, value: &Value, lines: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = visible(name);
                let path = if path.is_empty() { name } else { format!("{path}.{name}") };
                flatten(&path, value, lines);
            }
        }
        Value::Array(all) if all.iter().any(Value::is_object) => {
            for (index, value) in all.iter().enumerate() {
                flatten(&format!("{path}[{index}]"), value, lines);
            }
        }
        value => lines.push((path.to_owned(), cell(value))),
    }
}
