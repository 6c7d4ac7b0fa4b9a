//! A run that keeps every promise.

use tourbillon_durable::{NodeId, Time, TimerId};
use tourbillon_durable_harness::log::{Answer, Ended, How, Label, Line, Op, Stamp, Taken};

/// Lead of the database's clock over the host's.
pub(crate) const OFFSET: i64 = 1_000_000_000_000;
pub(crate) const MS: i64 = 1_000;
pub(crate) const SECOND: i64 = 1_000 * MS;
pub(crate) const END: i64 = 20 * SECOND;

pub(crate) fn time(stamp: i64) -> Time {
    Time::from_micros(stamp + OFFSET)
}

/// A run that keeps every promise, and has one of everything.
#[derive(Default)]
pub(crate) struct Run {
    pub(crate) lines: Vec<Line>,
    pub(crate) calls: u32,
    pub(crate) timers: u128,
}

/// One occurrence of a run.
#[derive(Clone)]
pub(crate) struct Timer {
    pub(crate) id: TimerId,
    pub(crate) name: String,
    pub(crate) scheduled: bool,
    pub(crate) at: i64,
}

impl Run {
    pub(crate) fn call(&mut self, name: &str, at: i64, op: Op, answer: Answer) {
        self.calls += 1;
        let (client, number, name) = (0, self.calls, name.to_owned());
        self.lines.push(Line::Call { client, number, at: Stamp(at), name, op });
        let at = Stamp(at + 5 * MS);
        let answer = Line::Return { client, number, at, answer, running: Vec::new() };
        self.lines.push(answer);
    }

    pub(crate) fn timer(&mut self, name: &str, scheduled: bool, at: i64) -> Timer {
        self.timers += 1;
        Timer { id: TimerId::from_bits(self.timers), name: name.into(), scheduled, at }
    }

    pub(crate) fn once(&mut self, name: &str, called: i64, at: i64, answer: Answer) -> Timer {
        self.call(name, called, Op::Once(time(at)), answer);
        self.timer(name, false, at)
    }

    pub(crate) fn start(&mut self, timer: &Timer, attempt: u32, node: u32, at: i64) {
        self.lines.push(Line::Start {
            at: Stamp(at),
            began: Stamp(at),
            kind: "quick".into(),
            label: Label { node, start: 1 },
            name: timer.name.clone(),
            scheduled: timer.scheduled,
            scheduled_for: time(timer.at),
            due: time(timer.at),
            timer: timer.id,
            attempt,
            node: NodeId::from_bits(u128::from(node)),
        });
    }

    pub(crate) fn finish(&mut self, timer: &Timer, attempt: u32, node: u32, at: i64, how: How) {
        let (label, timer) = (Label { node, start: 1 }, timer.id);
        self.lines.push(Line::Finish { at: Stamp(at), label, timer, attempt, how });
        let (at, taken) = (Stamp(at + MS), Taken::Accepted);
        self.lines.push(Line::Taken { at, label, timer, attempt, taken });
    }

    pub(crate) fn record(
        &mut self,
        timer: &Timer,
        attempts: u32,
        by: Option<u32>,
        at: i64,
        ended: Ended,
    ) {
        self.lines.push(Line::Record {
            timer: timer.id,
            name: timer.name.clone(),
            scheduled: timer.scheduled,
            scheduled_for: time(timer.at),
            attempts,
            ended,
            node: by.map(|node| NodeId::from_bits(u128::from(node))),
            recorded: time(at),
        });
    }

    /// One attempt, which succeeds.
    pub(crate) fn succeed(&mut self, timer: &Timer, attempt: u32, node: u32, at: i64) {
        self.start(timer, attempt, node, at);
        self.finish(timer, attempt, node, at + 2 * MS, How::Ok);
        self.record(timer, attempt, Some(node), at + 2 * MS, Ended::Succeeded);
    }

    pub(crate) fn every(&mut self, name: &str, called: i64, period_us: i64) {
        self.call(name, called, Op::Every(period_us, Some(0)), Answer::Done);
    }

    pub(crate) fn enable(&mut self, name: &str, called: i64, on: bool) {
        self.call(name, called, Op::Enable(on), Answer::Done);
    }
}

