//! Spans and events that a subscriber of `tracing` sees.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use tourbillon::virtual_time::VirtualClock;
use tourbillon::{Sleep, Timer};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{self, Interest, Subscriber};
use tracing::{Event, Level, Metadata};

use crate::support::*;

/// One call of a subscriber.
#[derive(Clone, Debug, PartialEq)]
enum Told {
    Opened(u64, Level, Fields),
    Entered(u64),
    Event(Parent, Level, Fields),
    Closed(u64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Parent {
    /// The span that the calling code is in, if any.
    Callers,
    Is(u64),
    None,
}

type Fields = BTreeMap<&'static str, String>;

struct Reader(Fields);

impl Visit for Reader {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

/// A subscriber that hands on the crate's events.
struct Collector<F> {
    hand_on: F,
    spans: AtomicU64,
}

impl<F: Fn(Told) + Send + Sync + 'static> Collector<F> {
    fn new(hand_on: F) -> Self {
        Self { hand_on, spans: AtomicU64::new(1) }
    }
}

impl<F: Fn(Told) + Send + Sync + 'static> Subscriber for Collector<F> {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "tourbillon"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.spans.fetch_add(1, Ordering::SeqCst);
        assert!(span.is_root() && span.metadata().name() == "driver");
        let mut reader = Reader(Fields::new());
        span.record(&mut reader);
        (self.hand_on)(Told::Opened(id, *span.metadata().level(), reader.0));
        Id::from_u64(id)
    }

    fn event(&self, event: &Event<'_>) {
        let parent = match event.parent() {
            Some(id) => Parent::Is(id.into_u64()),
            None if event.is_contextual() => Parent::Callers,
            None => Parent::None,
        };
        let mut reader = Reader(Fields::new());
        event.record(&mut reader);
        (self.hand_on)(Told::Event(parent, *event.metadata().level(), reader.0));
    }

    fn enter(&self, id: &Id) {
        (self.hand_on)(Told::Entered(id.into_u64()));
    }

    fn try_close(&self, id: Id) -> bool {
        (self.hand_on)(Told::Closed(id.into_u64()));
        true
    }

    fn exit(&self, _: &Id) {}
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
}

/// Returns the events that a subscriber of this thread sees while `action` runs.
fn told_by(action: impl FnOnce()) -> Vec<Told> {
    let (send, receive) = channel();
    let collector = Collector::new(move |told| send.send(told).expect("the receiver is there"));
    subscriber::with_default(collector, action);
    receive.try_iter().collect()
}

/// Returns the events that the process's subscriber sees of the threads called `name`. It panics in
/// every call that comes from one called `panicking`, and in all but the opening of a span if it is
/// called `panicking later`.
fn told_by_threads(name: &str) -> Receiver<Told> {
    static ROUTES: OnceLock<Mutex<HashMap<String, Sender<Told>>>> = OnceLock::new();

    let routes = ROUTES.get_or_init(|| {
        let collector = Collector::new(|told| {
            let thread = thread::current();
            let Some(name) = thread.name() else { return };
            let calm = matches!(told, Told::Opened(..)) && name == "panicking later";
            let routes = ROUTES.get().map(|routes| routes.lock().unwrap());
            if let Some(route) = routes.and_then(|routes| routes.get(name).cloned()) {
                // The receiver is gone where a test has seen enough.
                route.send(told).unwrap_or(());
            }
            assert!(!name.starts_with("panicking") || calm, "a subscriber that panics");
        });
        subscriber::set_global_default(collector).expect("no other test sets one");
        Mutex::default()
    });
    let (send, receive) = channel();
    routes.lock().unwrap().insert(name.to_owned(), send);
    receive
}

fn late(parent: Parent, level: Level, fired: usize, lateness: Duration, lag: Duration) -> Told {
    let fields = [
        ("message", "late pass".to_owned()),
        ("fired", fired.to_string()),
        ("lateness_ns_max", lateness.as_nanos().to_string()),
        ("lag_ns", lag.as_nanos().to_string()),
    ];
    Told::Event(parent, level, fields.into())
}

fn message(parent: Parent, message: &str) -> Told {
    Told::Event(parent, Level::DEBUG, [("message", message.to_owned())].into())
}

fn arm(timer: &Timer, delay: Duration) -> Sleep {
    polled(timer.sleep(delay))
}

/// Fires a timer `lateness` after its deadline.
fn fire_late(timer: &Timer, clock: &VirtualClock, lateness: Duration) {
    let _sleep = arm(timer, SECOND);
    clock.jump(SECOND + lateness);
    assert_eq!(clock.advance(Duration::ZERO), 1);
}

