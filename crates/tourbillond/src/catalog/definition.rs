//! Definitions: checks every field, and makes the store's rows.

use std::collections::BTreeMap;
use std::time::Duration;

use tourbillon_durable::{Every, Excluded, Missed, Overlap, Retry, Schedule, Time};

use super::error::{Error, Result};
use crate::callback;
use crate::config::App;
use crate::model::{
    self, Alerts, Bounds, Definition, MissedPolicy, OverlapPolicy, Stored, When, Window,
};

/// The largest definition, with all that is kept beside it, in bytes.
pub(super) const STORED_MAX: usize = 48 * 1024;

/// Most excluded windows of a schedule.
const WINDOWS_MAX: usize = 100;

/// Most labels of a schedule.
const LABELS_MAX: usize = 20;

/// The longest name of a label, in characters.
const LABEL_NAME_MAX: usize = 63;

/// Characters of a label's name, for people to read.
const LABEL_NAME_OF: &str = "of `A-Z a-z 0-9 - _ . /`";

/// The longest value of a label, in characters.
const LABEL_VALUE_MAX: usize = 120;

/// The longest key, in bytes.
const KEY_MAX: usize = 120;

/// Characters of a key, for people to read.
const KEY_OF: &str = "of `A-Z a-z 0-9 - _ . : @ + ~`";

/// The shortest period.
const PERIOD_MIN: Duration = Duration::from_secs(1);

/// The longest period or pause.
const YEAR: Duration = Duration::from_secs(366 * 86_400);

/// Most occurrences that are caught up, or wait in a queue.
const COUNT_MAX: u32 = 10_000;

/// When something is to happen, once the texts are read.
#[derive(Clone, Debug)]
pub(super) enum Times {
    /// Again and again.
    Repeated(Schedule),
    /// Once, then.
    At(Time),
    /// Once, so long from when the database has it.
    After(Duration),
}

/// A definition that makes sense.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) times: Times,
    pub(super) retry: Retry,
    missed: Missed,
    on_time_within: Duration,
    overlap: Overlap,
    jitter: Duration,
}

/// Fields that are wrong, and why.
#[derive(Default)]
struct Faults(Vec<(String, String)>);

impl Faults {
    fn add(&mut self, field: &str, why: impl Into<String>) {
        self.0.push((field.to_owned(), why.into()));
    }

    /// The value, or a fault in its place.
    fn take<T>(&mut self, field: &str, value: std::result::Result<T, String>) -> Option<T> {
        value.map_err(|why| self.add(field, why)).ok()
    }

    fn span(&mut self, field: &str, text: Option<&String>, default: &str) -> Duration {
        let text = text.map_or(default, String::as_str);
        let span = model::span(text).and_then(|span| {
            if span > YEAR { Err("it is longer than a year".to_owned()) } else { Ok(span) }
        });
        self.take(field, span).unwrap_or_default()
    }

    fn count(&mut self, field: &str, count: u32, max: u32) {
        if !(1..=max).contains(&count) {
            self.add(field, format!("it is not within 1 to {max}"));
        }
    }
}

impl Plan {
    /// Plans the definition that a key is to have.
    ///
    /// # Errors
    ///
    /// Each field that is wrong, the key among them.
    pub(super) fn new(app: &App, key: &str, definition: &Definition) -> Result<Self> {
        let mut faults = Faults::default();
        faults.take("key", check_key(key));
        let times = times(&mut faults, &definition.when);
        if !matches!(times, None | Some(Times::Repeated(_))) {
            check_once(&mut faults, definition);
        }
        let missed = match definition.missed {
            Some(MissedPolicy::Skip) => Missed::Skip,
            None | Some(MissedPolicy::Coalesce) => Missed::Coalesce,
            Some(MissedPolicy::CatchUp(count)) => {
                faults.count("missed.catch_up", count, COUNT_MAX);
                Missed::CatchUp { max_count: count.into(), max_age: YEAR * 10 }
            }
        };
        let overlap = match definition.overlap {
            None | Some(OverlapPolicy::Allow) => Overlap::Allow,
            Some(OverlapPolicy::Skip) => Overlap::Skip,
            Some(OverlapPolicy::Queue(at_most)) => {
                faults.count("overlap.queue", at_most, COUNT_MAX);
                Overlap::Queue { at_most }
            }
        };
        let within = definition.on_time_within.as_ref();
        let on_time_within = faults.span("on_time_within", within, model::ON_TIME_WITHIN);
        let jitter = faults.span("jitter", definition.jitter.as_ref(), "0s");
        check_alerts(&mut faults, app, definition);
        check_labels(&mut faults, &definition.labels);
        if let Some(lane) = &definition.lane {
            check_lane(&mut faults, lane, overlap, jitter);
        }
        let retry = match callback::retry(definition.retry.as_ref()) {
            Ok(retry) => Some(retry),
            Err(more) => {
                faults.0.extend(more);
                None
            }
        };
        if let Err(more) = callback::check(app, &definition.callback) {
            faults.0.extend(more);
        }
        match (times, retry) {
            (Some(times), Some(retry)) if faults.0.is_empty() => {
                Ok(Self { times, retry, missed, on_time_within, overlap, jitter })
            }
            _ => Err(Error::Invalid(faults.0)),
        }
    }

