//! The lines of a run, put together: attempts with their ends, calls with their answers.

use std::collections::BTreeMap;
use std::fmt;

use tourbillon_durable::{NodeId, Time, TimerId};

use super::clock::{Clock, Reading};
use super::{Report, Verdict};
use crate::log::{Answer, Ended, How, Label, Line, Op, Stamp, Taken};

/// Identity of an occurrence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Once(String),
    Occurrence(String, Time),
}

impl Key {
    fn new(name: &str, scheduled: bool, scheduled_for: Time) -> Self {
        match scheduled {
            true => Self::Occurrence(name.to_owned(), scheduled_for),
            false => Self::Once(name.to_owned()),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Once(name) => f.write_str(name),
            Self::Occurrence(name, time) => write!(f, "{name}@{time}"),
        }
    }
}

/// A handler that started.
pub(super) struct Attempt {
    pub(super) at: Stamp,
    pub(super) began: Stamp,
    pub(super) label: Label,
    pub(super) kind: String,
    pub(super) scheduled_for: Time,
    pub(super) due: Time,
    pub(super) timer: TimerId,
    pub(super) number: u32,
    pub(super) node: NodeId,
    pub(super) finish: Option<(Stamp, How)>,
    pub(super) taken: Option<(Stamp, Taken)>,
}

impl Attempt {
    /// Takes its end for one without an answer if a failover may have lost it.
    fn may_be_lost(&mut self, (from, to): (Stamp, Stamp)) {
        if let Some((at, taken)) = &mut self.taken
            && (from..=to).contains(at)
        {
            *taken = Taken::Lost;
        }
    }

    /// Returns when it was known to be the attempt that ended its timer, if it is.
    pub(super) fn completed(&self) -> Option<Stamp> {
        let (_, how) = self.finish?;
        let (at, taken) = self.taken?;
        (matches!(how, How::Ok | How::GaveUp) && taken == Taken::Accepted).then_some(at)
    }

    /// Returns whether its timer was there after its end: a store takes no end of a timer that is
    /// over.
    pub(super) fn left_its_timer(&self) -> bool {
        let is_taken = self.taken.is_some_and(|(_, taken)| taken == Taken::Accepted);
        is_taken && self.finish.is_some_and(|(_, how)| matches!(how, How::Failed | How::Back))
    }
}

/// A row of the final table of timers.
pub(super) struct Row {
    pub(super) timer: TimerId,
    pub(super) scheduled_for: Time,
}

/// A row of the final history.
pub(super) struct Record {
    pub(super) timer: TimerId,
    pub(super) scheduled_for: Time,
    pub(super) attempts: u32,
    pub(super) ended: Ended,
    pub(super) node: Option<NodeId>,
    pub(super) recorded: Time,
}

/// Facts about one occurrence.
#[derive(Default)]
pub(super) struct Facts {
    /// In the order of their starts.
    pub(super) attempts: Vec<Attempt>,
    pub(super) rows: Vec<Row>,
    pub(super) records: Vec<Record>,
}

/// A call, and its answer if there was one.
pub(super) struct Call {
    pub(super) op: Op,
    pub(super) invoked: Stamp,
    /// The end of time without an answer.
    pub(super) returned: Stamp,
    pub(super) answer: Answer,
    pub(super) running: Vec<TimerId>,
    /// True if it was answered, and a failover may have lost its effect.
    pub(super) is_undone: bool,
}

impl Call {
    /// Treats it as unanswered if a failover may have lost its effect.
    fn may_be_lost(&mut self, (from, to): (Stamp, Stamp)) {
        let is_nothing = matches!(self.answer, Answer::Refused | Answer::Running);
        if !is_nothing && self.invoked <= to && from <= self.returned {
            (self.answer, self.returned) = (Answer::Unknown, Stamp(i64::MAX));
            self.is_undone = true;
        }
    }

    /// Returns whether it may have taken effect.
    pub(super) fn may_have(&self) -> bool {
        matches!(self.answer, Answer::Done | Answer::Same | Answer::Unknown)
    }

    /// Returns whether it may have taken effect within this time.
    pub(super) fn may_have_within(&self, (from, to): (Stamp, Stamp)) -> bool {
        let is_unknown = self.answer == Answer::Unknown;
        let until = if is_unknown { Stamp(i64::MAX) } else { self.returned };
        self.may_have() && self.invoked <= to && from <= until
    }
}

/// When something was in the way, and whose.
struct Trouble {
    from: Stamp,
    to: Stamp,
    node: Option<u32>,
}

