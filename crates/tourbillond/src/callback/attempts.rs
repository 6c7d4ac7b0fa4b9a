//! Attempts that have ended, as JSON lines of [`EndedAttempt`]: the first and the last.

use std::borrow::Cow;
use std::mem;

use serde::{Deserialize, Serialize};

use super::completion::{FAILED, TEXT_MAX};
use super::redact::Redact;
use crate::model::{CompletionState, Definition, EndedAttempt};

/// Most bytes of kept attempts: the limit of a record, less a line with the definition.
const KEPT_MAX: usize = 8 * 1024 - 96;

/// Most characters that are kept of the reason of a failure: the text of a call is one.
const ERROR_MAX: usize = FAILED.len() + ": ".len() + TEXT_MAX;

/// Most characters that are kept of an answer.
const ANSWER_MAX: usize = 512;

/// Returns an answer's body as text to show: invalid bytes become U+FFFD, and secrets are taken
/// out.
pub(crate) fn shown(body: &[u8], redact: &Redact) -> String {
    cut(&redact.beginning(&String::from_utf8_lossy(body), ANSWER_MAX), ANSWER_MAX)
}

/// Returns the part of a text that can be shown, at most so many characters.
pub(crate) fn cut(text: &str, most: usize) -> String {
    let shown = |char: char| match char {
        '\n' | '\t' => char,
        char if char.is_control() => char::REPLACEMENT_CHARACTER,
        char => char,
    };
    text.chars().take(most).map(shown).collect()
}