    /// Gives a schedule its policies.
    pub(super) fn policies(&self, every: Every) -> Every {
        every
            .missed(self.missed)
            .on_time_within(self.on_time_within)
            .overlap(self.overlap)
            .jitter(self.jitter)
            .retry(self.retry)
    }
}

/// Checks a one-shot for fields that it cannot have.
fn check_once(faults: &mut Faults, definition: &Definition) {
    for (field, is_there) in [
        ("missed", definition.missed.is_some()),
        ("on_time_within", definition.on_time_within.is_some()),
        ("overlap", definition.overlap.is_some()),
        ("jitter", definition.jitter.is_some()),
        ("success_within", definition.success_within.is_some()),
        ("disable_after", definition.disable_after.is_some()),
    ] {
        if is_there {
            faults.add(field, "only a repeating schedule has this field");
        }
    }
}

/// Checks the alerts of a schedule.
fn check_alerts(faults: &mut Faults, app: &App, definition: &Definition) {
    if let Some(notify) = &definition.notify {
        faults.0.extend(callback::check_notify(app, notify));
    }
    if let Some(text) = &definition.success_within {
        let within = faults.take("success_within", Alerts::success_within(text));
        let is_told = definition.notify.is_some() || app.notify.is_some();
        if within.is_some_and(|within| !within.is_zero()) && !is_told {
            let why =
                "nobody would get the notice: the app has no `notify`, so give the schedule one";
            faults.add("success_within", why);
        }
    }
    if let Some(count) = definition.disable_after {
        faults.take("disable_after", Alerts::check_disable_after(count));
    }
}

/// Checks the labels of a schedule.
fn check_labels(faults: &mut Faults, labels: &BTreeMap<String, String>) {
    if labels.len() > LABELS_MAX {
        let why = format!("it has {} labels, and {LABELS_MAX} are the most", labels.len());
        faults.add("labels", why);
        return;
    }
    for (name, value) in labels {
        if !is_label_name(name) {
            let why = format!("a name has 1 to {LABEL_NAME_MAX} characters {LABEL_NAME_OF}");
            let shown: String = name.chars().take(LABEL_NAME_MAX).collect();
            faults.add("labels", format!("{shown:?}: {why}"));
        } else if value.chars().count() > LABEL_VALUE_MAX {
            let why = format!("it has more than {LABEL_VALUE_MAX} characters");
            faults.add(&format!("labels.{name}"), why);
        } else if value.chars().any(char::is_control) {
            faults.add(&format!("labels.{name}"), "it has a control character");
        }
    }
}

/// Returns whether a label can have this name.
fn is_label_name(name: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    (1..=LABEL_NAME_MAX).contains(&name.len()) && name.bytes().all(is_good)
}

/// Checks a lane, and the fields that exclude it.
fn check_lane(faults: &mut Faults, lane: &str, overlap: Overlap, jitter: Duration) {
    if !is_key(lane) {
        faults.add("lane", format!("it does not have 1 to {KEY_MAX} characters {KEY_OF}"));
    }
    if matches!(overlap, Overlap::Queue { .. }) {
        faults.add("overlap", "a schedule has a lane or a queue, not both: a lane is a queue");
    }
    if jitter > Duration::ZERO {
        faults.add("jitter", "jitter has no effect in a lane; leave it out");
    }
}

/// Reads when something is to happen.
///
/// # Errors
///
/// The field that is wrong.
pub(super) fn read_times(when: &When) -> Result<Times> {
    let mut faults = Faults::default();
    times(&mut faults, when).ok_or_else(|| Error::Invalid(faults.0))
}

fn times(faults: &mut Faults, when: &When) -> Option<Times> {
    let times = unbounded(faults, when);
    let Some(bounds) = when.bounds() else { return times };
    let bounded = bounded(faults, bounds);
    match times? {
        Times::Repeated(schedule) => Some(Times::Repeated(bounded?(schedule))),
        other => Some(other),
    }
}

/// Reads the times of a schedule without its bounds; `None` of a one-shot.
pub(super) fn without_bounds(when: &When) -> Option<Schedule> {
    match unbounded(&mut Faults::default(), when)? {
        Times::Repeated(schedule) => Some(schedule),
        _ => None,
    }
}