pub(super) struct History<'a> {
    pub(super) clock: Clock,
    /// Time by which everything that was due has an outcome.
    pub(super) end: Stamp,
    /// Calls by name, in the order of their making.
    pub(super) calls: BTreeMap<String, Vec<Call>>,
    pub(super) facts: BTreeMap<Key, Facts>,
    troubles: Vec<Trouble>,
    /// Times of the answers that a node's lease was over.
    unleased: Vec<(Stamp, u32)>,
    /// Times from the first loss of a failover, of acknowledged writes, to the failover itself.
    behind: Vec<(Stamp, Stamp)>,
    pub(super) lease_us: i64,
    pub(super) late_us: i64,
    pub(super) floor: u64,
    /// Attempts of a kind that a process carries out at a time.
    pub(super) handlers: BTreeMap<(Label, &'a str), u32>,
}

impl<'a> History<'a> {
    /// `None` if too little is known to judge anything.
    pub(super) fn new(lines: &'a [Line], report: &mut Report) -> Option<Self> {
        let mut readings = Vec::new();
        let mut handlers = BTreeMap::new();
        let (mut end, mut run) = (None, None);
        let (mut behind, mut unleased) = (Vec::new(), Vec::new());
        for line in lines {
            match *line {
                Line::Run { lease_us, late_us, floor, .. } => {
                    run = Some((lease_us, late_us, floor));
                }
                Line::Clock { before, time, after } => {
                    readings.push(Reading { before, time, after });
                }
                Line::Behind { from, to } => behind.push((from, to)),
                Line::Unleased { at, node } => unleased.push((at, node)),
                Line::End { at } => end = Some(at),
                Line::Handlers { label, ref kind, threads } => {
                    handlers.insert((label, kind.as_str()), threads);
                }
                _ => {}
            }
        }
        let (Some(clock), Some(end), Some(run)) = (Clock::new(readings), end, run) else {
            report.add(Verdict::Unjudged, "run", "no lease, no end, or no clock");
            return None;
        };
        report.tolerance_us = clock.tolerance_us();
        let mut calls = calls(lines, report);
        let mut facts = facts(lines, report);
        for lost in &behind {
            calls.values_mut().flatten().for_each(|call| call.may_be_lost(*lost));
            let attempts = facts.values_mut().flat_map(|facts| &mut facts.attempts);
            attempts.for_each(|attempt| attempt.may_be_lost(*lost));
        }
        let troubles = troubles(lines, report);
        let (lease_us, late_us, floor) = run;
        Some(Self {
            clock,
            end,
            calls,
            facts,
            troubles,
            unleased,
            behind,
            lease_us,
            late_us,
            floor,
            handlers,
        })
    }

    /// Returns whether a failover may have lost a write at `at` to an occurrence that was due at
    /// `due`. A claim may be used after the failover, too; but an occurrence not due by then was
    /// not claimed before.
    pub(super) fn is_behind(&self, at: Stamp, due: Time) -> bool {
        let due = self.clock.stamps(due).0;
        self.behind.iter().any(|(from, to)| at >= *from && due <= *to)
    }

    /// Returns whether a failover may have lost the claim of this attempt, which then starts anew:
    /// also under the number and the node that it had.
    pub(super) fn may_be_unclaimed(&self, attempt: &Attempt) -> bool {
        self.is_behind(attempt.at, attempt.due)
    }

    /// Returns whether `node` got the answer that its lease was over after `from`, and not a lease
    /// later than `to`.
    pub(super) fn lost_lease(&self, node: u32, from: Stamp, to: Stamp) -> bool {
        let until = Stamp(to.0.saturating_add(self.lease_us));
        self.unleased.iter().any(|(at, of)| *of == node && (from..=until).contains(at))
    }

    /// Returns whether anything was in the way of `node`, or of any if there is none, between the
    /// two.
    ///
    /// The effect of a fault lasts a lease longer than the fault.
    pub(super) fn troubled(&self, node: Option<u32>, from: Stamp, to: Stamp) -> bool {
        self.troubles.iter().any(|trouble| {
            let until = trouble.to.0.saturating_add(self.lease_us);
            let is_met = node.is_none() || trouble.node.is_none() || trouble.node == node;
            is_met && trouble.from <= to && from.0 <= until
        })
    }
}

fn troubles(lines: &[Line], report: &mut Report) -> Vec<Trouble> {
    let over: BTreeMap<u32, Stamp> = lines.iter().filter_map(over).collect();
    let mut troubles = Vec::new();
    for line in lines {
        match *line {
            Line::Fault { number, at, node, .. } => {
                let to = over.get(&number).copied().unwrap_or(Stamp(i64::MAX));
                troubles.push(Trouble { from: at, to, node });
                report.faults += 1;
            }
            Line::Skew { .. } => report.faults += 1,
            Line::Stall { from, to, node } => {
                troubles.push(Trouble { from, to, node });
                report.stalls += 1;
            }
            _ => {}
        }
    }
    troubles
}

fn over(line: &Line) -> Option<(u32, Stamp)> {
    if let Line::Over { number, at } = line { Some((*number, *at)) } else { None }
}

