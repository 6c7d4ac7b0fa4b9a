//! Outcomes: the meaning of an answer, and when the next attempt is due.

use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{HeaderMap, RETRY_AFTER};
use jiff::Timestamp;
use tourbillon_durable::Retry;

use super::request::Fault;
use crate::model::{self, RetryPolicy};

/// The most attempts that an occurrence may have.
const ATTEMPTS_MAX: u32 = 1_000;

/// The longest pause between two attempts that a definition may ask for.
const PAUSE_MAX: Duration = Duration::from_secs(86_400);

/// The longest that a receiver may ask to be left alone, by `Retry-After`.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);

/// The shortest pause between two attempts, so that no occurrence calls a receiver more often than
/// the shortest period does.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// Reads a policy for attempts that fail; the default if there is none.
///
/// # Errors
///
/// Every field that is wrong, with the reason.
pub fn retry(policy: Option<&RetryPolicy>) -> Result<Retry, Vec<Fault>> {
    let policy = policy.cloned().unwrap_or_default();
    let mut faults = Vec::new();
    let mut span = |field: &str, text: &str| {
        let span = model::span(text).and_then(|span| match span {
            span if span > PAUSE_MAX => Err("is longer than a day".to_owned()),
            span if span < PAUSE_MIN && policy.attempts > 1 => {
                Err("must be at least `1s` if `attempts` is more than 1".to_owned())
            }
            span => Ok(span),
        });
        span.map_err(|why| faults.push((format!("retry.{field}"), why))).ok()
    };
    let pauses = span("first", &policy.first).zip(span("longest", &policy.longest));
    if pauses.is_some_and(|(first, longest)| first > longest) {
        faults.push(("retry.first".to_owned(), "is longer than `longest`".to_owned()));
    }
    if !(1..=ATTEMPTS_MAX).contains(&policy.attempts) {
        faults.push(("retry.attempts".to_owned(), format!("is not between 1 and {ATTEMPTS_MAX}")));
    }
    match pauses {
        Some((first, longest)) if faults.is_empty() => {
            Ok(Retry::new(policy.attempts, first, longest))
        }
        _ => Err(faults),
    }
}

/// Answer of a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// The beginning of the body.
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Returns the pause that the receiver asks for by `Retry-After`, as seconds or as a date.
    fn retry_after(&self, now: Timestamp) -> Option<Duration> {
        let text = self.headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Some(text.parse().map_or(Duration::MAX, Duration::from_secs));
        }
        let date = httpdate::parse_http_date(text).ok()?;
        Some(date.duration_since(now.into()).unwrap_or_default())
    }
}

/// Decision on an occurrence after an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Succeeded,
    /// The receiver completes the attempt by a call, within this time.
    Waits(Duration),
    /// Due again after the pause, unless this was the last attempt.
    Failed(String, Duration),
    /// The receiver wants it no more.
    GivenUp(String),
}

/// Returns the outcome of an answer, or of a missing one, after so many earlier failures. `random`
/// is any number, and `now` the time of the answer.
///
/// With `complete_within`, a call decides after an answer of 202. Otherwise an answer whose status
/// is in `success` succeeds, or any 2xx if that list is empty. Of the other answers, 410 (gone)
/// ends the occurrence, and the rest are failures, redirects included. The pause is between half of
/// the policy's and all of it, so that callbacks that failed together do not return together, and
/// is at least the receiver's `Retry-After`.
pub(crate) fn judge(
    answer: &Result<Answer, String>,
    (success, complete_within): (&[u16], Option<Duration>),
    retry: &Retry,
    failures: u32,
    random: u64,
    now: Timestamp,
) -> Verdict {
    if let (Ok(answer), Some(within)) = (answer, complete_within) {
        if answer.status == StatusCode::ACCEPTED {
            return Verdict::Waits(within);
        }
    }
    let is_success = |status: StatusCode| match success {
        [] => status.is_success(),
        listed => listed.contains(&status.as_u16()),
    };
    let (why, asked) = match answer {
        Ok(answer) if is_success(answer.status) => return Verdict::Succeeded,
        Ok(answer) if answer.status == StatusCode::GONE => {
            return Verdict::GivenUp(format!("answered {}", answer.status));
        }
        Ok(answer) => (format!("answered {}", answer.status), answer.retry_after(now)),
        Err(why) => (why.clone(), None),
    };
    let whole = retry.pause(failures + 1).unwrap_or_default();
    let pause = whole / 2 + share(whole / 2, random);
    Verdict::Failed(why, pause.max(asked.unwrap_or_default().min(RETRY_AFTER_MAX)))
}

