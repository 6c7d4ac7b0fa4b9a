//! `Deadline`.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use tourbillon::Timer;
use tourbillon::deadline::Deadline;
use tourbillon::queue::DelayQueue;

use crate::support::*;

fn unit(name: char) -> Duration {
    match name {
        'H' => 3600 * SECOND,
        'M' => 60 * SECOND,
        'S' => SECOND,
        'm' => ms(1),
        'u' => Duration::from_micros(1),
        'n' => Duration::from_nanos(1),
        _ => panic!("{name} is no unit"),
    }
}

/// Reads a `grpc-timeout` by another way than the crate's.
fn said(value: &str) -> Duration {
    let (digits, name) = value.split_at(value.len() - 1);
    let count: u32 = digits.parse().expect("digits");
    assert!((1..=8).contains(&digits.len()), "{value}");
    unit(name.chars().next().expect("a unit")) * count
}

fn limits() -> impl Strategy<Value = Duration> {
    // Of every magnitude.
    (0..64u32, any::<u64>()).prop_map(|(shift, nanos)| Duration::from_nanos(nanos >> shift))
}

proptest! {
    #[test]
    fn what_is_sent_is_never_longer_than_what_remains_and_hardly_shorter(limit in limits()) {
        let now = Instant::now();
        let deadline = Deadline::after(now, limit);
        let value = deadline.to_grpc_timeout(now).unwrap();
        let sent = said(&value);
        // Six digits at the least, unless all of it fits.
        prop_assert!(sent <= limit && limit - sent <= limit / 100_000, "{limit:?}: {value}");
        let received = Deadline::parse_grpc_timeout(&value, now).unwrap();
        prop_assert_eq!(received.remaining(now), Some(sent));
        let millis = deadline.to_millis(now).unwrap();
        prop_assert!(ms(millis) <= limit && limit - ms(millis) < ms(1));
        let received = Deadline::parse_millis(millis.to_string(), now).unwrap();
        prop_assert_eq!(received, Deadline::from_millis(millis, now));
        prop_assert_eq!(received.remaining(now), Some(ms(millis)));
    }

    #[test]
    fn every_value_of_the_specification_is_read_as_it_is_meant(
        count in 0..100_000_000u32,
        width in 1..9usize,
        name in prop::sample::select(vec!['H', 'M', 'S', 'm', 'u', 'n']),
    ) {
        let digits = format!("{count:0width$}");
        let (now, value) = (Instant::now(), format!("{digits}{name}"));
        let deadline = Deadline::parse_grpc_timeout(&value, now).unwrap();
        prop_assert_eq!(deadline.remaining(now), Some(unit(name) * count), "{}", value);
        // And is sent on as no more than that.
        prop_assert!(said(&deadline.to_grpc_timeout(now).unwrap()) <= unit(name) * count);
    }

    #[test]
    fn no_bytes_make_it_panic_and_none_but_the_specified_are_read(
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), b'0'..=b'9', Just(b'S')], 0..12),
    ) {
        let now = Instant::now();
        let specified = bytes.split_last().is_some_and(|(name, digits)| {
            b"HMSmun".contains(name)
                && (1..=8).contains(&digits.len())
                && digits.iter().all(u8::is_ascii_digit)
        });
        prop_assert_eq!(Deadline::parse_grpc_timeout(&bytes, now).is_ok(), specified);
        let digits = !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit);
        prop_assert_eq!(Deadline::parse_millis(&bytes, now).is_ok(), digits);
    }

    #[test]
    fn the_earlier_of_two_counts(one in limits(), other in limits()) {
        let now = Instant::now();
        let [first, second] = [one, other].map(|limit| Deadline::after(now, limit));
        prop_assert_eq!(first.min(second).remaining(now), Some(one.min(other)));
        prop_assert_eq!(first.min(Deadline::NEVER), first);
        prop_assert_eq!(Deadline::NEVER.min(first), first);
        prop_assert_eq!(first.cmp(&second), one.cmp(&other));
    }
}

#[test]
fn what_is_malformed_is_refused_with_what_was_expected() {
    let now = Instant::now();
    for value in ["", "1", "123456789S", "+1S", "1.5S", " 1S", "1s", "1ms", "1_0S", "١S"] {
        let error = Deadline::parse_grpc_timeout(value, now).expect_err(value);
        let expected = "not a deadline: 1 to 8 digits and one of H, M, S, m, u, n expected";
        assert_eq!(error.to_string(), expected);
    }
    for value in
        ["", "+1", "-1", "1.5", " 1", "1ms", "18446744073709551616", "99999999999999999999"]
    {
        let error = Deadline::parse_millis(value, now).expect_err(value);
        assert_eq!(error.to_string(), "not a deadline: a number of milliseconds expected");
    }
}