fn calls(lines: &[Line], report: &mut Report) -> BTreeMap<String, Vec<Call>> {
    let mut answers = BTreeMap::new();
    for line in lines {
        if let Line::Return { client, number, at, answer, running } = line {
            answers.insert((*client, *number), (*at, *answer, running.clone()));
        }
    }
    let mut calls: BTreeMap<String, Vec<Call>> = BTreeMap::new();
    for line in lines {
        let Line::Call { client, number, at: invoked, name, op } = line else { continue };
        let lost = || (Stamp(i64::MAX), Answer::Unknown, Vec::new());
        let (returned, answer, running) = answers.remove(&(*client, *number)).unwrap_or_else(lost);
        let (op, invoked) = (*op, *invoked);
        report.calls += 1;
        report.unknown += usize::from(answer == Answer::Unknown);
        let call = Call { op, invoked, returned, answer, running, is_undone: false };
        calls.entry(name.clone()).or_default().push(call);
    }
    for (client, number) in answers.keys() {
        report.add(Verdict::Unjudged, format!("call {client}.{number}"), "answered, not made");
    }
    calls.values_mut().for_each(|calls| calls.sort_by_key(|call| call.invoked));
    calls
}

/// Ends by an attempt's process, timer and number. There are several if a failover lost the claim,
/// and the process made the attempt again.
type Ends<T> = BTreeMap<(Label, TimerId, u32), Vec<(Stamp, T)>>;

/// Takes out the first end since the start of the attempt.
fn first_of<T>(ends: &mut Ends<T>, attempt: &Attempt) -> Option<(Stamp, T)> {
    let of = ends.get_mut(&(attempt.label, attempt.timer, attempt.number))?;
    let later = of.iter().enumerate().filter(|(_, (at, _))| *at >= attempt.at);
    let (place, _) = later.min_by_key(|(_, (at, _))| *at)?;
    Some(of.swap_remove(place))
}

/// Gives each attempt its end.
fn end(lines: &[Line], facts: &mut BTreeMap<Key, Facts>, report: &mut Report) {
    let (mut finishes, mut takens) = (Ends::new(), Ends::new());
    for line in lines {
        match *line {
            Line::Finish { at, label, timer, attempt, how } => {
                finishes.entry((label, timer, attempt)).or_default().push((at, how));
            }
            Line::Taken { at, label, timer, attempt, taken } => {
                takens.entry((label, timer, attempt)).or_default().push((at, taken));
            }
            _ => {}
        }
    }
    // The last start first: an earlier one has none of the ends after it.
    for attempt in facts.values_mut().flat_map(|facts| facts.attempts.iter_mut().rev()) {
        attempt.finish = first_of(&mut finishes, attempt);
        attempt.taken = first_of(&mut takens, attempt);
    }
    let finishes = finishes.into_iter().filter(|(_, left)| !left.is_empty()).map(|(id, _)| id);
    let takens = takens.into_iter().filter(|(_, left)| !left.is_empty()).map(|(id, _)| id);
    for (label, timer, attempt) in finishes.chain(takens) {
        let key = format!("{timer}#{attempt}");
        let detail = format!("ended by {}.{}, never started", label.node, label.start);
        report.add(Verdict::Unjudged, key, detail);
    }
}

fn facts(lines: &[Line], report: &mut Report) -> BTreeMap<Key, Facts> {
    let mut facts: BTreeMap<Key, Facts> = BTreeMap::new();
    for line in lines {
        match line {
            Line::Start {
                at,
                began,
                label,
                kind,
                name,
                scheduled,
                scheduled_for,
                due,
                timer,
                attempt,
                node,
            } => {
                let key = Key::new(name, *scheduled, *scheduled_for);
                facts.entry(key).or_default().attempts.push(Attempt {
                    at: *at,
                    began: *began,
                    label: *label,
                    kind: kind.clone(),
                    scheduled_for: *scheduled_for,
                    due: *due,
                    timer: *timer,
                    number: *attempt,
                    node: *node,
                    finish: None,
                    taken: None,
                });
            }
            Line::Timer { timer, name, scheduled, scheduled_for, .. } => {
                let key = Key::new(name, *scheduled, *scheduled_for);
                let row = Row { timer: *timer, scheduled_for: *scheduled_for };
                facts.entry(key).or_default().rows.push(row);
            }
            Line::Record {
                timer,
                name,
                scheduled,
                scheduled_for,
                attempts,
                ended,
                node,
                recorded,
            } => {
                let key = Key::new(name, *scheduled, *scheduled_for);
                facts.entry(key).or_default().records.push(Record {
                    timer: *timer,
                    scheduled_for: *scheduled_for,
                    attempts: *attempts,
                    ended: *ended,
                    node: *node,
                    recorded: *recorded,
                });
            }
            _ => {}
        }
    }
    facts.values_mut().for_each(|facts| facts.attempts.sort_by_key(|attempt| attempt.at));
    end(lines, &mut facts, report);
    facts
}
