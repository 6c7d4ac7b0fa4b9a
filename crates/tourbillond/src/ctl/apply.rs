//! Schedules kept in a file: the differences, and the changes that remove them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;
use tourbillon_durable::Time;
use url::Url;
use utoipa::PartialSchema as _;
use utoipa::openapi::{RefOr, Schema};

use super::Failure;
use super::remote::Remote;
use super::show::{flatten, visible};
use crate::model::{self, Definition, When};

/// Content of a file.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    pub(super) schedules: BTreeMap<String, Definition>,
}

/// Change of one schedule.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Create(String, Definition),
    /// With the version to replace, and the differences: a field, its value, and the new one.
    Replace(String, Definition, u64, Vec<(String, String, String)>),
    /// All that is shown of this version is the same; a header's value that is not shown may
    /// differ.
    Hidden(String, Definition, u64),
    Delete(String),
}

impl Wanted {
    /// Understands a file.
    ///
    /// # Errors
    ///
    /// With the fault and its place.
    pub(super) fn parse(text: &[u8], is_toml: bool) -> Result<Self, String> {
        let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
        let wanted: Self = if is_toml {
            toml::from_str(text).map_err(|error| error.to_string())?
        } else {
            serde_json::from_str(text).map_err(|error| error.to_string())?
        };
        for (key, definition) in &wanted.schedules {
            if matches!(definition.when, When::After(_)) {
                // It would mean another time whenever the file is applied.
                return Err(format!("`{key}`: give the time as `at`, not `after`"));
            }
        }
        Ok(wanted)
    }

    /// Returns whether all of its keys begin so.
    pub(super) fn all_begin(&self, prefix: &str) -> bool {
        self.schedules.keys().all(|key| key.starts_with(prefix))
    }

    /// Keys of one-shots.
    pub(super) fn once(&self) -> impl Iterator<Item = &str> {
        let once = self.schedules.iter().filter(|(_, one)| matches!(one.when, When::At(_)));
        once.map(|(key, _)| &**key)
    }
}

/// Takes one-shots out of `wanted` that must not be created: finished ones, and with `now` those
/// whose time has passed and that `there` lacks. Returns a note on each.
///
/// Records are deleted some day, so a missing one-shot whose time has passed may have been called.
pub(super) fn settle(
    wanted: &mut Wanted,
    there: &Value,
    now: Option<Time>,
) -> Result<Vec<String>, Failure> {
    let items = there.as_array().into_iter().flatten();
    let found: BTreeMap<_, _> =
        items.filter_map(|item| Some((item["key"].as_str()?, item))).collect();
    let mut notes = BTreeMap::new();
    for (key, definition) in &wanted.schedules {
        let When::At(at) = &definition.when else { continue };
        let Ok(time) = model::time(&at.at) else { continue };
        let note = match found.get(&**key) {
            Some(item) if is_live(item) => continue,
            Some(item) if own_time(item) == Some(time) => {
                format!("over: {} ({})", visible(key), item["state"].as_str().unwrap_or_default())
            }
            None if definition.enabled && now.is_some_and(|now| time <= now) => {
                format!("not made: {}: its time has passed; `--past` makes it", visible(key))
            }
            _ => continue,
        };
        notes.insert(key.clone(), note);
    }
    wanted.schedules.retain(|key, _| !notes.contains_key(key));
    Ok(notes.into_values().collect())
}

/// Returns the time of a one-shot.
fn own_time(item: &Value) -> Option<Time> {
    let at = item["at"].as_str().or(item["when"]["at"].as_str())?;
    model::time(at).ok()
}

impl Step {
    pub(super) fn key(&self) -> &str {
        match self {
            Self::Create(key, _) | Self::Replace(key, ..) | Self::Hidden(key, ..) => key,
            Self::Delete(key) => key,
        }
    }

    /// Returns whether it is so already, though it could not be seen. A create says so, which
    /// makes nothing as long as that version is there; a token that may not write is refused, and
    /// it may differ.
    pub(super) async fn is_done(&self, remote: &Remote, schedules: Url) -> Result<bool, Failure> {
        let Self::Hidden(key, definition, version) = self else { return Ok(false) };
        let body = with_key(key, definition)?;
        Ok(remote.send_for("POST", schedules, Some(&body), Some(*version)).await.is_ok())
    }

    /// Does it, unless another has changed the schedule since it was found.
    pub(super) async fn carry_out(
        &self,
        remote: &Remote,
        schedules: [&str; 4],
    ) -> Result<(), Failure> {
        let url = remote.url(schedules.into_iter().chain([self.key()]), &[]);
        match self {
            Self::Create(key, definition) => {
                let body = with_key(key, definition)?;
                remote.send("POST", remote.url(schedules, &[]), Some(&body)).await?;
            }
            Self::Replace(_, definition, version, _) | Self::Hidden(_, definition, version) => {
                let body = serde_json::to_value(definition)?;
                remote.send_for("PUT", url, Some(&body), Some(*version)).await?;
            }
            Self::Delete(_) => match remote.send("DELETE", url, None).await {
                // Another was faster.
                Ok(_) | Err(Failure::Answered(404, _)) => {}
                Err(failure) => return Err(failure),
            },
        }
        Ok(())
    }
}