/// A part of a span, by any number.
pub(crate) fn share(span: Duration, random: u64) -> Duration {
    span.mul_f64((random >> 11) as f64 / (1_u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn answer(status: u16, retry_after: Option<&str>) -> Result<Answer, String> {
        let status = StatusCode::from_u16(status).unwrap();
        let retry_after = retry_after.map(|text| (RETRY_AFTER, text.parse().unwrap()));
        Ok(Answer { status, headers: HeaderMap::from_iter(retry_after), body: Vec::new() })
    }

    fn judge(
        answer: &Result<Answer, String>,
        means: (&[u16], Option<Duration>),
        retry: &Retry,
        failures: u32,
        random: u64,
    ) -> Verdict {
        // 6 November 1994, 08:49:07.
        let now = Timestamp::from_second(784_111_747).unwrap();
        super::judge(answer, means, retry, failures, random, now)
    }

    fn pause(answer: &Result<Answer, String>, failures: u32, random: u64) -> Duration {
        match judge(answer, (&[], None), &retry(None).unwrap(), failures, random) {
            Verdict::Failed(_, pause) => pause,
            verdict => panic!("{verdict:?}"),
        }
    }

    #[test]
    fn only_2xx_is_success_and_410_is_the_end() {
        let policy = retry(None).unwrap();
        for status in [200, 201, 204, 299] {
            assert_eq!(
                judge(&answer(status, None), (&[], None), &policy, 0, 0),
                Verdict::Succeeded
            );
        }
        for status in [301, 307, 400, 404, 408, 429, 500, 503] {
            let verdict = judge(&answer(status, None), (&[], None), &policy, 0, 0);
            assert!(matches!(verdict, Verdict::Failed(..)), "{status}");
        }
        let verdict = judge(&answer(410, None), (&[], None), &policy, 0, 0);
        assert_eq!(verdict, Verdict::GivenUp("answered 410 Gone".into()));
    }

    #[test]
    fn a_list_of_statuses_takes_the_place_of_2xx_and_may_have_410() {
        let policy = retry(None).unwrap();
        let judged = |status, listed| judge(&answer(status, None), (listed, None), &policy, 0, 0);
        for status in [200, 302, 404, 410] {
            assert_eq!(judged(status, &[200, 302, 404, 410]), Verdict::Succeeded);
        }
        assert!(matches!(judged(204, &[200, 404]), Verdict::Failed(..)));
        assert!(matches!(judged(410, &[200, 404]), Verdict::GivenUp(_)));
    }

    #[test]
    fn only_202_waits_and_only_if_the_callback_says_so() {
        let policy = retry(None).unwrap();
        let judged =
            |status, listed, within| judge(&answer(status, None), (listed, within), &policy, 0, 0);
        assert_eq!(judged(202, &[], None), Verdict::Succeeded);
        assert!(matches!(judged(202, &[204], None), Verdict::Failed(..)));
        for listed in [&[][..], &[202], &[204]] {
            assert_eq!(judged(202, listed, Some(SECOND)), Verdict::Waits(SECOND));
        }
        assert_eq!(judged(200, &[], Some(SECOND)), Verdict::Succeeded);
        assert!(matches!(judged(500, &[], Some(SECOND)), Verdict::Failed(..)));
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_differ() {
        let error = Err("no answer".to_owned());
        for (failures, seconds) in [(0, 10), (1, 20), (2, 40), (3, 80)] {
            assert_eq!(pause(&error, failures, 0), SECOND * seconds / 2);
            let most = pause(&error, failures, u64::MAX);
            assert!(most <= SECOND * seconds && most > SECOND * seconds * 99 / 100);
        }
    }

    #[test]
    fn a_receiver_may_ask_for_a_longer_pause_of_an_hour_at_most() {
        assert_eq!(pause(&answer(503, Some("30")), 0, 0), 30 * SECOND);
        assert_eq!(pause(&answer(503, Some("1")), 0, 0), 5 * SECOND);
        for long in ["3601", "18446744073709551615", "18446744073709551616", &"9".repeat(100)] {
            assert_eq!(pause(&answer(429, Some(long)), 0, 0), RETRY_AFTER_MAX, "{long}");
        }
    }

    #[test]
    fn a_receiver_may_ask_for_a_date_in_each_of_the_three_forms() {
        for (date, seconds) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", 30),
            ("Sunday, 06-Nov-94 08:49:37 GMT", 30),
            ("Sun Nov  6 08:49:37 1994", 30),
            ("Fri Nov 11 08:49:37 1994", 3_600),
            ("Monday, 31-Dec-68 23:59:59 GMT", 3_600),
            ("Sun, 06 Nov 1994 08:49:07 GMT", 5),
            ("Saturday, 05-Nov-94 08:49:37 GMT", 5),
            ("", 5),
            ("-1", 5),
            ("1.5", 5),
            ("soon", 5),
            ("Sunday, 06-Nov-94 08:49:37 CET", 5),
            ("Sun Nov 31 08:49:37 1994", 5),
        ] {
            let paused = pause(&answer(503, Some(date)), 0, 0);
            assert_eq!(paused, SECOND * seconds, "{date}");
        }
    }

    #[test]
    fn a_policy_is_bounded() {
        let policy = |attempts, first: &str, longest: &str| RetryPolicy {
            attempts,
            first: first.into(),
            longest: longest.into(),
        };
        let good = Retry::new(3, SECOND, 60 * SECOND);
        assert_eq!(retry(Some(&policy(3, "1s", "1m"))), Ok(good));
        for (wrong, field) in [
            (policy(0, "1s", "1m"), "retry.attempts"),
            (policy(1_001, "1s", "1m"), "retry.attempts"),
            (policy(3, "soon", "1m"), "retry.first"),
            (policy(3, "2m", "1m"), "retry.first"),
            (policy(3, "1s", "25h"), "retry.longest"),
            (policy(2, "0s", "1m"), "retry.first"),
            (policy(1_000, "999ms", "1m"), "retry.first"),
            (policy(2, "0s", "0s"), "retry.longest"),
        ] {
            let faults = retry(Some(&wrong)).unwrap_err();
            assert!(faults.iter().any(|(name, _)| name == field), "{wrong:?}: {faults:?}");
        }
    }

    #[test]
    fn one_attempt_needs_no_pause() {
        let policy = RetryPolicy { attempts: 1, first: "0s".to_owned(), longest: "0s".to_owned() };
        assert_eq!(retry(Some(&policy)).unwrap().attempts, 1);
    }

    #[test]
    fn each_field_of_a_policy_has_a_default() {
        let read = |text: &str| retry(Some(&serde_json::from_str(text).unwrap()));
        let of = |attempts, first: u32, longest: u32| {
            Ok(Retry::new(attempts, SECOND * first, SECOND * longest))
        };
        assert_eq!(retry(None), of(5, 10, 120));
        for (text, expected) in [
            ("{}", of(5, 10, 120)),
            (r#"{ "attempts": 3 }"#, of(3, 10, 120)),
            (r#"{ "first": "1s" }"#, of(5, 1, 120)),
            (r#"{ "first": "5m" }"#, of(5, 300, 300)),
            (r#"{ "longest": "1h" }"#, of(5, 10, 3_600)),
            (r#"{ "longest": "4s" }"#, of(5, 4, 4)),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
