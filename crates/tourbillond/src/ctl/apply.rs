//! Schedules kept in a file: what differs, and how it is made so.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;
use url::Url;
use utoipa::PartialSchema as _;
use utoipa::openapi::{RefOr, Schema};

use super::Failure;
use super::remote::Remote;
use super::show::{flatten, visible};
use crate::model::{Definition, When};

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
    /// With what differs: a field, what it is, and what it is to be.
    Replace(String, Definition, Vec<(String, String, String)>),
    /// All that is shown is the same; a header's value that is not shown may differ.
    Hidden(String, Definition),
    Delete(String),
}

impl Wanted {
    /// Understands a file.
    ///
    /// # Errors
    ///
    /// With what is wrong and where.
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
                return Err(format!("`{key}`: a file says `at`, not `after`"));
            }
        }
        Ok(wanted)
    }

    /// Returns whether all of its keys begin so.
    pub(super) fn all_begin(&self, prefix: &str) -> bool {
        self.schedules.keys().all(|key| key.starts_with(prefix))
    }
}

impl Step {
    pub(super) fn key(&self) -> &str {
        match self {
            Self::Create(key, _) | Self::Replace(key, ..) | Self::Hidden(key, _) => key,
            Self::Delete(key) => key,
        }
    }

    /// Returns whether it is so already, though it could not be seen. A create says so, which
    /// changes nothing that is there; a token that may not write is refused, and it may differ.
    pub(super) async fn is_done(&self, remote: &Remote, schedules: Url) -> Result<bool, Failure> {
        let Self::Hidden(key, definition) = self else { return Ok(false) };
        let mut body = serde_json::to_value(definition)?;
        body["key"] = key.as_str().into();
        Ok(remote.send("POST", schedules, Some(&body)).await.is_ok())
    }

    pub(super) async fn carry_out(&self, remote: &Remote, url: Url) -> Result<(), Failure> {
        match self {
            Self::Create(_, definition)
            | Self::Replace(_, definition, _)
            | Self::Hidden(_, definition) => {
                remote.send("PUT", url, Some(&serde_json::to_value(definition)?)).await?;
            }
            Self::Delete(_) => {
                remote.send("DELETE", url, None).await?;
            }
        }
        Ok(())
    }
}

/// Returns the changes that make `there`, a list of the service's, as wanted. Wanted schedules are
/// in it with their bodies. Those that are there, begin with `prune` and are not wanted are
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
        if old == shown {
            steps.push(Step::Hidden(key.clone(), wanted.clone()));
        } else {
            let differs = differences(&old, &shown)?;
            steps.push(Step::Replace(key.clone(), wanted.clone(), differs));
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
            Step::Hidden(key, _) => {
                text += &format!(
                    "~ {}\n    callback.headers: a value that is not shown\n",
                    visible(key)
                );
            }
            Step::Delete(key) => text += &format!("- {}\n", visible(key)),
            Step::Replace(key, _, differs) => {
                text += &format!("~ {}\n", visible(key));
                for (name, old, new) in differs {
                    text += &format!("    {name}: {old} -> {new}\n");
                }
            }
        }
    }
    text
}