/// Reads bounds. Returns the function that gives them to a schedule; `None` if one is wrong.
fn bounded(faults: &mut Faults, bounds: &Bounds) -> Option<impl FnOnce(Schedule) -> Schedule> {
    let before = faults.0.len();
    let mut time = |field: &str, text: Option<&String>| {
        text.and_then(|text| faults.take(field, model::time(text)))
    };
    let start = time("when.start", bounds.start.as_ref());
    let end = time("when.end", bounds.end.as_ref());
    let mut windows = Vec::new();
    for (index, Window { from, until, then }) in bounds.excluded.iter().enumerate() {
        let field = |name: &str| format!("when.excluded[{index}].{name}");
        let from = time(&field("from"), Some(from));
        let until = time(&field("until"), Some(until));
        let then = match then {
            model::Excluded::Skip => Excluded::Skip,
            model::Excluded::RunAtEnd => Excluded::RunAtEnd,
        };
        windows.push((from, until, then));
    }
    if start.zip(end).is_some_and(|(start, end)| end < start) {
        faults.add("when.end", "it is before `start`");
    }
    for (index, (from, until, _)) in windows.iter().enumerate() {
        if from.zip(*until).is_some_and(|(from, until)| until <= from) {
            faults.add(&format!("when.excluded[{index}].until"), "it is not after `from`");
        }
    }
    if windows.len() > WINDOWS_MAX {
        let why = format!("it has {} windows, and {WINDOWS_MAX} are the most", windows.len());
        faults.add("when.excluded", why);
    }
    (faults.0.len() == before).then_some(move |mut schedule: Schedule| {
        if let Some(start) = start {
            schedule = schedule.starting_at(start);
        }
        if let Some(end) = end {
            schedule = schedule.ending_at(end);
        }
        // In any other order each window costs a look at windows that end later.
        windows.sort_by_key(|(_, until, _)| *until);
        windows.into_iter().fold(schedule, |schedule, (from, until, then)| match from.zip(until) {
            Some((from, until)) => schedule.excluding(from..until, then),
            None => schedule,
        })
    })
}

fn unbounded(faults: &mut Faults, when: &When) -> Option<Times> {
    match when {
        When::Cron(when) => match Schedule::cron(&when.cron, &when.zone) {
            Ok(schedule) => Some(Times::Repeated(schedule)),
            Err(error) => {
                let is_zone = error.field() == Some(tourbillon_cron::Field::Zone);
                faults.add(if is_zone { "when.zone" } else { "when.cron" }, error.to_string());
                None
            }
        },
        When::Every(when) => {
            let period = model::span(&when.every).and_then(|period| match period {
                period if period < PERIOD_MIN => Err("it is shorter than a second".to_owned()),
                period if period > YEAR => Err("it is longer than a year".to_owned()),
                period => Ok(period),
            });
            let anchor = when.anchor.as_ref().map(|text| model::time(text)).transpose();
            let period = faults.take("when.every", period);
            let anchor = faults.take("when.anchor", anchor)?;
            Some(Times::Repeated(match anchor {
                Some(anchor) => Schedule::every_from(period?, anchor),
                None => Schedule::every(period?),
            }))
        }
        When::At(when) => faults.take("when.at", model::time(&when.at)).map(Times::At),
        When::After(when) => {
            let after = model::span(&when.after).and_then(|after| {
                let is_long = after > YEAR * 100;
                if is_long { Err("it is longer than 100 years".to_owned()) } else { Ok(after) }
            });
            faults.take("when.after", after).map(Times::After)
        }
    }
}

/// Fails unless a key can be one.
///
/// All characters are of ASCII, so that no two keys look alike by Unicode's forms; and `.` and `..`
/// are no keys, as clients take them out of a path.
pub(super) fn check_key(key: &str) -> std::result::Result<(), String> {
    if matches!(key, "." | "..") {
        return Err("`.` and `..` cannot be keys: clients drop them from a path".to_owned());
    }
    match is_key(key) {
        true => Ok(()),
        false => Err(format!("a key has 1 to {KEY_MAX} characters {KEY_OF}")),
    }
}

/// Returns whether a text has the length and the characters of a key.
fn is_key(text: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:@+~".contains(&byte);
    !text.is_empty() && text.len() <= KEY_MAX && text.bytes().all(is_good)
}

/// Returns the kept definition as a payload for the store.
pub(super) fn payload(stored: &Stored) -> Result<Vec<u8>> {
    let payload = serde_json::to_vec(stored).expect("a definition is JSON");
    if payload.len() <= STORED_MAX {
        return Ok(payload);
    }
    let why = format!(
        "the definition has {} bytes with it, and {STORED_MAX} are the most",
        payload.len()
    );
    Err(Error::field("callback.body", why))
}
