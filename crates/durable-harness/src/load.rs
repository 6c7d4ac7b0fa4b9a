//! Clients as a process: timers and schedules that they make, and change when it matters.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use pollster::block_on;
use tourbillon_durable::store::TimerUpdate;
use tourbillon_durable::{
    Client, Created, Missed, Overlap, Schedule, ScheduleUpdate, StoreError, StoreErrorKind, Time,
    TimerId, Upsert,
};

use crate::Result;
use crate::canary::{Marks, Tap};
use crate::database::Address;
use crate::log::{Answer, Line, Log, Op, Stamp};
use crate::node::wait_for_the_end;
use crate::options::Options;
use crate::workload::{FLAKY, QUICK, RETRY, SLOW};

/// Cancels and moves come this close to a timer's time.
const NEAR_US: i64 = 40_000;

/// The periods that schedules have, in milliseconds.
const PERIODS_MS: &[u64] = &[200, 500, 1_000, 2_000];

/// Runs clients until the standard input ends.
///
/// # Errors
///
/// If an option makes no sense, or the log or the store cannot be opened.
pub fn run(options: &Options) -> Result<()> {
    let log = Arc::new(Log::open(&Path::new(options.text("logs")?).join("clients.log"))?);
    let over = Arc::new(AtomicBool::new(false));
    let address = Address::new(options.text("store")?)?;
    let (bug, seed) = (options.canary()?, options.number::<u64>("seed", 0)?);
    let pause = Duration::from_micros(options.number("pause-us", 10_000)?);
    let mut threads = Vec::new();
    for number in 0..options.number("clients", 4)? {
        let client = address.patiently(|store| {
            Ok(Client::new(Box::new(Tap::new(store, bug, &Marks::default())))?)
        })?;
        let random = fastrand::Rng::with_seed(seed ^ u64::from(number) << 32);
        let mut caller =
            Caller { number, calls: 0, log: log.clone(), client, random, plans: BinaryHeap::new() };
        let over = over.clone();
        threads.push(thread::spawn(move || caller.run(&over, pause)));
    }
    wait_for_the_end();
    // ORDERING: Relaxed; it publishes nothing but itself.
    over.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("a client panicked"));
    Ok(())
}

/// One client.
struct Caller {
    number: u32,
    calls: u32,
    log: Arc<Log>,
    client: Client,
    random: fastrand::Rng,
    /// Plans, by their time.
    plans: BinaryHeap<Reverse<(Stamp, Plan)>>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Plan {
    Cancel(String, TimerId),
    Reschedule(String, TimerId),
    Upsert(Own),
    Enable(Own, bool),
}

/// A schedule of a client's own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Own {
    name: String,
    overlap: u8,
    period: Duration,
}

impl Caller {
    fn run(&mut self, over: &AtomicBool, pause: Duration) {
        for overlap in 0..3 {
            let name = format!("every-{}-{overlap}", self.number);
            let own = Own { name, overlap, period: self.period() };
            self.plan(0, Plan::Upsert(own));
        }
        // ORDERING: Relaxed; it publishes nothing but itself.
        while !over.load(Ordering::Relaxed) {
            let now = Stamp::now();
            match self.plans.peek() {
                Some(Reverse((at, _))) if *at <= now => {
                    let Reverse((_, plan)) = self.plans.pop().expect("it was there");
                    self.carry_out(plan);
                }
                next => {
                    let until = next.map_or(i64::MAX, |Reverse((at, _))| at.0 - now.0);
                    let pause = self.random.i64(0..2 * pause.as_micros() as i64);
                    thread::sleep(Duration::from_micros(pause.min(until).unsigned_abs()));
                    if pause <= until {
                        self.once();
                    }
                }
            }
        }
    }

    fn plan(&mut self, after_us: i64, plan: Plan) {
        self.plans.push(Reverse((Stamp(Stamp::now().0 + after_us), plan)));
    }

    fn period(&mut self) -> Duration {
        Duration::from_millis(PERIODS_MS[self.random.usize(..PERIODS_MS.len())])
    }

    /// Calls, and logs it before and after.
    fn call<T>(
        &mut self,
        name: &str,
        op: Op,
        call: impl Future<Output = std::result::Result<T, StoreError>>,
        answer: impl FnOnce(&T) -> (Answer, Vec<TimerId>),
    ) -> (Answer, Option<T>) {
        self.calls += 1;
        let (client, number) = (self.number, self.calls);
        let name = name.to_owned();
        self.log.write(&Line::Call { client, number, at: Stamp::now(), name, op });
        let done = block_on(call);
        let at = Stamp::now();
        let (answer, running) = match &done {
            Ok(done) => answer(done),
            Err(error) if error.kind() == StoreErrorKind::Uncertain => {
                (Answer::Unknown, Vec::new())
            }
            Err(error) if error.kind() == StoreErrorKind::Invalid => panic!("{error}"),
            Err(_) => (Answer::Refused, Vec::new()),
        };
        self.log.write(&Line::Return { client, number, at, answer, running });
        (answer, done.ok())
    }

