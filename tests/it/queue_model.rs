//! Both queues against a list of entries that is searched from end to end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures::Stream;
use proptest::collection::vec;
use proptest::prelude::*;
use tourbillon::Timer;
use tourbillon::queue::{DelayQueue, TimeoutQueue};
use tourbillon::queue::{Expired, Key};
use tourbillon::virtual_time::VirtualClock;

use crate::support::*;

/// Queue, as far as the model asks.
trait Subject: Stream<Item = Expired<u64>> + Unpin {
    /// Returns how far off a deadline really is that is to be `delay` from now.
    fn granted(&self, delay: Delay) -> Delay;
    fn insert(&mut self, value: u64, delay: Delay, now: Instant) -> Key;
    fn reset(&mut self, key: &Key, delay: Delay, now: Instant) -> bool;
    fn try_remove(&mut self, key: &Key) -> Option<Expired<u64>>;
    fn try_deadline(&self, key: &Key) -> Option<Instant>;
    fn get(&self, key: &Key) -> Option<&u64>;
    fn pop_expired(&mut self) -> Option<Expired<u64>>;
    fn peek(&self) -> Option<Key>;
    fn len(&self) -> usize;
    fn clear(&mut self);
    fn shrink_to_fit(&mut self);
}

/// Nanoseconds; `None` for ever.
type Delay = Option<i64>;

macro_rules! in_common {
    ($queue:ident) => {
        fn try_remove(&mut self, key: &Key) -> Option<Expired<u64>> {
            $queue::try_remove(self, key)
        }

        fn try_deadline(&self, key: &Key) -> Option<Instant> {
            $queue::try_deadline(self, key)
        }

        fn get(&self, key: &Key) -> Option<&u64> {
            $queue::get(self, key)
        }

        fn pop_expired(&mut self) -> Option<Expired<u64>> {
            $queue::pop_expired(self)
        }

        fn peek(&self) -> Option<Key> {
            $queue::peek(self)
        }

        fn len(&self) -> usize {
            assert_eq!($queue::is_empty(self), $queue::len(self) == 0);
            assert!($queue::capacity(self) >= $queue::len(self));
            $queue::len(self)
        }

        fn clear(&mut self) {
            $queue::clear(self);
        }

        fn shrink_to_fit(&mut self) {
            $queue::shrink_to_fit(self);
        }
    };
}

impl Subject for DelayQueue<u64> {
    fn granted(&self, delay: Delay) -> Delay {
        delay
    }

    fn insert(&mut self, value: u64, delay: Delay, now: Instant) -> Key {
        match delay {
            None => DelayQueue::insert(self, value, Duration::MAX),
            Some(delay) if delay >= 0 && value % 2 == 0 => {
                DelayQueue::insert(self, value, Duration::from_nanos(delay as u64))
            }
            Some(delay) => self.insert_at(value, shifted(now, delay)),
        }
    }

    fn reset(&mut self, key: &Key, delay: Delay, now: Instant) -> bool {
        match delay {
            None => self.try_reset(key, Duration::MAX),
            Some(delay) if delay >= 0 && delay % 2 == 0 => {
                self.try_reset(key, Duration::from_nanos(delay as u64))
            }
            Some(delay) => self.try_reset_at(key, shifted(now, delay)),
        }
    }

    in_common!(DelayQueue);
}

impl Subject for TimeoutQueue<u64> {
    fn granted(&self, _delay: Delay) -> Delay {
        (self.duration() != Duration::MAX).then(|| self.duration().as_nanos() as i64)
    }

    fn insert(&mut self, value: u64, _delay: Delay, _now: Instant) -> Key {
        self.push(value)
    }

    fn reset(&mut self, key: &Key, _delay: Delay, _now: Instant) -> bool {
        self.try_refresh(key)
    }

    in_common!(TimeoutQueue);
}

