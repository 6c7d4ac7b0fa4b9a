//! tower's request timeout.

#[cfg(feature = "tonic-0_14")]
mod deadline;

use std::fmt;
use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tourbillon::deadline::Deadline;
use tourbillon::virtual_time::VirtualClock;
use tourbillon::{Elapsed, Sleep, Timer};
use tourbillon_tower::{Timeout, TimeoutLayer, TimeoutOrElse, TimeoutOrElseLayer};
use tower_layer::Layer;
use tower_service::Service;

const SECOND: Duration = Duration::from_secs(1);

/// A timer on a virtual clock, and the clock.
fn virtual_timer() -> (Timer, VirtualClock) {
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().expect("the options are valid");
    (timer, clock)
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[derive(Debug, PartialEq)]
struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("refused")
    }
}

impl std::error::Error for Refused {}

/// Takes as long for a request as it says; refuses the second request.
#[derive(Clone, Debug)]
struct Slow {
    timer: Timer,
    calls: usize,
}

impl Service<Duration> for Slow {
    type Response = Duration;
    type Error = Refused;
    type Future = futures::future::Either<Response, Ready<Result<Duration, Refused>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Refused>> {
        Poll::Ready(if self.calls < 3 { Ok(()) } else { Err(Refused) })
    }

    fn call(&mut self, time: Duration) -> Self::Future {
        self.calls += 1;
        if self.calls == 2 {
            return futures::future::Either::Right(ready(Err(Refused)));
        }
        futures::future::Either::Left(Response(self.timer.sleep(time), time))
    }
}

#[derive(Debug)]
struct Response(Sleep, Duration);

impl Future for Response {
    type Output = Result<Duration, Refused>;

    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        std::pin::Pin::new(&mut self.0).poll(cx).map(|()| Ok(self.1))
    }
}

fn limited() -> (Timeout<Slow>, Timer, VirtualClock) {
    let (timer, clock) = virtual_timer();
    let layer = TimeoutLayer::with_timer(SECOND, &timer);
    (layer.layer(Slow { timer: timer.clone(), calls: 0 }), timer, clock)
}

#[test]
fn a_response_in_time_is_delivered_and_the_deadline_cancelled() {
    let (mut service, timer, clock) = limited();
    let response = clock.block_on(service.call(SECOND / 2)).expect("it is in time");
    assert_eq!(response, SECOND / 2);
    assert_eq!((timer.stats().cancelled, clock.pending()), (1, 0));
}

/// Takes half a second to be called, and for ever to answer.
struct SlowlyCalled(VirtualClock);

impl Service<()> for SlowlyCalled {
    type Response = Duration;
    type Error = Refused;
    type Future = std::future::Pending<Result<Duration, Refused>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Refused>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (): ()) -> Self::Future {
        self.0.advance(SECOND / 2);
        std::future::pending()
    }
}

#[test]
fn the_time_that_the_call_itself_takes_counts() {
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    let mut service = Timeout::with_timer(SlowlyCalled(clock.clone()), SECOND, &timer);
    let response = service.call(());
    clock.block_on(response).expect_err("there is no answer");
    assert_eq!(clock.now() - start, SECOND);
    let answer = || TOO_LATE;
    let mut service =
        TimeoutOrElse::with_timer(SlowlyCalled(clock.clone()), SECOND, answer, &timer);
    let response = service.call(());
    assert_eq!(clock.block_on(response), Ok(TOO_LATE));
    assert_eq!(clock.now() - start, 2 * SECOND);
}

#[test]
fn a_slow_response_is_given_up_at_the_limit() {
    let (mut service, _timer, clock) = limited();
    let start = clock.now();
    let error = clock.block_on(service.call(SECOND * 2)).expect_err("it is too slow");
    assert!(error.is::<Elapsed>());
    assert_eq!(clock.now() - start, SECOND);
    assert_eq!(clock.pending(), 0);
}

#[test]
fn the_time_counts_from_the_call() {
    let (mut service, _timer, clock) = limited();
    let mut response = service.call(SECOND * 2);
    clock.advance(SECOND);
    let Poll::Ready(Err(error)) = poll(&mut response) else { panic!("the limit has passed") };
    assert!(error.is::<Elapsed>());
}

#[test]
fn a_response_that_is_there_is_delivered_however_late() {
    let (mut service, _timer, clock) = limited();
    let mut response = service.call(SECOND * 2);
    clock.advance(SECOND * 60);
    assert!(matches!(poll(&mut response), Poll::Ready(Ok(_))));
}

#[test]
fn the_inner_services_errors_come_through() {
    let (mut service, _timer, clock) = limited();
    let mut cx = Context::from_waker(std::task::Waker::noop());
    assert!(matches!(service.poll_ready(&mut cx), Poll::Ready(Ok(()))));
    clock.block_on(service.call(Duration::ZERO)).expect("the first is answered");
    let error = clock.block_on(service.call(Duration::ZERO)).expect_err("the second is refused");
    assert_eq!(error.downcast_ref(), Some(&Refused));

    service.get_mut().calls = 3;
    let Poll::Ready(Err(error)) = service.poll_ready(&mut cx) else { panic!("it is not ready") };
    assert!(error.is::<Refused>());
    assert_eq!(service.into_inner().calls, 3);
}

