//! Times of an answer, by the clock of the reader.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

/// Fields that have a time, or several.
const TIMES: [&str; 18] = [
    "anchor",
    "at",
    "beat",
    "created",
    "due",
    "end",
    "expires",
    "from",
    "next",
    "now",
    "paused_until",
    "recorded",
    "rest",
    "scheduled_for",
    "since",
    "start",
    "started",
    "until",
];

/// Fields that have names of others within them.
const FOREIGN: [&str; 2] = ["headers", "labels"];

/// Returns an answer with its times in a zone, to the second, as flags take them.
pub(super) fn times(answer: &Value, zone: &TimeZone) -> Value {
    match answer {
        Value::Array(all) => all.iter().map(|one| times(one, zone)).collect(),
        Value::Object(fields) => {
            let shown = fields.iter().map(|(name, value)| {
                let shown = match &**name {
                    name if TIMES.contains(&name) => time(value, zone),
                    name if FOREIGN.contains(&name) => value.clone(),
                    _ => times(value, zone),
                };
                (name.clone(), shown)
            });
            shown.collect()
        }
        other => other.clone(),
    }
}

fn time(value: &Value, zone: &TimeZone) -> Value {
    let Value::Array(all) = value else {
        let read = value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
        return read.map_or_else(
            || times(value, zone),
            |at| at.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string().into(),
        );
    };
    all.iter().map(|one| time(one, zone)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_by_the_clock_of_the_reader_and_texts_of_others_stay() {
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        let utc = "2030-01-31T23:30:00.25Z";
        let answer = json!({
            "key": utc, "next": [utc, utc], "when": { "at": utc, "excluded": [{ "from": utc }] },
            "labels": { "at": utc }, "headers": { "expires": utc }, "since": null, "rest": "often",
        });
        let local = "2030-02-01T00:30:00+01:00";
        let expected = json!({
            "key": utc, "next": [local, local],
            "when": { "at": local, "excluded": [{ "from": local }] },
            "labels": { "at": utc }, "headers": { "expires": utc }, "since": null, "rest": "often",
        });
        assert_eq!(times(&answer, &zone), expected);
    }
}
