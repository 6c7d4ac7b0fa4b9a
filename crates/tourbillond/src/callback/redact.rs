//! [`Redact`]: takes the values of a request's headers out of a receiver's answer.
//!
//! A receiver can send back a request's headers, and the beginning of its answer is kept and shown.

use crate::config::{App, Secret};
use crate::model::{Callback, Header, MASK, is_sensitive};

/// The shortest value that is looked for. A shorter one is no secret, and stands in many texts.
const WHOLE_MIN: usize = 4;

/// The shortest part of a value that is looked for: the text after a scheme, one cookie of several.
const PART_MIN: usize = 8;

/// Most parts of one value that are looked for.
const PARTS_MAX: usize = 16;

/// Beginning of a token's value, in small or large letters.
const BEARER: &str = "bearer ";

/// Values that are not to be shown. By default there are none.
#[derive(Default)]
pub(crate) struct Redact {
    values: Vec<String>,
    /// True if tokens are not to be shown either, whatever they are.
    has_tokens: bool,
}

impl Redact {
    /// Looks for the callback's credentials: the values of headers with secrets, and of headers
    /// named like `Authorization`.
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
            values.extend(parts.take(PARTS_MAX).map(str::to_owned));
            if value.len() >= WHOLE_MIN {
                values.push(value);
            }
        }
        Self::of(values)
    }

    fn of(mut values: Vec<String>) -> Self {
        // A value that contains another is replaced first.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.dedup();
        Self { values, has_tokens: false }
    }

    /// Looks for this value too.
    pub(crate) fn with(mut self, value: &str) -> Self {
        self.values.push(value.to_owned());
        Self { has_tokens: self.has_tokens, ..Self::of(self.values) }
    }

    /// Looks for the values of both.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.values.extend(other.values);
        Self { has_tokens: self.has_tokens || other.has_tokens, ..Self::of(self.values) }
    }

    /// If the callback has a header of a secret, looks for texts in the form of a token too: after
    /// `Bearer`, and JSON Web Tokens. This finds values that are not known here: tokens that
    /// another node has fetched, and tokens replaced since they were sent.
    pub(crate) fn and_tokens(mut self, callback: &Callback) -> Self {
        self.has_tokens =
            callback.headers.values().any(|header| matches!(header, Header::Secret { .. }));
        self
    }

    /// Returns the text with [`MASK`] in place of each value.
    pub(crate) fn text(&self, text: &str) -> String {
        self.beginning(text, usize::MAX)
    }

    /// Returns the first `most` characters of a text, with [`MASK`] in place of each value that
    /// begins there. It is found whole, also where the characters end within it.
    ///
    /// The beginning of a value is not looked for: a client that has a receiver send back texts
    /// would guess a value by it, character by character.
    pub(crate) fn beginning(&self, text: &str, most: usize) -> String {
        let mut shown = String::new();
        let (mut rest, mut left) = (text, most);
        while let Some(char) = rest.chars().next().filter(|_| left > 0) {
            let value = self.values.iter().find(|value| rest.starts_with(value.as_str()));
            let token = || Some(token(text, text.len() - rest.len())?).filter(|_| self.has_tokens);
            let (taken, put) = match value.map(String::as_str).or_else(token) {
                Some(value) => (value, MASK),
                None => (&rest[..char.len_utf8()], &rest[..char.len_utf8()]),
            };
            shown.push_str(put);
            left = left.saturating_sub(taken.chars().count());
            rest = &rest[taken.len()..];
        }
        shown
    }
}

/// Returns the token that begins at this place of a text, if one does.
fn token(text: &str, place: usize) -> Option<&str> {
    let is_of_token = |char: char| char.is_ascii_alphanumeric() || "-._~+/=".contains(char);
    let (before, rest) = text.split_at(place);
    if before.ends_with(is_of_token) {
        return None;
    }
    let token = &rest[..rest.find(|char| !is_of_token(char)).unwrap_or(rest.len())];
    let scheme = before.len().checked_sub(BEARER.len()).and_then(|start| before.get(start..));
    let is_bearer = scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(BEARER));
    // The head of a JSON Web Token begins with `{"`.
    let is_web_token = token.starts_with("eyJ") && token.matches('.').count() >= 2;
    (token.len() >= PART_MIN && (is_bearer || is_web_token)).then_some(token)
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
        redact(headers).text(text)
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
    fn a_value_that_begins_within_a_beginning_is_taken_out_whole() {
        let redact = redact(&[("Authorization", "Bearer hunter2-hunter2")]);
        let text = "no: Bearer hunter2-hunter2 and more";
        assert_eq!(redact.beginning(text, 5), format!("no: {MASK}"));
        assert_eq!(redact.beginning(text, 28), format!("no: {MASK} a"));
        assert_eq!(redact.beginning(text, 4), "no: ");
    }

    #[test]
    fn the_beginning_of_a_value_is_shown_so_that_nobody_guesses_by_it() {
        let headers = [("Authorization", "Bearer hunter2-hunter2")];
        for guess in ["no: Bearer hunter2-hunter", "no: hunter2-hunter", "no: Bearer hunter3"] {
            assert_eq!(shown(&headers, guess), guess);
        }
    }

    #[test]
    fn the_values_of_two_are_taken_out_by_both() {
        let of = |value| redact(&[("Authorization", value)]);
        let both = of("Bearer hunter2-first").and(of("Bearer hunter2-second"));
        assert_eq!(both.text("hunter2-first, hunter2-second"), format!("{MASK}, {MASK}"));
    }

    #[test]
    fn what_has_the_form_of_a_token_is_taken_out_if_a_header_has_a_secret() {
        let redact = |header: &str| {
            let json = format!(
                r#"{{ "url": "https://example.com", "headers": {{ "Authorization": {header} }} }}"#
            );
            let callback = serde_json::from_str(&json).unwrap();
            Redact::new(&App::default(), &callback).and_tokens(&callback)
        };
        let secret = redact(r#"{ "secret": "erp" }"#);
        for (text, expected) in [
            ("no: Bearer abc-123_X~+/==, or", "no: Bearer MASK, or"),
            ("'authorization: bearer 0123.4567'", "'authorization: bearer MASK'"),
            ("token=\"eyJhbGci.eyJzdWIi.c2ln\"", "token=\"MASK\""),
            ("ü Bearer 01234567 and Bearer 76543210", "ü Bearer MASK and Bearer MASK"),
            ("Bearer of news, a eyJhbGci.pdf", "Bearer of news, a eyJhbGci.pdf"),
        ] {
            assert_eq!(secret.text(text), expected.replace("MASK", MASK));
        }
        assert_eq!(secret.beginning("Bearer 0123456789", 9), format!("Bearer {MASK}"));
        let both = Redact::default().with("value").and(secret).with("other");
        assert_eq!(both.text("Bearer 01234567 value"), format!("Bearer {MASK} {MASK}"));
        assert_eq!(redact("\"text\"").text("Bearer 01234567"), "Bearer 01234567");
    }

    #[test]
    fn each_cookie_is_taken_out_and_short_words_are_not() {
        let headers = [("Cookie", "sid=0123456789; theme=dark")];
        assert_eq!(shown(&headers, "dark 0123456789"), format!("dark {MASK}"));
        assert_eq!(shown(&[("X-Token", "abc")], "abc"), "abc");
    }
}