/// A definition as the body of a create.
fn with_key(key: &str, definition: &Definition) -> Result<Value, Failure> {
    let mut body = serde_json::to_value(definition)?;
    body["key"] = key.into();
    Ok(body)
}

/// Returns the changes that turn `there`, the service's list, into the wanted schedules. Wanted
/// schedules are in the list with their bodies. Unwanted ones whose keys begin with `prune` are
/// deleted.
pub(super) fn plan(
    wanted: &Wanted,
    there: &Value,
    prune: Option<&str>,
) -> Result<Vec<Step>, Failure> {
    let mut found = BTreeMap::new();
    for item in there.as_array().into_iter().flatten() {
        if let Some(key) = item["key"].as_str().filter(|_| is_live(item)) {
            found.insert(key, item);
        }
    }
    let mut steps = Vec::new();
    for (key, wanted) in &wanted.schedules {
        let Some(item) = found.get(&**key) else {
            steps.push(Step::Create(key.clone(), wanted.clone()));
            continue;
        };
        let (old, shown) = (definition(item)?, wanted.masked());
        if old == *wanted {
            continue;
        }
        let version = item["version"].as_u64().unwrap_or_default();
        if old == shown {
            steps.push(Step::Hidden(key.clone(), wanted.clone(), version));
        } else {
            let differs = differences(&old, &shown)?;
            steps.push(Step::Replace(key.clone(), wanted.clone(), version, differs));
        }
    }
    for key in found.keys() {
        let goes = prune.is_some_and(|prefix| key.starts_with(prefix));
        if goes && !wanted.schedules.contains_key(*key) {
            steps.push(Step::Delete((*key).to_owned()));
        }
    }
    Ok(steps)
}

/// Returns whether it is not over.
pub(super) fn is_live(item: &Value) -> bool {
    let state = item["state"].as_str().unwrap_or_default();
    !matches!(state, "succeeded" | "dead" | "skipped" | "cancelled")
}

/// Names of the fields of a definition, by their description, so that none is forgotten.
pub(super) fn fields() -> BTreeSet<String> {
    let RefOr::T(Schema::Object(known)) = Definition::schema() else {
        unreachable!("a definition is an object")
    };
    known.properties.into_keys().collect()
}

/// The part of an answer that a client has said.
pub(super) fn definition(item: &Value) -> Result<Definition, Failure> {
    let known = fields();
    let fields = item.as_object().into_iter().flatten();
    let fields = fields.filter(|(name, value)| known.contains(*name) && !value.is_null());
    let fields: serde_json::Map<_, _> =
        fields.map(|(name, value)| (name.clone(), value.clone())).collect();
    Ok(serde_json::from_value(Value::Object(fields))?)
}

fn differences(
    old: &Definition,
    new: &Definition,
) -> Result<Vec<(String, String, String)>, Failure> {
    let mut sides = [Vec::new(), Vec::new()];
    for (definition, lines) in [old, new].into_iter().zip(&mut sides) {
        flatten("", &serde_json::to_value(definition)?, lines);
    }
    let [old, new] = sides.map(|lines| lines.into_iter().collect::<BTreeMap<_, _>>());
    let names: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let of = |side: &BTreeMap<String, String>, name: &String| {
        side.get(name).cloned().unwrap_or_else(|| "-".to_owned())
    };
    let all = names.into_iter().map(|name| (name.clone(), of(&old, name), of(&new, name)));
    Ok(all.filter(|(_, old, new)| old != new).collect())
}

/// The steps as text: `+` for new, `~` for changed, `-` for gone.
pub(super) fn shown(steps: &[Step]) -> String {
    if steps.is_empty() {
        return "nothing differs\n".to_owned();
    }
    let mut text = String::new();
    for step in steps {
        match step {
            Step::Create(key, _) => text += &format!("+ {}\n", visible(key)),
            Step::Hidden(key, ..) => {
                text += &format!(
                    "~ {}\n    callback.headers: a value that is not shown\n",
                    visible(key)
                );
            }
            Step::Delete(key) => text += &format!("- {}\n", visible(key)),
            Step::Replace(key, _, _, differs) => {
                text += &format!("~ {}\n", visible(key));
                for (name, old, new) in differs {
                    text += &format!("    {name}: {old} -> {new}\n");
                }
            }
        }
    }
    text
}