fn shifted(instant: Instant, by: i64) -> Instant {
    let span = Duration::from_nanos(by.unsigned_abs());
    if by < 0 { instant - span } else { instant + span }
}

/// Numbers that name an entry are taken modulo the entries there are.
#[derive(Clone, Debug)]
enum Op {
    Insert(Delay),
    /// With the deadline that another entry has.
    InsertLike(usize),
    Remove(usize),
    Reset(usize, Delay),
    /// To the deadline that another entry has.
    ResetLike(usize, usize),
    /// Move the clock so far, and fire the due timers.
    Advance(u64),
    /// Move the clock to the next wake-up.
    AdvanceToNext,
    /// Poll so many times, with the waker that this names.
    Poll(usize, bool),
    /// Ask so many times without a waker.
    Pop(usize),
    /// Use the keys of entries that are gone.
    UseStale,
    Clear,
    Shrink,
}

struct Entry {
    key: Key,
    value: u64,
    /// Nanoseconds on the harness's time line. `None` never comes.
    deadline: Option<i64>,
    /// Orders equal deadlines.
    filing: u64,
}

struct Harness<S> {
    queue: S,
    clock: VirtualClock,
    start: Instant,
    entries: Vec<Entry>,
    gone: Vec<Key>,
    /// Deadlines that were removed or reset since there was last nothing to wait for. Each may
    /// wake the task needlessly when it comes.
    given_up: Vec<i64>,
    filings: u64,
    counters: [Arc<Counter>; 2],
    wait: Option<Wait>,
}

/// A poll that returned no entry.
struct Wait {
    counter: Arc<Counter>,
    wakes_before: usize,
    /// Something happened since, and the task has to know it at once.
    must_wake: bool,
    /// Nothing was going to expire.
    for_ever: bool,
    /// When it was.
    at: i64,
}

impl<S: Subject> Harness<S> {
    fn new(make: impl FnOnce(&Timer) -> S) -> Self {
        let (timer, clock) = virtual_timer();
        let start = clock.now();
        // So that deadlines may lie before the making of the queue.
        clock.advance(DAY);
        let queue = make(&timer);
        Self {
            queue,
            clock,
            start,
            entries: Vec::new(),
            gone: Vec::new(),
            given_up: Vec::new(),
            filings: 0,
            counters: [Counter::new(), Counter::new()],
            wait: None,
        }
    }

    fn now(&self) -> i64 {
        (self.clock.now() - self.start).as_nanos() as i64
    }

    /// Returns the place of the next entry to be handed out.
    fn first(&self) -> Option<usize> {
        let order = |at: &usize| {
            let entry = &self.entries[*at];
            (entry.deadline.unwrap_or(i64::MAX), entry.filing)
        };
        (0..self.entries.len()).min_by_key(order)
    }

    fn first_due(&self) -> Option<usize> {
        self.first().filter(|at| self.entries[*at].deadline.is_some_and(|due| due <= self.now()))
    }