#[test]
fn never_is_the_latest_and_is_not_sent() {
    let now = Instant::now();
    assert_eq!(Deadline::default(), Deadline::NEVER);
    assert!(Deadline::NEVER > Deadline::after(now, Duration::from_secs(1 << 60)));
    assert_eq!(Deadline::after(now, Duration::MAX), Deadline::NEVER, "no instant is as late");
    assert_eq!((Deadline::NEVER.instant(), Deadline::NEVER.remaining(now)), (None, None));
    assert_eq!(
        (Deadline::NEVER.to_grpc_timeout(now), Deadline::NEVER.to_millis(now)),
        (None, None)
    );
    assert_eq!(format!("{:?}", Deadline::NEVER), "Deadline::NEVER");
}

#[test]
fn one_that_has_passed_has_nothing_left() {
    let (past, now) = (Instant::now(), Instant::now() + SECOND);
    let deadline = Deadline::from(past);
    assert_eq!(deadline.remaining(now), Some(Duration::ZERO));
    assert_eq!(deadline.to_grpc_timeout(now).as_deref(), Some("0n"));
    assert_eq!(deadline.to_millis(now), Some(0));
    assert_eq!(Deadline::parse_grpc_timeout("0n", now).unwrap().instant(), Some(now));
    assert_eq!(Deadline::parse_millis("0", now).unwrap().instant(), Some(now));
}

#[test]
fn the_longest_is_sent_as_the_most_that_can_be_said() {
    let now = Instant::now();
    let limit = 3600 * Duration::from_secs(100_000_000);
    assert_eq!(Deadline::after(now, limit).to_grpc_timeout(now).as_deref(), Some("99999999H"));
    let longest = Deadline::parse_millis(u64::MAX.to_string(), now).unwrap();
    assert!(longest.to_grpc_timeout(now).is_none_or(|value| value == "99999999H"));
}

#[test]
fn sleeps_and_timeouts_take_it() {
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    let deadline = Deadline::after(timer.now(), 2 * SECOND);
    clock.block_on(timer.sleep_until(deadline.min(Deadline::after(start, SECOND))));
    assert_eq!(clock.now() - start, SECOND);
    let silence = || std::future::pending::<()>();
    assert!(clock.block_on(timer.timeout_at(deadline, silence())).is_err());
    assert!(clock.block_on(timer.timeout_at(deadline, silence())).is_err());
    assert_eq!(clock.now() - start, 2 * SECOND);

    let mut never = polled(timer.sleep_until(Deadline::NEVER));
    assert_eq!(clock.next_deadline(), None);
    clock.advance(Duration::MAX);
    assert!(poll(&mut never).is_pending());
}

#[test]
fn resets_and_queues_take_it() {
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    let silence = std::future::pending::<()>;
    let mut never = timer.never();
    never.reset(start + 5 * SECOND);
    assert_eq!(never.deadline(), start + 5 * SECOND);
    never.reset(Deadline::NEVER);
    assert_eq!(never.remaining(), None);

    let mut limited = Box::pin(timer.timeout(SECOND, silence()));
    limited.as_mut().reset(Deadline::NEVER);
    assert_eq!(limited.deadline(), never.deadline());

    let mut queue = DelayQueue::with_timer(&timer);
    let key = queue.insert_at("later", Deadline::from(start + 9 * SECOND));
    assert_eq!(queue.deadline(&key), start + 9 * SECOND);
    assert!(queue.try_reset_at(&key, Deadline::NEVER));
    assert_eq!(queue.deadline(&key), never.deadline());
}

#[test]
fn a_deadline_is_handed_on_from_callee_to_callee() {
    // Each works for a while, and then calls the next.
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    async fn serve(timer: Timer, header: String, hops: u32) -> Vec<Duration> {
        let deadline = Deadline::parse_grpc_timeout(header, timer.now()).unwrap();
        timer.sleep(ms(30)).await;
        let left = deadline.remaining(timer.now()).unwrap();
        let header = deadline.to_grpc_timeout(timer.now()).unwrap();
        let mut all = vec![left];
        if hops > 0 {
            let next = Box::pin(serve(timer.clone(), header, hops - 1));
            all.extend(timer.timeout_at(deadline, next).await.unwrap_or_default());
        }
        all
    }
    let left = clock.block_on(serve(timer.clone(), "80m".to_owned(), 2));
    assert_eq!(left, [ms(50), ms(20)], "the third is cut");
    assert_eq!(clock.now() - start, ms(80));
}