/// The attempts, and one more. If that is too much, requests and headers of those before it go, and
/// then those after the first go, the oldest first.
pub(crate) fn append(kept: &str, last: &EndedAttempt) -> String {
    let mut last = last.clone();
    last.error = last.error.map(|error| cut(&error, ERROR_MAX));
    let mut lines = kept.lines().map(Cow::Borrowed).collect::<Vec<_>>();
    lines.push(Cow::Owned(written(&last)));
    let size = |lines: &[Cow<'_, str>]| lines.iter().map(|line| line.len() + 1).sum::<usize>();
    while size(&lines) > KEPT_MAX && lines.len() > 1 {
        let before = lines.len() - 1;
        let bare = lines[..before].iter().enumerate();
        let bare = bare.filter_map(|(index, line)| Some((index, bare_of(line)?))).next();
        match bare {
            Some((index, line)) => lines[index] = Cow::Owned(line),
            None => drop(lines.remove(if before > 1 { 1 } else { 0 })),
        }
    }
    lines.join("\n")
}

fn written(attempt: &EndedAttempt) -> String {
    serde_json::to_string(attempt).expect("an attempt is written as JSON")
}

/// The line of an attempt without its request and headers; `None` if it has neither.
fn bare_of(line: &str) -> Option<String> {
    let mut attempt: EndedAttempt = serde_json::from_str(line).ok()?;
    let (request, headers) = (attempt.request.take(), mem::take(&mut attempt.headers));
    (request.is_some() || !headers.is_empty()).then(|| written(&attempt))
}

/// Line that identifies the origin of the attempts before it: the definition of a one-shot that
/// succeeded, whose record has no payload, or the timer of an attempt that waits.
#[derive(Serialize, Deserialize)]
struct Of {
    definition: String,
    /// Version of the timer while the attempt waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
}

impl Of {
    fn read(kept: &str) -> Option<Self> {
        kept.lines().last().and_then(|line| serde_json::from_str(line).ok())
    }

    fn after(self, kept: &str) -> String {
        let line = serde_json::to_string(&self).expect("a text is written as JSON");
        format!("{kept}\n{line}")
    }
}

/// Adds to the attempts of a one-shot that succeeded which definition it was made by.
pub fn ended(kept: &str, definition: &Definition) -> String {
    Of { definition: definition.digest(), version: None }.after(kept)
}

/// Returns `true` if the attempts of this [`ended`] text were made by this definition.
pub fn was_of(kept: &str, definition: &Definition) -> bool {
    let of = Of::read(kept).filter(|of| of.version.is_none());
    of.is_some_and(|of| of.definition == definition.digest())
}

/// Adds the origin of the last attempt, still open: the definition, and the timer as long as it has
/// this version.
pub(crate) fn opened(kept: &str, definition: &Definition, version: u64) -> String {
    Of { definition: definition.digest(), version: Some(version) }.after(kept)
}

/// Returns the last attempt, if its receiver is to complete it by a call, or has and that is not
/// judged.
///
/// Returns `None` if a later definition has replaced that of the attempt. Also if the attempt waits
/// and the timer has another version: it was rescheduled since, or is disabled.
pub(crate) fn open(kept: &str, definition: &Definition, version: u64) -> Option<EndedAttempt> {
    let last = read(kept).pop().filter(|last| last.error.is_none())?;
    let waits = last.completion.as_ref()?.state == CompletionState::Waiting;
    let of = Of::read(kept)?;
    let is_current = !waits || of.version == Some(version);
    (is_current && of.definition == definition.digest()).then_some(last)
}

/// Returns the attempts with this one in place of the last, [`open`] one.
pub(crate) fn closed(kept: &str, last: &EndedAttempt) -> String {
    let mut lines = kept.lines().collect::<Vec<_>>();
    let is_attempt = |line: &&str| serde_json::from_str::<EndedAttempt>(line).is_ok();
    lines.truncate(lines.iter().rposition(is_attempt).unwrap_or(lines.len()));
    append(&lines.join("\n"), last)
}

/// Reads kept attempts; lines of other kinds are left out.
pub fn read(kept: &str) -> Vec<EndedAttempt> {
    kept.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::{Completion, SentRequest, Timing};

    fn attempt_of(attempt: u32, answer: &str) -> EndedAttempt {
        EndedAttempt {
            attempt,
            started: "2026-11-22T05:00:00.000001Z".into(),
            ms: 12,
            status: Some(503),
            error: Some("answered 503".into()),
            answer: answer.into(),
            ..EndedAttempt::default()
        }
    }

    /// The same with a request and headers that have so many bytes.
    fn whole(attempt: u32, answer: &str, bytes: usize) -> EndedAttempt {
        let headers = BTreeMap::from([("x".to_owned(), "y".repeat(bytes))]);
        let request = SentRequest {
            method: "POST".into(),
            url: "https://example.com/".into(),
            headers: headers.clone(),
        };
        let timing = Timing { first_byte_ms: Some(7), ..Timing::default() };
        EndedAttempt { request: Some(request), headers, timing, ..attempt_of(attempt, answer) }
    }

    #[test]
    fn tries_are_read_as_they_were_kept() {
        let (first, second) = (attempt_of(1, "no\n\"way\""), attempt_of(2, ""));
        let kept = append(&append("", &first), &second);
        assert_eq!(read(&kept), [first, second]);
        assert_eq!(read("not JSON\n{}"), []);
    }

    #[test]
    fn the_first_and_the_last_are_kept() {
        let worst = shown(&[0; 4 * ANSWER_MAX], &Redact::default());
        let mut kept = String::new();
        for attempt in 1..=100 {
            let mut last = attempt_of(attempt, &worst);
            last.error = Some("\u{10ffff}".repeat(1_000));
            kept = append(&kept, &last);
            assert!(kept.len() <= KEPT_MAX, "{}", kept.len());
            let attempts = read(&kept);
            assert_eq!(attempts[0].attempt, 1);
            assert_eq!(attempts.last().unwrap().attempt, attempt);
        }
        let numbers = read(&kept).iter().map(|kept| kept.attempt).collect::<Vec<_>>();
        assert!(numbers.len() > 2 && numbers.is_sorted(), "{numbers:?}");
    }

    #[test]
    fn requests_and_headers_go_before_attempts_do_and_those_of_the_last_stay() {
        let mut kept = String::new();
        for attempt in 1..=5 {
            kept = append(&kept, &whole(attempt, "no", 400));
        }
        let all = read(&kept);
        assert_eq!(all, (1..=5).map(|attempt| whole(attempt, "no", 400)).collect::<Vec<_>>());
        for attempt in 6..=12 {
            kept = append(&kept, &whole(attempt, "no", 400));
            assert!(kept.len() <= KEPT_MAX, "{}", kept.len());
        }
        let all = read(&kept);
        let numbers = all.iter().map(|kept| kept.attempt).collect::<Vec<_>>();
        assert_eq!(numbers, (1..=12).collect::<Vec<_>>());
        let bare = all.iter().take_while(|kept| kept.request.is_none()).count();
        assert!((1..12).contains(&bare), "{bare}");
        assert!(all[..bare].iter().all(|kept| kept.headers.is_empty()));
        assert!(all[bare..].iter().all(|kept| *kept == whole(kept.attempt, "no", 400)));
        assert!(all.iter().all(|kept| kept.timing.first_byte_ms == Some(7)));
    }

    #[test]
    fn the_longest_attempt_fits_beside_the_first_with_its_request_and_headers() {
        let mut longest = whole(1, &shown(&[0; 512], &Redact::default()), 1024);
        longest.error = Some("\u{10ffff}".repeat(1_000));
        longest.request.as_mut().unwrap().url = "u".repeat(512);
        let kept = append("", &longest);
        longest.attempt = 2;
        let attempts = read(&append(&kept, &longest));
        assert_eq!(attempts.iter().map(|kept| kept.attempt).collect::<Vec<_>>(), [1, 2]);
        assert_eq!((&attempts[0].request, &attempts[1].request), (&None, &longest.request));
    }

    #[test]
    fn what_ended_is_known_by_its_definition() {
        let definition = |url: &str| -> Definition {
            let json = serde_json::json!({ "when": { "after": "1h" }, "callback": { "url": url } });
            serde_json::from_value(json).unwrap()
        };
        let (one, other) = (definition("http://a/"), definition("http://b/"));
        let mut attempts = append("", &attempt_of(1, ""));
        let short = append(&attempts, &attempt_of(2, "x")).len();
        attempts = append(&attempts, &attempt_of(2, &"x".repeat(KEPT_MAX - short)));
        assert_eq!((attempts.len(), read(&attempts).len()), (KEPT_MAX - 1, 2));
        assert!(!was_of(&attempts, &one));
        let kept = ended(&attempts, &one);
        assert!(was_of(&kept, &one) && !was_of(&kept, &other));
        assert_eq!(read(&kept), read(&attempts));
        for kept in [kept, opened(&attempts, &one, u64::MAX)] {
            assert!(kept.len() <= 8 * 1024, "{}", kept.len());
        }
    }

    #[test]
    fn an_attempt_waits_as_long_as_its_timer_is_as_it_left_it() {
        let json =
            serde_json::json!({ "when": { "after": "1h" }, "callback": { "url": "http://a/" } });
        let definition: Definition = serde_json::from_value(json).unwrap();
        let in_state = |state| {
            let (until, text) = ("2026-11-22T05:00:00Z".into(), String::new());
            let completion = Some(Completion { state, until, called: None, text });
            EndedAttempt { error: None, completion, ..attempt_of(1, "") }
        };
        let waits = in_state(CompletionState::Waiting);
        let kept = opened(&append("", &waits), &definition, 3);
        let versions = [2, 3, 4].map(|version| open(&kept, &definition, version));
        assert_eq!(versions, [None, Some(waits), None]);
        assert!(!was_of(&kept, &definition));
        // Its receiver's answer counts, also for a timer that was rescheduled since.
        let done = in_state(CompletionState::Succeeded);
        let kept = opened(&closed(&kept, &done), &definition, 4);
        assert_eq!(open(&kept, &definition, 5), Some(done));
    }

    #[test]
    fn an_answer_is_text_without_what_terminals_obey() {
        assert_eq!(shown(b"a\x1b[2J\xff\n", &Redact::default()), "a\u{fffd}[2J\u{fffd}\n");
        assert_eq!(
            shown("é".repeat(600).as_bytes(), &Redact::default()).chars().count(),
            ANSWER_MAX
        );
    }
}
