//! Parts of a request and of an answer's head that are kept with an attempt: bounded, and without
//! credentials.

use std::collections::BTreeMap;

use hyper::Request;
use hyper::header::{HeaderMap, HeaderValue};

use super::attempts::cut;
use super::redact::Redact;
use crate::model::{Callback, Header, MASK, SentRequest, is_sensitive};

/// Most characters that are kept of a URL.
const URL_MAX: usize = 512;

/// Most headers that are kept.
const HEADERS_MAX: usize = 16;

/// Most characters that are kept of a header's value.
const VALUE_MAX: usize = 128;

/// Most bytes of the headers that are kept, as JSON. With this, the first and the last attempt fit
/// into a record whatever they have.
const BYTES_MAX: usize = 1024;

/// The service's own header that identifies a run, which everybody may see.
pub(crate) const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Returns the kept part of a callback's request. Its URL and the texts of its headers are not
/// searched for secrets: their author could guess a secret by this.
pub(crate) fn sent<B>(request: &Request<B>, callback: &Callback) -> SentRequest {
    let is_secret = |(name, value): (&String, &Header)| {
        matches!(value, Header::Secret { .. }).then(|| name.to_ascii_lowercase())
    };
    let secrets = callback.headers.iter().filter_map(is_secret).collect::<Vec<_>>();
    let is_shown = |name: &str| {
        let is_named = secrets.iter().any(|secret| secret == name);
        name == IDEMPOTENCY_KEY || !(is_sensitive(name) || is_named)
    };
    SentRequest {
        method: request.method().to_string(),
        url: cut(&request.uri().to_string(), URL_MAX),
        headers: kept(request.headers(), &Redact::default(), is_shown),
    }
}

/// Returns the kept part of an answer's headers.
pub(crate) fn answered(headers: &HeaderMap, redact: &Redact) -> BTreeMap<String, String> {
    kept(headers, redact, |name| !is_sensitive(name))
}

/// Returns the first headers with their values, equal names together, up to the limit.
fn kept(
    headers: &HeaderMap,
    redact: &Redact,
    is_shown: impl Fn(&str) -> bool,
) -> BTreeMap<String, String> {
    let mut kept = BTreeMap::new();
    let mut room = BYTES_MAX;
    for name in headers.keys().take(HEADERS_MAX) {
        let value = if is_shown(name.as_str()) {
            let lines = headers.get_all(name).iter().map(HeaderValue::as_bytes);
            let lines = lines.map(String::from_utf8_lossy).collect::<Vec<_>>();
            cut(&redact.beginning(&lines.join(", "), VALUE_MAX), VALUE_MAX)
        } else {
            MASK.to_owned()
        };
        let json = serde_json::to_string(&value).expect("a text is written as JSON");
        // Quotes, a colon and a comma.
        let size = name.as_str().len() + json.len() + 4;
        if let Some(rest) = room.checked_sub(size) {
            room = rest;
            kept.insert(name.to_string(), value);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::App;
    use crate::model::Callback;

    fn callback(headers: &str) -> Callback {
        let text = format!(r#"{{ "url": "https://example.com", "headers": {headers} }}"#);
        serde_json::from_str(&text).unwrap()
    }

    fn request(headers: &[(&str, &str)], url: &str) -> Request<()> {
        let builder = Request::post(url);
        headers
            .iter()
            .fold(builder, |all, (name, value)| all.header(*name, *value))
            .body(())
            .unwrap()
    }

    #[test]
    fn what_lets_somebody_in_is_masked_in_a_request_and_in_an_answer() {
        let named = r#""X-Ledger": { "secret": "ledger" }"#;
        let text = format!(r#"{{ "Authorization": "Bearer hunter2-hunter2", {named} }}"#);
        let (app, callback) = (App::default(), callback(&text));
        let redact = Redact::new(&app, &callback);
        let headers = [
            ("authorization", "Bearer hunter2-hunter2"),
            ("webhook-signature", "v1,c2lnbmF0dXJl"),
            ("idempotency-key", "one"),
            ("x-team", "ops"),
            ("x-ledger", "swordfish"),
        ];
        let sent = sent(&request(&headers, "https://example.com/?a=b"), &callback);
        assert_eq!((&*sent.method, &*sent.url), ("POST", "https://example.com/?a=b"));
        let expected = [MASK, "one", MASK, "ops", MASK];
        let names = ["authorization", "idempotency-key", "webhook-signature", "x-team", "x-ledger"];
        for (name, value) in names.into_iter().zip(expected) {
            assert_eq!(sent.headers[name], value, "{name}");
        }
        assert_eq!(sent.headers.len(), 5);
        let back = [("set-cookie", "a=b"), ("set-cookie", "c=d"), ("echo", "is hunter2-hunter2")];
        let answered = answered(request(&back, "/").headers(), &redact);
        let expected = [("echo", "is ••••••••"), ("set-cookie", MASK)];
        assert_eq!(answered, expected.map(|(name, value)| (name.into(), value.into())).into());
    }

    #[test]
    fn a_request_that_guesses_a_secret_is_kept_like_any_other() {
        let callback = callback(r#"{ "Authorization": "Bearer hunter2-hunter2" }"#);
        for guess in ["Bearer hunter2-hunter2", "hunter2-hunter2", "hunter2-h", "Bearer h"] {
            let url = format!("https://example.com/{}", guess.replace(' ', ""));
            let sent = sent(&request(&[("x-guess", guess)], &url), &callback);
            assert_eq!((&*sent.headers["x-guess"], sent.url), (guess, url));
        }
    }

    #[test]
    fn a_value_at_the_end_of_what_is_kept_is_taken_out_whole() {
        let redact = Redact::new(&App::default(), &callback(r#"{ "Cookie": "hunter2-hunter2" }"#));
        for before in [VALUE_MAX - 15, VALUE_MAX - 3] {
            let value = format!("{}hunter2-hunter2 and more", "x".repeat(before));
            let kept = answered(request(&[("echo", &value)], "/").headers(), &redact);
            assert!(!kept["echo"].contains("hun") && kept["echo"].contains('•'), "{kept:?}");
        }
    }

    #[test]
    fn a_request_and_an_answer_are_kept_within_bounds() {
        let redact = Redact::default();
        let long = "x".repeat(200);
        let many = (0..20).map(|number| format!("n{number}")).collect::<Vec<_>>();
        let short = many.iter().map(|name| (&**name, "y")).collect::<Vec<_>>();
        let kept = answered(request(&short, "/").headers(), &redact);
        assert_eq!(kept.len(), HEADERS_MAX);
        let lines = [("via", "a"), ("via", "b"), ("long", &*long)];
        let kept = answered(request(&lines, "/").headers(), &redact);
        assert_eq!((&*kept["via"], kept["long"].len()), ("a, b", VALUE_MAX));
        let full = many.iter().map(|name| (&**name, &*long)).collect::<Vec<_>>();
        let sent = sent(
            &request(&full, &format!("https://example.com/{long}{long}{long}")),
            &callback("{}"),
        );
        assert_eq!(sent.url.len(), URL_MAX);
        let size = serde_json::to_string(&sent.headers).unwrap().len();
        assert!(sent.headers.len() > 6 && size <= BYTES_MAX + 2, "{size}");
    }
}