#[test]
fn a_late_pass_is_one_event_however_many_it_fires() {
    let (timer, clock) = virtual_timer();
    let sleeps: Vec<_> = (1..=100).map(|n| arm(&timer, Duration::from_micros(n))).collect();
    clock.jump(ms(20));
    let told = told_by(|| assert_eq!(clock.advance(Duration::ZERO), sleeps.len()));
    let lateness = ms(20) - Duration::from_micros(1);
    let event = late(Parent::Callers, Level::DEBUG, 100, lateness, Duration::ZERO);
    assert_eq!(told, [event]);
}

#[test]
fn it_takes_five_milliseconds_for_an_event_and_a_hundred_for_a_warning() {
    let (timer, clock) = virtual_timer();
    let event = |level, lateness| late(Parent::Callers, level, 1, lateness, Duration::ZERO);
    for (lateness, told) in [
        (ms(5) - NANOSECOND, None),
        (ms(5), Some(Level::DEBUG)),
        (ms(100) - NANOSECOND, Some(Level::DEBUG)),
        (ms(100), Some(Level::WARN)),
    ] {
        let told = told.map(|level| event(level, lateness));
        assert_eq!(told_by(|| fire_late(&timer, &clock, lateness)), Vec::from_iter(told));
    }
}

#[test]
fn arming_cancelling_and_firing_in_time_is_silent() {
    let (timer, clock) = virtual_timer();
    let told = told_by(|| {
        for _ in 0..100 {
            drop(arm(&timer, SECOND));
            let mut sleep = arm(&timer, SECOND);
            sleep.reset_after(SECOND * 2);
            assert_eq!(clock.advance(SECOND * 2), 1);
        }
    });
    assert_eq!(told, []);
}

#[test]
fn a_waker_that_takes_long_is_seen_as_lag() {
    let (timer, clock) = virtual_timer();
    let slow = {
        let clock = clock.clone();
        callback(move || clock.jump(ms(7)))
    };
    let mut sleep = timer.sleep(SECOND);
    assert!(poll_with(&mut sleep, &slow).is_pending());
    let told = told_by(|| assert_eq!(clock.advance(SECOND), 1));
    assert_eq!(told, [late(Parent::Callers, Level::DEBUG, 1, Duration::ZERO, ms(7))]);
}

#[test]
fn a_pass_with_slow_calls_is_an_event_with_the_longest() {
    let clock = VirtualClock::new();
    let builder = Timer::builder().virtual_clock(&clock).slow_call_limit(ms(2));
    let timer = builder.build().expect("the options are valid");
    let taking = |span| {
        let clock = clock.clone();
        callback(move || clock.jump(span))
    };
    let _sleeps = [ms(2), ms(0), ms(2) + Duration::from_nanos(1), ms(0), ms(1)].map(|span| {
        let mut sleep = timer.sleep(SECOND);
        assert!(poll_with(&mut sleep, &taking(span)).is_pending());
        sleep
    });
    let slow = |calls: u64, longest: Duration| {
        let fields = [
            ("message", "slow call".to_owned()),
            ("slow_calls", calls.to_string()),
            ("call_ns_max", longest.as_nanos().to_string()),
        ];
        Told::Event(Parent::Callers, Level::WARN, fields.into())
    };
    let told = told_by(|| assert_eq!(clock.advance(SECOND), 5));
    let lag = ms(5) + Duration::from_nanos(1);
    let late = late(Parent::Callers, Level::DEBUG, 5, Duration::ZERO, lag);
    assert_eq!(told, [late, slow(1, ms(2) + Duration::from_nanos(1))]);
    let _sleeps = [ms(3), ms(4), ms(9)].map(|span| {
        let mut sleep = timer.sleep(SECOND);
        assert!(poll_with(&mut sleep, &taking(span)).is_pending());
        sleep
    });
    let told = told_by(|| assert_eq!(clock.advance(SECOND), 3));
    assert_eq!(told[1..], [slow(3, ms(9))]);
}

#[test]
fn the_first_panic_of_a_waker_is_an_event() {
    let (timer, clock) = virtual_timer();
    let _sleeps = [(); 2].map(|()| {
        let mut sleep = timer.sleep(SECOND);
        assert!(poll_with(&mut sleep, &callback(|| panic!("a waker that panics"))).is_pending());
        sleep
    });
    let told = told_by(|| assert_eq!(clock.advance(SECOND), 2));
    let fields = [("message", "waker panicked".to_owned())];
    assert_eq!(told, [Told::Event(Parent::Callers, Level::ERROR, fields.into())]);
    assert_eq!(timer.stats().waker_panics, 2);
    let _callback = timer.sleep(SECOND).call(|| panic!("a function that panics"));
    assert_eq!(told_by(|| assert_eq!(clock.advance(SECOND), 1)), []);
}