    fn apply(&mut self, op: &Op) {
        let count = self.entries.len();
        let chosen = |choice: usize| (count > 0).then(|| choice % count);
        match *op {
            Op::Insert(delay) => self.insert(delay),
            Op::InsertLike(choice) => {
                if let Some(at) = chosen(choice) {
                    self.insert(self.entries[at].deadline.map(|deadline| deadline - self.now()));
                }
            }
            Op::Remove(choice) => {
                if let Some(at) = chosen(choice) {
                    self.note_end(count == 1);
                    self.given_up.extend(self.entries[at].deadline);
                    let entry = self.entries.remove(at);
                    let removed = self.queue.try_remove(&entry.key).expect("it is there");
                    self.check(entry, removed);
                }
            }
            Op::Reset(choice, delay) => {
                if let Some(at) = chosen(choice) {
                    self.reset(at, delay);
                }
            }
            Op::ResetLike(choice, like) => {
                if let (Some(at), Some(like)) = (chosen(choice), chosen(like)) {
                    let now = self.now();
                    self.reset(at, self.entries[like].deadline.map(|deadline| deadline - now));
                }
            }
            Op::Advance(span) => {
                self.clock.advance(Duration::from_nanos(span));
            }
            Op::AdvanceToNext => {
                self.clock.advance_to_next();
            }
            Op::Poll(times, second) => {
                for _ in 0..times {
                    self.poll(usize::from(second));
                }
            }
            Op::Pop(times) => {
                for _ in 0..times {
                    let due = self.first_due();
                    self.note_end(due.is_some() && self.entries.len() == 1);
                    let popped = self.queue.pop_expired();
                    self.check_expired(due, popped);
                }
            }
            Op::UseStale => {
                for key in &self.gone {
                    assert!(self.queue.try_remove(key).is_none());
                    assert!(!self.queue.reset(key, Some(0), self.clock.now()));
                    assert_eq!((self.queue.try_deadline(key), self.queue.get(key)), (None, None));
                }
            }
            Op::Clear => {
                self.note_end(count > 0);
                self.given_up.extend(self.entries.iter().filter_map(|entry| entry.deadline));
                self.queue.clear();
                self.gone.extend(self.entries.drain(..).map(|entry| entry.key));
            }
            Op::Shrink => self.queue.shrink_to_fit(),
        }
        self.check_entries();
        self.check_wakes();
    }

    fn insert(&mut self, delay: Delay) {
        let delay = self.queue.granted(delay);
        self.note_filing(delay);
        self.filings += 1;
        let (value, filing) = (self.filings, self.filings);
        let key = self.queue.insert(value, delay, self.clock.now());
        // A deadline of the past is made the present.
        let deadline = delay.map(|delay| self.now() + delay.max(0));
        self.entries.push(Entry { key, value, deadline, filing });
    }

    fn reset(&mut self, at: usize, delay: Delay) {
        let delay = self.queue.granted(delay);
        self.note_filing(delay);
        self.given_up.extend(self.entries[at].deadline);
        self.filings += 1;
        // A deadline of the past is made the present.
        let deadline = delay.map(|delay| self.now() + delay.max(0));
        let filing = self.filings;
        let entry = &mut self.entries[at];
        assert!(self.queue.reset(&entry.key, delay, self.clock.now()));
        *entry = Entry { deadline, filing, ..*entry };
    }

    /// Notes that an entry is about to get a deadline.
    fn note_filing(&mut self, delay: Delay) {
        if let Some(wait) = &mut self.wait {
            wait.must_wake |= wait.for_ever && delay.is_some();
        }
    }

    /// Notes whether the last entry is about to leave by another way than by a poll.
    fn note_end(&mut self, ends: bool) {
        if let Some(wait) = &mut self.wait {
            wait.must_wake |= ends;
        }
    }

    fn poll(&mut self, counter: usize) {
        let due = self.first_due();
        let counter = &self.counters[counter];
        let waker = Waker::from(counter.clone());
        self.wait = None;
        let wakes_before = counter.wakes();
        match Pin::new(&mut self.queue).poll_next(&mut Context::from_waker(&waker)) {
            Poll::Ready(Some(expired)) => return self.check_expired(due, Some(expired)),
            Poll::Ready(None) => {
                assert!(self.entries.is_empty(), "the end, with entries left");
                self.given_up.clear();
            }
            Poll::Pending => assert!(!self.entries.is_empty(), "pending, without entries"),
        }
        let for_ever = self.entries.iter().all(|entry| entry.deadline.is_none());
        let counter = counter.clone();
        self.wait =
            Some(Wait { counter, wakes_before, must_wake: false, for_ever, at: self.now() });
        self.check_expired(due, None);
    }

    fn check_expired(&mut self, due: Option<usize>, expired: Option<Expired<u64>>) {
        assert_eq!(due.is_some(), expired.is_some(), "due: {due:?}, handed out: {expired:?}");
        if let (Some(at), Some(expired)) = (due, expired) {
            let entry = self.entries.remove(at);
            self.check(entry, expired);
        }
    }