#[test]
fn no_limit_at_all_and_none_to_speak_of_are_safe() {
    let (timer, clock) = virtual_timer();
    let slow = Slow { timer: timer.clone(), calls: 0 };
    let mut at_once = Timeout::with_timer(slow.clone(), Duration::ZERO, &timer);
    assert!(clock.block_on(at_once.call(SECOND)).is_err());
    let mut never = Timeout::with_timer(slow, Duration::MAX, &timer);
    assert!(clock.block_on(never.call(SECOND * 86_400)).is_ok());
}

/// Not a response of the service's own.
const TOO_LATE: Duration = Duration::from_secs(504);

/// Service that answers in the place of `Slow`.
type Answered = TimeoutOrElse<Slow, fn() -> Duration>;

fn answered() -> (Answered, Timer, VirtualClock) {
    let (timer, clock) = virtual_timer();
    let answer: fn() -> Duration = || TOO_LATE;
    let layer = TimeoutOrElseLayer::with_timer(SECOND, answer, &timer);
    (layer.layer(Slow { timer: timer.clone(), calls: 0 }), timer, clock)
}

#[test]
fn a_request_whose_time_is_up_is_answered_at_the_limit() {
    let (mut service, _timer, clock) = answered();
    let start = clock.now();
    assert_eq!(clock.block_on(service.call(SECOND * 2)), Ok(TOO_LATE));
    assert_eq!((clock.now() - start, clock.pending()), (SECOND, 0));
}

#[test]
fn what_is_in_time_or_there_is_not_answered_for() {
    let (mut service, timer, clock) = answered();
    assert_eq!(clock.block_on(service.call(SECOND / 2)), Ok(SECOND / 2));
    assert_eq!((timer.stats().cancelled, clock.pending()), (1, 0));
    service.get_mut().calls = 0;
    let mut response = service.call(SECOND * 2);
    clock.advance(SECOND * 60);
    assert_eq!(poll(&mut response), Poll::Ready(Ok(SECOND * 2)));
}

#[test]
fn the_time_until_an_answer_counts_from_the_call() {
    let (mut service, _timer, clock) = answered();
    let mut response = service.call(SECOND * 2);
    clock.advance(SECOND);
    assert_eq!(poll(&mut response), Poll::Ready(Ok(TOO_LATE)));
}

#[test]
fn errors_are_those_of_the_inner_service_as_they_are() {
    let (mut service, _timer, clock) = answered();
    let mut cx = Context::from_waker(std::task::Waker::noop());
    assert_eq!(service.poll_ready(&mut cx), Poll::Ready(Ok(())));
    clock.block_on(service.call(Duration::ZERO)).expect("the first is answered");
    assert_eq!(clock.block_on(service.call(Duration::ZERO)), Err(Refused));
    service.get_mut().calls = 3;
    assert_eq!(service.poll_ready(&mut cx), Poll::Ready(Err(Refused)));
    assert_eq!((service.get_ref().calls, service.into_inner().calls), (3, 3));
}

#[test]
fn a_limit_may_differ_from_request_to_request() {
    let (timer, clock) = virtual_timer();
    let slow = Slow { timer: timer.clone(), calls: 0 };
    // A request for more than a minute has no limit, and any other half of the time it asks for.
    let limit = |request: &Duration, now: Instant| match *request > 60 * SECOND {
        true => Deadline::NEVER,
        false => Deadline::after(now, *request / 2),
    };
    let answer: fn() -> Duration = || TOO_LATE;
    let layer = TimeoutOrElseLayer::with_timer(limit, answer, &timer);
    for (request, expected, after) in [(61, 61 * SECOND, 61), (10, TOO_LATE, 5)] {
        let start = clock.now();
        let mut service = layer.layer(slow.clone());
        assert_eq!(clock.block_on(service.call(request * SECOND)), Ok(expected));
        assert_eq!(clock.now() - start, after * SECOND);
    }
    assert_eq!(timer.stats().pending, 0);
}

#[test]
fn a_deadline_that_has_passed_leaves_a_response_one_poll() {
    let (timer, clock) = virtual_timer();
    let past = |_: &Duration, now: Instant| Deadline::after(now - SECOND, Duration::ZERO);
    let slow = Slow { timer: timer.clone(), calls: 0 };
    let mut service = TimeoutOrElse::with_timer(slow, past, || TOO_LATE, &timer);
    assert_eq!(clock.block_on(service.call(Duration::ZERO)), Ok(Duration::ZERO));
    assert_eq!(clock.block_on(service.call(SECOND)), Err(Refused), "the second is refused");
    assert_eq!(clock.block_on(service.call(SECOND)), Ok(TOO_LATE));
    assert_eq!(clock.pending(), 0);
}

#[test]
fn an_answer_that_panics_reaches_who_polls_and_leaves_nothing_armed() {
    let (timer, clock) = virtual_timer();
    let slow = Slow { timer: timer.clone(), calls: 0 };
    let answer = || panic!("an answer that panics");
    let mut service = TimeoutOrElse::with_timer(slow, Duration::ZERO, answer, &timer);
    let mut response = service.call(SECOND);
    let polled = std::panic::AssertUnwindSafe(|| poll(&mut response).is_ready());
    std::panic::catch_unwind(polled).expect_err("the answer panics");
    drop(response);
    assert_eq!(clock.pending(), 0);
    let mut never = TimeoutOrElse::new(service.into_inner(), Duration::MAX, || TOO_LATE);
    never.get_mut().calls = 0;
    assert_eq!(clock.block_on(never.call(SECOND * 86_400)), Ok(SECOND * 86_400));
}