/// Timers of their own: one fails once, one is cancelled, one is moved, one loses its node.
pub(crate) fn timers(run: &mut Run) {
    let plain = run.once("plain", SECOND, 3 * SECOND, Answer::Done);
    run.succeed(&plain, 1, 0, 3 * SECOND + MS);
    let flaky = run.once("flaky", SECOND, 4 * SECOND, Answer::Done);
    run.start(&flaky, 1, 0, 4 * SECOND + MS);
    run.finish(&flaky, 1, 0, 4 * SECOND + 2 * MS, How::Failed);
    run.succeed(&flaky, 2, 1, 4 * SECOND + 50 * MS);
    let dead = run.once("dead", SECOND, 4 * SECOND, Answer::Done);
    run.start(&dead, 1, 1, 4 * SECOND + MS);
    run.finish(&dead, 1, 1, 4 * SECOND + 2 * MS, How::Failed);
    run.record(&dead, 1, Some(1), 4 * SECOND + 2 * MS, Ended::Dead);
    let cancelled = run.once("cancelled", SECOND, 5 * SECOND, Answer::Done);
    run.call("cancelled", 4 * SECOND, Op::Cancel, Answer::Done);
    run.record(&cancelled, 0, None, 4 * SECOND + 2 * MS, Ended::Cancelled);
    let mut moved = run.once("moved", SECOND, 5 * SECOND, Answer::Done);
    run.call("moved", 4 * SECOND, Op::Reschedule(time(7 * SECOND)), Answer::Done);
    moved.at = 7 * SECOND;
    run.succeed(&moved, 1, 1, 7 * SECOND + MS);
    let orphan = run.once("orphan", SECOND, 9_900 * MS, Answer::Done);
    run.start(&orphan, 1, 0, 9_950 * MS);
    run.succeed(&orphan, 2, 1, 12_500 * MS);
    run.once("refused", SECOND, 5 * SECOND, Answer::Refused);
    run.once("unknown", SECOND, 5 * SECOND, Answer::Unknown);
    let unknown = run.once("unknown-there", SECOND, 5 * SECOND, Answer::Unknown);
    run.succeed(&unknown, 1, 0, 5 * SECOND + MS);
    let far = run.once("far", SECOND, 100 * SECOND, Answer::Done);
    run.lines.push(Line::Timer {
        timer: far.id,
        name: far.name,
        scheduled: false,
        scheduled_for: time(far.at),
        due: time(far.at),
        attempt: 0,
    });
}

/// Schedules: one is disabled for a while, and misses one by a fault; one overlaps.
pub(crate) fn schedules(run: &mut Run) {
    run.every("tick", 2_050 * MS, SECOND);
    run.enable("tick", 6_550 * MS, false);
    run.enable("tick", 8_200 * MS, true);
    for second in (3..=6).chain(9..20) {
        let tick = run.timer("tick", true, second * SECOND);
        match second {
            6 => run.record(&tick, 0, None, 6_552 * MS, Ended::TimerUpdate),
            10 => run.record(&tick, 0, None, 11_900 * MS, Ended::Missed),
            _ => run.succeed(&tick, 1, 1, second * SECOND + MS),
        }
    }
    run.every("tock", 2_050 * MS, 2 * SECOND);
    run.enable("tock", 8_100 * MS, false);
    let long = run.timer("tock", true, 4 * SECOND);
    run.start(&long, 1, 1, 4 * SECOND + MS);
    run.finish(&long, 1, 1, 7 * SECOND, How::Ok);
    run.record(&long, 1, Some(1), 7 * SECOND, Ended::Succeeded);
    let overlapping = run.timer("tock", true, 6 * SECOND);
    run.record(&overlapping, 0, None, 6 * SECOND + MS, Ended::Overlap);
    let last = run.timer("tock", true, 8 * SECOND);
    run.succeed(&last, 1, 1, 8 * SECOND + MS);
}

pub(crate) fn good() -> Vec<Line> {
    let mut run = Run::default();
    let (late_us, floor) = (SECOND, 20);
    run.lines.push(Line::Run { seed: 1, lease_us: 2 * SECOND, late_us, floor });
    for node in 0..2 {
        let label = Label { node, start: 1 };
        run.lines.push(Line::Handlers { label, kind: "quick".into(), threads: 2 });
    }
    for second in 0..=21 {
        let (before, after) = (Stamp(second * SECOND), Stamp(second * SECOND + 200));
        let time = time(second * SECOND + 100);
        run.lines.push(Line::Clock { before, time, after });
    }
    let (at, name) = (Stamp(10 * SECOND), "kill".to_owned());
    run.lines.push(Line::Fault { number: 1, at, name, node: Some(0) });
    run.lines.push(Line::Over { number: 1, at: Stamp(11 * SECOND) });
    timers(&mut run);
    schedules(&mut run);
    run.lines.push(Line::End { at: Stamp(END) });
    run.lines
}
