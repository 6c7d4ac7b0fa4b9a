//! [`Redact`]: takes the values of a request's headers out of what a receiver answers.
//!
//! A receiver can send back what it got, and the beginning of its answer is kept and shown.

use crate::config::{App, Secret};
use crate::model::{Callback, Header, MASK, is_sensitive};

/// The shortest value that is looked for. A shorter one is no secret, and stands in many texts.
const WHOLE_MIN: usize = 4;

/// The shortest part of a value that is looked for: what follows a scheme, one cookie of several.
const PART_MIN: usize = 8;

/// Values that are not to be shown.
pub(crate) struct Redact(Vec<String>);

impl Redact {
    /// Looks for the values of a callback's headers that let somebody in: of secrets, and of those
    /// that are named like `Authorization`.
    pub(crate) fn new(app: &App, callback: &Callback) -> Self {
        let value = |(name, header): (&'_ String, &'_ Header)| match header {
            Header::Value(value) => is_sensitive(name).then(|| value.clone()),
            Header::Secret { secret } => {
                let Secret(value) = app.header_secrets.get(secret)?.value.as_ref()?;
                Some(value.clone())
            }
        };
        let mut values = Vec::new();
        for value in callback.headers.iter().filter_map(value) {
            let parts = value.split([' ', ';', ',', '=']).filter(|part| part.len() >= PART_MIN);
            values.extend(parts.map(str::to_owned));
            if value.len() >= WHOLE_MIN {
                values.push(value);
            }
        }
        // What has another in it comes before that.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self(values)
    }

    /// Returns the text with [`MASK`] in place of each value, also of one that is cut at its end.
    pub(crate) fn text(&self, mut text: String) -> String {
        for value in &self.0 {
            if text.contains(value) {
                text = text.replace(value, MASK);
            }
        }
        let begun = self.0.iter().filter_map(|value| {
            let ends = |len: &usize| value.get(..*len).is_some_and(|begun| text.ends_with(begun));
            (WHOLE_MIN..value.len()).rev().find(ends)
        });
        if let Some(len) = begun.max() {
            text.truncate(text.len() - len);
            text.push_str(MASK);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redact(headers: &[(&str, &str)]) -> Redact {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).into()));
        let callback = serde_json::from_str(r#"{ "url": "https://example.com" }"#);
        let callback = Callback { headers: headers.collect(), ..callback.unwrap() };
        Redact::new(&App::default(), &callback)
    }

    fn shown(headers: &[(&str, &str)], text: &str) -> String {
        redact(headers).text(text.to_owned())
    }

    #[test]
    fn values_of_sensitive_headers_are_taken_out_wherever_they_stand() {
        let headers = [("Authorization", "Bearer hunter2-hunter2"), ("X-Team", "operations")];
        let text = "no: Bearer hunter2-hunter2, hunter2-hunter2 of operations";
        assert_eq!(shown(&headers, text), format!("no: {MASK}, {MASK} of operations"));
        assert_eq!(shown(&headers, "Bearer of news"), "Bearer of news");
        assert_eq!(shown(&[], "anything"), "anything");
    }

    #[test]
    fn a_value_that_is_cut_at_the_end_is_taken_out() {
        let headers = [("Authorization", "Bearer hunter2-hunter2")];
        assert_eq!(shown(&headers, "no: Bearer hunter2-"), format!("no: {MASK}"));
        assert_eq!(shown(&headers, "no: hunter2-hunter"), format!("no: {MASK}"));
        assert_eq!(shown(&headers, "no: hun"), "no: hun");
    }

    #[test]
    fn each_cookie_is_taken_out_and_short_words_are_not() {
        let headers = [("Cookie", "sid=0123456789; theme=dark")];
        assert_eq!(shown(&headers, "dark 0123456789"), format!("dark {MASK}"));
        assert_eq!(shown(&[("X-Token", "abc")], "abc"), "abc");
    }
}
