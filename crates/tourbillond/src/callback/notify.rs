//! Notices: the body that the template of their receiver makes, and its checks.

use super::request::{Fault, check, render};
use crate::config::App;
use crate::model::Notify;

/// Names that a notice's template may have.
const NAMES: [&str; 4] = ["app", "event", "key", "text"];

/// Most characters of a text in a notice.
pub(crate) const NOTICE_TEXT_MAX: usize = 1_000;

/// Most bytes of a notice's callback, as JSON: with the rest of its run it fits into a payload of
/// 64 KiB.
const CALLBACK_MAX: usize = 56 * 1024;

/// Characters of the longest key. No name of an app is longer.
const KEY: usize = 120;

/// Size of a notice without a template: it has an error and a text.
const WITHOUT: &str = "{{text}}{{text}}{{app}}{{key}}";

/// Values of a template.
pub(crate) struct Told<'a> {
    pub(crate) event: &'a str,
    pub(crate) app: &'a str,
    pub(crate) key: &'a str,
    /// A sentence, of at most [`NOTICE_TEXT_MAX`] characters.
    pub(crate) text: &'a str,
}

impl Told<'_> {
    /// Returns the body by a receiver's template.
    ///
    /// # Errors
    ///
    /// If the template is wrong, though it was checked: another version may have checked it.
    pub(crate) fn by(&self, template: &str) -> Result<String, String> {
        render(template, &NAMES, |name| {
            let value = match name {
                "app" => self.app,
                "event" => self.event,
                "key" => self.key,
                _ => self.text,
            };
            let quoted = serde_json::to_string(value).expect("a text is JSON");
            quoted[1..quoted.len() - 1].to_owned()
        })
    }
}

/// Returns each field of a receiver of notices that is wrong, and why.
pub(crate) fn check_notify(app: &App, notify: &Notify) -> Vec<Fault> {
    // Escaped twice, it takes as many bytes as the longest character.
    let text = "\"".repeat(NOTICE_TEXT_MAX);
    let key = &text[..KEY];
    let longest = Told { event: "no_success", app: key, key, text: &text };
    let mut faults = check(app, &notify.callback(String::new())).err().unwrap_or_default();
    match longest.by(notify.body.as_deref().unwrap_or(WITHOUT)) {
        Ok(body) => {
            let size =
                serde_json::to_vec(&notify.callback(body)).expect("a callback is JSON").len();
            if size > CALLBACK_MAX {
                let part = if notify.body.is_some() { "body" } else { "headers" };
                let why =
                    format!("makes {size} bytes of a notice, and {CALLBACK_MAX} are the most");
                faults.push((format!("callback.{part}"), why));
            }
        }
        Err(why) => faults.push(("callback.body".to_owned(), why)),
    }
    faults.into_iter().map(|(field, why)| (field.replacen("callback", "notify", 1), why)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notify(body: &str) -> Notify {
        let (url, body) = ("https://example.com/".to_owned(), Some(body.to_owned()));
        Notify { url, headers: std::collections::BTreeMap::new(), body }
    }

    #[test]
    fn a_template_of_a_notice_is_filled_as_within_a_string_of_json() {
        let told = Told { event: "dead", app: "a", key: "k", text: "it said \"no\"\n{{key}}" };
        let body = told.by(r#"{"text": "{{event}} {{ app }}/{{key}}: {{text}} {{{{x}}"}"#).unwrap();
        let read: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(read["text"], "dead a/k: it said \"no\"\n{{key}} {{x}}");
    }

    #[test]
    fn a_template_of_a_notice_is_checked_with_the_longest_texts() {
        let faults = |body: &str| check_notify(&App::default(), &notify(body));
        assert_eq!(faults(&"{{text}}".repeat(14)), []);
        for (body, why) in [
            (&*"{{text}}".repeat(15), "are the most"),
            ("{{run}}", "names `run`"),
            ("{{key", "without }}"),
        ] {
            let found = faults(body);
            let [(field, said)] = &found[..] else { panic!("{body}: {found:?}") };
            assert!(field == "notify.body" && said.contains(why), "{field}: {said}");
        }
    }
}