    /// `left` is the queue's form of `entry`.
    fn check(&mut self, entry: Entry, left: Expired<u64>) {
        assert_eq!((left.key(), *left.get_ref()), (entry.key, entry.value));
        if let Some(deadline) = entry.deadline {
            assert_eq!(left.deadline(), shifted(self.start, deadline));
        }
        self.gone.push(entry.key);
    }

    fn check_entries(&self) {
        assert_eq!(self.queue.len(), self.entries.len());
        let next = self.first().filter(|at| self.entries[*at].deadline.is_some());
        assert_eq!(self.queue.peek(), next.map(|at| self.entries[at].key));
        for entry in &self.entries {
            assert_eq!(self.queue.get(&entry.key), Some(&entry.value));
            let shown = self.queue.try_deadline(&entry.key).expect("it is there");
            if let Some(deadline) = entry.deadline {
                assert_eq!(shown, shifted(self.start, deadline));
            }
        }
    }

    fn check_wakes(&mut self) {
        let due = self.first_due().is_some();
        let now = self.now();
        let Some(wait) = &mut self.wait else { return };
        wait.must_wake |= due;
        let woken = wait.counter.wakes() > wait.wakes_before;
        assert!(woken || !wait.must_wake, "the task was not woken");
        let since = wait.at + 1..=now;
        let in_vain = self.given_up.iter().any(|deadline| since.contains(deadline));
        assert!(!woken || wait.must_wake || in_vain, "the task was woken for nothing");
    }
}

const DAY: Duration = Duration::from_secs(86_400);

fn ops() -> impl Strategy<Value = Vec<Op>> {
    // Distances of every magnitude up to five hours, so that many levels of the wheel are reached.
    let far = (0..44u32, any::<u64>()).prop_map(|(bits, random)| random % (1 << bits).max(2));
    let span = prop_oneof![far, 0u64..200].boxed();
    let delay = prop_oneof![
        8 => span.clone().prop_map(|span| Some(span as i64)),
        1 => span.clone().prop_map(|span| Some(-(span as i64))),
        1 => Just(None),
    ]
    .boxed();
    let any = any::<usize>;
    let op = prop_oneof![
        6 => delay.clone().prop_map(Op::Insert),
        3 => any().prop_map(Op::InsertLike),
        2 => any().prop_map(Op::Remove),
        2 => (any(), delay).prop_map(|(choice, delay)| Op::Reset(choice, delay)),
        1 => (any(), any()).prop_map(|(choice, like)| Op::ResetLike(choice, like)),
        3 => span.prop_map(Op::Advance),
        2 => Just(Op::AdvanceToNext),
        6 => (1usize..4, prop::bool::ANY).prop_map(|(times, second)| Op::Poll(times, second)),
        2 => (1usize..4).prop_map(Op::Pop),
        1 => Just(Op::UseStale),
        1 => prop_oneof![Just(Op::Clear), Just(Op::Shrink)],
    ];
    vec(op, 1..80)
}

fn durations() -> impl Strategy<Value = Duration> {
    let finite = prop_oneof![0u64..3, 50u64..1_000, Just(1 << 40)].prop_map(Duration::from_nanos);
    prop_oneof![4 => finite, 1 => Just(Duration::MAX)]
}

proptest! {
    #![proptest_config(repeatable(500))]

    #[test]
    fn a_delay_queue_agrees_with_a_list(ops in ops()) {
        let mut harness = Harness::new(DelayQueue::with_timer);
        ops.iter().for_each(|op| harness.apply(op));
    }

    #[test]
    fn a_timeout_queue_agrees_with_a_list(
        ops in ops(),
        duration in durations(),
    ) {
        let mut harness = Harness::new(|timer| TimeoutQueue::with_timer(duration, timer));
        ops.iter().for_each(|op| harness.apply(op));
    }
}