    fn once(&mut self) {
        let ahead_us = match self.random.u32(..100) {
            0..10 => self.random.i64(-100_000..0),
            10..65 => self.random.i64(0..2_000_000),
            65..98 => self.random.i64(0..6_000_000),
            _ => 3_600_000_000,
        };
        let kind = match self.random.u32(..100) {
            0..70 => QUICK,
            70..80 => SLOW,
            _ => FLAKY,
        };
        let now = Time::from(SystemTime::now()).as_micros();
        let scheduled_for = Time::from_micros(now + ahead_us);
        let name = format!("once-{}-{}", self.number, self.calls + 1);
        let create = self.client.once(kind, scheduled_for).name(&name).retry(RETRY).create();
        let op = Op::Once(scheduled_for);
        let (_, made) = self.call(&name, op, create, |_| (Answer::Done, Vec::new()));
        let Some(Created::Created(id)) = made else { return };
        self.meddle(name, id, ahead_us);
    }

    /// Plans, for some, to cancel or to move them close to their time.
    fn meddle(&mut self, name: String, id: TimerId, ahead_us: i64) {
        let at_us = ahead_us.min(5_000_000) + self.random.i64(-NEAR_US..NEAR_US);
        match self.random.u32(..100) {
            0..25 => self.plan(at_us, Plan::Cancel(name, id)),
            25..45 => self.plan(at_us, Plan::Reschedule(name, id)),
            _ => {}
        }
    }

    fn carry_out(&mut self, plan: Plan) {
        match plan {
            Plan::Cancel(name, id) => {
                let cancel = self.client.clone();
                let is = |done: &TimerUpdate| (withdrawn(*done), Vec::new());
                self.call(&name, Op::Cancel, cancel.cancel(id), is);
            }
            Plan::Reschedule(name, id) => self.reschedule(name, id),
            Plan::Upsert(own) => self.upsert(own),
            Plan::Enable(own, on) => self.enable(own, on),
        }
    }

    fn reschedule(&mut self, name: String, id: TimerId) {
        let ahead_us = self.random.i64(0..2_000_000);
        let to = Time::from_micros(Time::from(SystemTime::now()).as_micros() + ahead_us);
        let client = self.client.clone();
        let is = |done: &TimerUpdate| (withdrawn(*done), Vec::new());
        let (answer, _) = self.call(&name, Op::Reschedule(to), client.reschedule(id, to), is);
        if answer == Answer::Done {
            self.meddle(name, id, ahead_us);
        }
    }

    /// Called only for a schedule that is enabled, or is not there.
    fn upsert(&mut self, own: Own) {
        let (overlap, kind) = match own.overlap {
            0 => (Overlap::Allow, QUICK),
            1 => (Overlap::Skip, SLOW),
            _ => (Overlap::Queue { at_most: 3 }, SLOW),
        };
        let every = self.client.every(&own.name, Schedule::every(own.period)).kind(kind);
        let every = match own.overlap {
            0 => every.missed(Missed::CatchUp { max_count: 5, max_age: Duration::from_secs(60) }),
            _ => every.jitter(own.period / 4),
        };
        let every = every.overlap(overlap).on_time_within(Duration::from_secs(1)).retry(RETRY);
        let period_us = i64::try_from(own.period.as_micros()).expect("it is short");
        let slack_us = match own.overlap {
            0 => Some(0),
            1 => Some(period_us / 4),
            _ => None,
        };
        let is = |done: &Upsert| match done {
            Upsert::Unchanged | Upsert::Stale => (Answer::Same, Vec::new()),
            Upsert::Created | Upsert::Changed { .. } => (Answer::Done, Vec::new()),
        };
        let op = Op::Every(period_us, slack_us);
        let (answer, _) = self.call(&own.name, op, every.upsert(), is);
        if matches!(answer, Answer::Done | Answer::Same) {
            let after = self.random.i64(1_000_000..6_000_000);
            self.plan(after, Plan::Enable(own, false));
        } else {
            // Until the schedule's state is known, nothing else is done to it.
            self.plan(100_000, Plan::Upsert(own));
        }
    }

    fn enable(&mut self, mut own: Own, on: bool) {
        let (client, name) = (self.client.clone(), &own.name);
        let call =
            async { if on { client.enable(name).await } else { client.disable(name).await } };
        let is = |done: &ScheduleUpdate| match done {
            ScheduleUpdate::Done { running } => {
                (Answer::Done, running.iter().map(|(timer, _)| *timer).collect())
            }
            ScheduleUpdate::Unchanged => (Answer::Same, Vec::new()),
            ScheduleUpdate::Gone => (Answer::Gone, Vec::new()),
        };
        let (answer, _) = self.call(name, Op::Enable(on), call, is);
        if !matches!(answer, Answer::Done | Answer::Same) {
            self.plan(100_000, Plan::Enable(own, on));
        } else if on {
            let after = self.random.i64(1_000_000..6_000_000);
            if self.random.bool() {
                own.period = self.period();
                self.plan(after, Plan::Upsert(own));
            } else {
                self.plan(after, Plan::Enable(own, false));
            }
        } else {
            let after = self.random.i64(0..2_000_000);
            self.plan(after, Plan::Enable(own, true));
        }
    }
}

fn withdrawn(done: TimerUpdate) -> Answer {
    match done {
        TimerUpdate::Done => Answer::Done,
        TimerUpdate::Running { .. } => Answer::Running,
        // Stale is for callers with an expected version; no call here has one.
        TimerUpdate::Stale | TimerUpdate::Gone => Answer::Gone,
    }
}