#[test]
fn a_pass_by_hand_is_reported_where_it_is_made() {
    let clock = VirtualClock::new();
    let builder = Timer::builder().virtual_clock(&clock);
    let (timer, mut driver) = builder.build_manual(|| {}).expect("the options are valid");
    let _sleep = arm(&timer, SECOND);
    clock.jump(SECOND * 2);
    let told = told_by(|| assert_eq!(driver.turn().fired, 1));
    assert_eq!(told, [late(Parent::Callers, Level::WARN, 1, SECOND, Duration::ZERO)]);
}

#[test]
fn a_driver_thread_has_a_span_which_its_wakers_are_not_in() {
    let told = told_by_threads("traced");
    let builder = Timer::builder().thread_name("traced").shards(2);
    let timer = builder.build().expect("the options are valid");
    let mut sleep = arm(&timer, SECOND * 3600);
    sleep.reset(timer.now() - SECOND);

    let Ok(Told::Opened(id, Level::DEBUG, fields)) = told.recv() else { panic!("first the span") };
    let expected = [("shards", "2".to_owned()), ("thread", "\"traced\"".to_owned())];
    assert_eq!(fields, expected.into());
    assert_eq!(told.recv(), Ok(message(Parent::Is(id), "driver thread started")));
    let Ok(Told::Event(parent, Level::WARN, fields)) = told.recv() else { panic!("a warning") };
    assert_eq!(
        (parent, &*fields["message"], &*fields["fired"]),
        (Parent::Is(id), "late pass", "1")
    );
    assert!(fields["lateness_ns_max"].parse::<u128>().unwrap() >= SECOND.as_nanos());

    drop((timer, sleep));
    assert_eq!(told.recv(), Ok(message(Parent::Is(id), "driver thread ends")));
    assert_eq!(told.recv(), Ok(Told::Closed(id)));
}

#[test]
fn a_driver_thread_survives_a_subscriber_that_panics() {
    for name in ["panicking", "panicking later"] {
        let told = told_by_threads(name);
        // One shard, so that a timer armed after a wake-up waits for the next pass.
        let builder = Timer::builder().thread_name(name).shards(1);
        let timer = builder.build().expect("the options are valid");
        for _ in 0..3 {
            let (waker, woken) = telling();
            let mut sleep = timer.sleep(SECOND * 3600);
            assert!(poll_with(&mut sleep, &waker).is_pending());
            sleep.reset(timer.now() - SECOND);
            woken.recv().expect("the driver goes on");
        }
        drop(timer);
        let Ok(Told::Opened(id, ..)) = told.recv() else { panic!("first the span") };
        // A span that could not be opened is the parent of nothing, and is not closed.
        let opened = (name == "panicking later").then_some(id);
        let parent = opened.map_or(Parent::None, Parent::Is);
        assert_eq!(told.recv(), Ok(message(parent, "driver thread started")));
        for _ in 0..3 {
            let Ok(Told::Event(seen, Level::WARN, _)) = told.recv() else { panic!("a warning") };
            assert_eq!(seen, parent);
        }
        assert_eq!(told.recv(), Ok(message(parent, "driver thread ends")));
        if let Some(id) = opened {
            assert_eq!(told.recv(), Ok(Told::Closed(id)));
        }
    }
}

#[test]
fn a_virtual_clock_survives_a_subscriber_that_panics() {
    let (timer, clock) = virtual_timer();
    let collector = Collector::new(|_| panic!("a subscriber that panics"));
    subscriber::with_default(collector, || fire_late(&timer, &clock, SECOND));
    fire_late(&timer, &clock, SECOND);
    clock.block_on(timer.sleep(SECOND));
    assert_eq!(timer.stats().fired, 3);
}

#[test]
fn a_subscriber_may_come_back_into_the_timer() {
    let (timer, clock) = virtual_timer();
    let held = Mutex::new(vec![arm(&timer, SECOND * 3600)]);
    let collector = {
        let (timer, clock) = (timer.clone(), clock.clone());
        Collector::new(move |_| {
            assert_eq!(timer.stats().fired, 1);
            assert_eq!(clock.advance(SECOND), 0, "the call that moves the clock does it");
            let mut held = held.lock().unwrap();
            held.clear();
            held.push(arm(&timer, SECOND));
            held.push(arm(&timer, SECOND * 2));
        })
    };
    subscriber::with_default(collector, || {
        let _sleep = arm(&timer, SECOND);
        clock.jump(SECOND * 2);
        assert_eq!(clock.advance(Duration::ZERO), 2, "the second one in its stead");
    });
    let stats = timer.stats();
    assert_eq!((stats.armed, stats.fired, stats.cancelled, stats.pending), (4, 2, 2, 0));
}
