//! [`Header`]: a header of a callback, and its visible part.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use url::Url;
use utoipa::ToSchema;

use super::{Callback, Definition, Notify};

/// Text in place of a hidden value. It is not a valid value itself: these are visible ASCII.
pub const MASK: &str = "••••••••";

/// Parts of the names of headers whose values are not shown.
const PARTS: [&str; 9] = [
    "apikey",
    "authorization",
    "cookie",
    "credential",
    "passwd",
    "password",
    "secret",
    "signature",
    "token",
];

/// Whole words of such names, between `-`, `_` and `.`.
const WORDS: [&str; 8] = ["auth", "bearer", "jwt", "key", "pass", "pwd", "session", "sid"];

/// Value of a callback's header.
#[derive(Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Header {
    /// A value, sent unchanged. Answers have `••••••••` in place of credentials: of
    /// `Authorization`, `Cookie`, `X-Api-Key` and similar names. Sent back, this stands for the
    /// present value of the same header of the same key, as long as scheme, host and port of the
    /// URL are the same.
    Value(String),
    /// The value of a secret from the app's configuration, inserted when the request is sent.
    Secret {
        /// Name of the secret.
        secret: String,
    },
}

impl Header {
    fn is_mask(&self) -> bool {
        matches!(self, Self::Value(value) if value == MASK)
    }
}

impl From<&str> for Header {
    fn from(value: &str) -> Self {
        Self::Value(value.to_owned())
    }
}

impl From<String> for Header {
    fn from(value: String) -> Self {
        Self::Value(value)
    }
}

impl fmt::Debug for Header {
    /// Without a value: only the name says whether it may be shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(_) => f.write_str("Value(..)"),
            Self::Secret { secret } => f.debug_struct("Secret").field("secret", secret).finish(),
        }
    }
}

impl<'de> Deserialize<'de> for Header {
    /// Reads by hand, because an error of serde's own for an enum without a tag names no field.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, or `{\"secret\": NAME}`")
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<Header, E> {
                Ok(value.into())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut name = None;
                while let Some(field) = map.next_key::<String>()? {
                    if field != "secret" || name.is_some() {
                        return Err(A::Error::unknown_field(&field, &["secret"]));
                    }
                    name = Some(map.next_value()?);
                }
                let secret = name.ok_or_else(|| A::Error::missing_field("secret"))?;
                Ok(Header::Secret { secret })
            }
        }

        deserializer.deserialize_any(Either)
    }
}

/// Returns whether the value of a header with this name is not shown.
pub fn is_sensitive(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    PARTS.iter().any(|part| name.contains(part))
        || name.split(['-', '_', '.']).any(|word| WORDS.contains(&word))
}

impl Definition {
    /// Returns it as it is shown: with [`MASK`] in place of each value that lets somebody in.
    #[must_use]
    pub fn masked(&self) -> Self {
        let mut shown = self.clone();
        mask(&mut shown.callback.headers);
        if let Some(notify) = &mut shown.notify {
            mask(&mut notify.headers);
        }
        shown
    }

    /// Puts the values of `old` in place of masks.
    ///
    /// # Errors
    ///
    /// Each header that `old` does not have, or has for another scheme, host or port: a value that
    /// somebody may not see is not sent elsewhere by them.
    pub(crate) fn keep(&mut self, old: Option<&Self>) -> Result<(), Vec<(String, String)>> {
        let mut faults = Vec::new();
        let Callback { url, headers, .. } = &mut self.callback;
        let from = old.map(|Self { callback, .. }| (&*callback.url, &callback.headers));
        keep(&mut faults, "callback", (url, headers), from);
        if let Some(Notify { url, headers, .. }) = &mut self.notify {
            let from = old.and_then(|old| old.notify.as_ref());
            let from = from.map(|old| (&*old.url, &old.headers));
            keep(&mut faults, "notify", (url, headers), from);
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }
}

/// Headers of a request, by their names.
type Headers = BTreeMap<String, Header>;

fn mask(headers: &mut Headers) {
    for (name, value) in headers {
        if is_sensitive(name) && matches!(value, Header::Value(_)) {
            *value = MASK.into();
        }
    }
}

/// Puts the values of an `old` request, with its URL, in place of masks.
fn keep(
    faults: &mut Vec<(String, String)>,
    part: &str,
    (url, headers): (&str, &mut Headers),
    old: Option<(&str, &Headers)>,
) {
    let origin = |url: &str| Url::parse(url).ok().map(|url| url.origin());
    let is_same = old.is_some_and(|(old, _)| origin(old) == origin(url));
    let none = BTreeMap::new();
    let there = old.map_or(&none, |(_, headers)| headers);
    for (name, value) in headers.iter_mut().filter(|(_, value)| value.is_mask()) {
        let mut found = there.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        let why = match found.next() {
            Some((_, old)) if is_same => {
                *value = old.clone();
                continue;
            }
            Some(_) => {
                "is masked, and kept only for the same scheme, host and port: give the value again"
            }
            None => "is masked, but no value is stored: give one",
        };
        faults.push((format!("{part}.headers.{name}"), why.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debugging_shows_no_value() {
        assert_eq!(format!("{:?}", Header::from("hunter2")), "Value(..)");
    }
}
