//! Schedules as JSON lines: `export` writes them, `import` reads them.
//!
//! A line is a definition with its `key`, and the last line counts the others: `{"end":2}`. A line
//! has nothing specific to its database, such as identities and versions. So an export after an
//! import is the same, byte for byte.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::Failure;
use super::apply::{self, Wanted};
use super::show::visible;
use crate::model::{AtWhen, Definition, MASK, When};

/// Schedules of an app, and notes on values that cannot be exported.
#[derive(Debug, Default)]
pub(super) struct Export {
    /// A line for each schedule.
    pub(super) text: String,
    /// Number of those lines.
    count: usize,
    /// Values that are missing: the export is not complete without them.
    pub(super) missing: Vec<String>,
    /// Names of secrets that headers have, for the configuration of the other service.
    secrets: BTreeSet<String>,
}

impl Export {
    /// Adds a schedule from the service's answer. A finished one adds nothing.
    pub(super) fn add(&mut self, item: &Value) -> Result<(), Failure> {
        let Some(key) = item["key"].as_str().filter(|_| apply::is_live(item)) else {
            return Ok(());
        };
        let mut definition = apply::definition(item)?;
        if matches!(definition.when, When::After(_)) {
            let at = item["at"].as_str().ok_or_else(|| {
                Failure::Refused(format!("`{}`: the service does not show its time", visible(key)))
            })?;
            definition.when = When::At(AtWhen { at: at.to_owned() });
        }
        let shown = serde_json::to_value(&definition)?;
        for (part, name, value) in headers(&shown) {
            if let Some(secret) = value["secret"].as_str() {
                self.secrets.insert(secret.to_owned());
            } else if value == MASK {
                let header = format!("{part}.headers.{}", visible(name));
                self.missing.push(format!("{}: {header}", visible(key)));
            }
        }
        if !item["paused_until"].is_null() {
            self.missing.push(format!("{}: its pause", visible(key)));
        }
        if item["xtimer"].is_object() {
            self.missing.push(format!("{}: its name and creator of XTimer", visible(key)));
        }
        self.text += &line(key, &definition)?;
        self.count += 1;
        Ok(())
    }

    /// Adds the last line.
    pub(super) fn end(&mut self) {
        self.text += &format!("{{\"end\":{}}}\n", self.count);
    }

    /// Returns notes for the user beside the lines.
    pub(super) fn notes(&self) -> String {
        let mut text = String::new();
        for missing in &self.missing {
            text += &format!("not exported: {missing}\n");
        }
        if !self.secrets.is_empty() {
            let names: Vec<_> = self.secrets.iter().map(|name| visible(name)).collect();
            text += &format!("header secrets, by name alone: {}\n", names.join(", "));
        }
        text
    }
}

/// The headers of all requests of a definition: the request's field, the header's name and value.
fn headers(definition: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
    let parts = definition.as_object().into_iter().flatten();
    parts.flat_map(|(part, request)| {
        let headers = request["headers"].as_object().into_iter().flatten();
        headers.map(|(name, value)| (part.as_str(), name.as_str(), value))
    })
}

/// A schedule as a line: its key first, then the definition in its order.
fn line(key: &str, definition: &Definition) -> Result<String, Failure> {
    let definition = serde_json::to_string(definition)?;
    let fields = definition.strip_prefix('{').unwrap_or(&definition);
    Ok(format!("{{\"key\":{},{fields}\n", serde_json::to_string(key)?))
}

/// Reads lines.
///
/// # Errors
///
/// Fails with the number of the invalid line, and its fault.
pub(super) fn parse(text: &[u8]) -> Result<Wanted, String> {
    let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    let mut schedules = BTreeMap::new();
    let mut end = None;
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        if end.is_some() {
            return Err(format!("line {number}: nothing may follow the line with `end`"));
        }
        if let Ok(last) = serde_json::from_str::<End>(line) {
            end = Some(last.end);
            continue;
        }
        let (key, definition) = read(line).map_err(|why| format!("line {number}: {why}"))?;
        if schedules.insert(key, definition).is_some() {
            return Err(format!("line {number}: an earlier line has the same key"));
        }
    }
    match (end, schedules.len()) {
        (Some(end), count) if end == count => Ok(Wanted { schedules }),
        (Some(end), count) => {
            Err(format!("the last line counts {end} schedules, but {count} are there"))
        }
        (None, count) => Err(format!(
            "the lines may be cut short, without `{{\"end\":{count}}}` at their end: export again"
        )),
    }
}

/// The last line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    /// Number of the lines before it.
    end: usize,
}

fn read(line: &str) -> Result<(String, Definition), String> {
    let mut fields: Map<String, Value> =
        serde_json::from_str(line).map_err(|error| error.to_string())?;
    let Some(Value::String(key)) = fields.remove("key") else {
        return Err("it has no `key`".to_owned());
    };
    let definition: Definition =
        serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string())?;
    match definition.when {
        // It would mean another time whenever it is imported.
        When::After(_) => Err("give the time as `at`, not `after`".to_owned()),
        _ => Ok((key, definition)),
    }
}

/// Returns the header values that are masked in the lines and have nothing in `there`, a list of
/// the service's, that they could stand for.
pub(super) fn unknown(wanted: &Wanted, there: &Value) -> Result<Vec<String>, Failure> {
    let items = there.as_array().into_iter().flatten();
    let shown: BTreeMap<_, _> =
        items.filter_map(|item| Some((item["key"].as_str()?, item))).collect();
    let mut unknown = Vec::new();
    for (key, definition) in &wanted.schedules {
        let has = |part: &str, name: &str| {
            shown.get(&**key).is_some_and(|item| item[part]["headers"][name] == MASK)
        };
        for (part, name, value) in headers(&serde_json::to_value(definition)?) {
            if value == MASK && !has(part, name) {
                unknown.push(format!("{}: {part}.headers.{}", visible(key), visible(name)));
            }
        }
    }
    Ok(unknown)
}
