//! The good run, spoilt in one way each.

use tourbillon_durable::{NodeId, TimerId};
use tourbillon_durable_harness::checker::Verdict::{self, *};
use tourbillon_durable_harness::log::{Answer, Ended, How, Line, Op, Stamp};

use crate::good::{MS, OFFSET, Run, SECOND, Timer, good, time};

/// Name of the fault, the log, and the verdicts on it.
pub(crate) type Mutation = (&'static str, Vec<Line>, Vec<Verdict>);

/// The good run with every line changed.
pub(crate) fn with(change: impl Fn(&mut Line)) -> Vec<Line> {
    let mut lines = good();
    lines.iter_mut().for_each(change);
    lines
}

fn without(is_gone: impl Fn(&Line) -> bool) -> Vec<Line> {
    good().into_iter().filter(|line| !is_gone(line)).collect()
}

/// The good run with an addition.
fn and(add: impl FnOnce(&mut Run, &dyn Fn(&str, i64) -> Timer)) -> Vec<Line> {
    let mut run = Run { lines: good(), calls: 1_000, timers: 1_000 };
    let known = good();
    let find = move |name: &str, at: i64| {
        let of = |line: &Line| match line {
            Line::Record { timer, name: of, scheduled, scheduled_for, .. } if of == name => {
                let is_it = at == 0 || *scheduled_for == time(at);
                let at = scheduled_for.as_micros() - OFFSET;
                let (id, name) = (*timer, of.clone());
                is_it.then_some(Timer { id, name, scheduled: *scheduled, at })
            }
            _ => None,
        };
        known.iter().find_map(of).unwrap()
    };
    add(&mut run, &find);
    run.lines
}

/// The good run with one more timer and its success.
fn and_success(name: &str, scheduled: bool, at: i64) -> Vec<Line> {
    and(|run, _| {
        let timer = run.timer(name, scheduled, at);
        run.succeed(&timer, 1, 1, at + MS);
    })
}

fn is_record(line: &Line, wanted: &str, at: i64) -> bool {
    matches!(line, Line::Record { name, scheduled_for, .. }
        if name == wanted && (at == 0 || *scheduled_for == time(at)))
}

fn is_start(line: &Line, wanted: &str) -> bool {
    matches!(line, Line::Start { name, .. } if name == wanted)
}

/// The good run with one record changed.
fn set(name: &'static str, at: i64, change: fn(&mut Line)) -> Vec<Line> {
    with(move |line| {
        if is_record(line, name, at) {
            change(line);
        }
    })
}

/// The good run with another outcome in one record.
fn ended(name: &'static str, at: i64, to: Ended) -> Vec<Line> {
    with(move |line| {
        if is_record(line, name, at)
            && let Line::Record { ended, .. } = line
        {
            *ended = to;
        }
    })
}

/// The good run, whose overlapped occurrence is recorded and answered at these times.
pub(crate) fn overlapped(recorded_at: i64, answered: Option<i64>) -> Vec<Line> {
    let (name, at) = ("tock", 4 * SECOND);
    let is_it = |line: &&Line| is_record(line, name, at);
    let lines = good();
    let Some(Line::Record { timer: id, .. }) = lines.iter().find(is_it) else { unreachable!() };
    let mut changed = with(|line| match line {
        Line::Record { timer, recorded, .. } if timer == id => *recorded = time(recorded_at),
        Line::Finish { timer, at, .. } if timer == id => *at = Stamp(recorded_at - 12 * MS),
        Line::Taken { timer, at, .. } if timer == id => *at = Stamp(answered.unwrap_or_default()),
        _ => {}
    });
    if answered.is_none() {
        changed.retain(|line| !matches!(line, Line::Taken { timer, .. } if timer == id));
    }
    changed
}

/// A row of the final table in place of a record.
fn pending(line: &mut Line) {
    if let Line::Record { timer, name, scheduled, scheduled_for, .. } = line.clone() {
        let due = scheduled_for;
        *line = Line::Timer { timer, name, scheduled, scheduled_for, due, attempt: 0 };
    }
}

/// Each kind of bad log.
pub(crate) fn mutations() -> Vec<Mutation> {
    let mut all = losses();
    all.extend(starts());
    all.extend(lateness());
    all.extend(records());
    all
}

fn losses() -> Vec<Mutation> {
    let never_ran = |name: &'static str, at| {
        move |line: &Line| is_record(line, name, at) || is_start(line, name) && at == 0
    };
    let id = good().iter().find_map(|line| match line {
        Line::Record { timer, name, .. } if name == "plain" => Some(*timer),
        _ => None,
    });
    let is_of_plain = move |line: &Line| {
        matches!(line, Line::Finish { timer, .. } | Line::Taken { timer, .. }
            if Some(*timer) == id)
    };
    vec![
        (
            "a timer leaves no trace",
            without(|line| never_ran("plain", 0)(line) || is_of_plain(line)),
            vec![Lost],
        ),
        (
            "a cancelled timer leaves no record",
            without(|line| is_record(line, "cancelled", 0)),
            vec![Lost, WrongRecord],
        ),
        (
            "an occurrence that was missed is not recorded",
            without(never_ran("tick", 10 * SECOND)),
            vec![Lost],
        ),
        (
            "an occurrence that was due when its schedule was disabled is not recorded",
            without(never_ran("tick", 6 * SECOND)),
            vec![Lost],
        ),
        (
            "an attempt started, and there is neither timer nor record",
            without(|line| is_record(line, "unknown-there", 0)),
            vec![Lost, WrongRecord],
        ),
        (
            "a timer that was due is pending at the end",
            set("cancelled", 0, pending),
            vec![Unfinished, WrongRecord],
        ),
        (
            "an occurrence that was due is pending at the end",
            set("tick", 10 * SECOND, pending),
            vec![Unfinished],
        ),
        ("the run has no end", without(|line| matches!(line, Line::End { .. })), vec![Unjudged]),
        (
            "an attempt ends that never started",
            without(|line| is_start(line, "dead")),
            vec![Unjudged, WrongRecord],
        ),
    ]
}

fn starts() -> Vec<Mutation> {
    let to = |at: i64, name: &'static str| {
        with(move |line| match line {
            Line::Start { at: asked, began, name: of, attempt: 1, .. } if of == name => {
                (*asked, *began) = (Stamp(at), Stamp(at));
            }
            _ => {}
        })
    };
    // Without the fault, the occurrence that was missed would be one more violation.
    let no_fault = with(|line| match line {
        Line::Fault { at, .. } | Line::Over { at, .. } => *at = Stamp(15 * SECOND),
        line if is_record(line, "tick", 10 * SECOND) => pending(line),
        _ => {}
    });
    vec![
        ("a start before its time", to(3 * SECOND - MS, "plain"), vec![Early]),
        (
            "a start after Cancelled",
            and(|run, find| run.start(&find("cancelled", 0), 1, 0, 5 * SECOND + MS)),
            vec![AfterCancel, AfterRecord],
        ),
        (
            "a start after Gone",
            and(|run, find| {
                let gone = find("unknown-there", 0);
                run.lines.retain(|line| !is_start(line, "unknown-there"));
                run.start(&gone, 1, 0, 5 * SECOND + MS);
                run.call(&gone.name, 5 * SECOND - 6 * MS, Op::Cancel, Answer::Gone);
                // That it was created is known first.
                for line in &mut run.lines {
                    if let Line::Return { number, answer, .. } = line
                        && *number == unknown_there()
                    {
                        *answer = Answer::Done;
                    }
                }
            }),
            vec![AfterCancel],
        ),
        (
            "a start after Disabled",
            and(|run, find| run.start(&find("tick", 6 * SECOND), 1, 0, 7 * SECOND)),
            vec![AfterDisable, AfterRecord],
        ),
        (
            "a start, once it is enabled again, of what was pending when it was disabled",
            and(|run, find| run.start(&find("tick", 6 * SECOND), 1, 0, 9 * SECOND)),
            vec![AfterDisable, AfterRecord],
        ),
        (
            "a start after the timer was done, beside a fault",
            of_all(and(|run, find| run.start(&find("tick", 11 * SECOND), 2, 0, 11_100 * MS))),
            vec![AfterDone, AfterRecord],
        ),
        (
            "a start after a success whose answer was lost",
            of_all(and(|run, find| {
                let tick = find("tick", 11 * SECOND);
                run.lines
                    .retain(|line| !matches!(line, Line::Taken { timer, .. } if *timer == tick.id));
                run.start(&tick, 2, 0, 11_100 * MS);
            })),
            vec![AfterRecord],
        ),
        (
            "a start after the last failure",
            and(|run, find| run.start(&find("dead", 0), 2, 1, 4 * SECOND + 50 * MS)),
            vec![AfterRecord],
        ),
        (
            "a start after another period withdrew the occurrence",
            and(|run, _| {
                run.every("tack", 12_050 * MS, 2 * SECOND);
                run.every("tack", 14 * SECOND + MS, 4 * SECOND);
                let withdrawn = run.timer("tack", true, 14 * SECOND);
                run.record(&withdrawn, 0, None, 14 * SECOND + 2 * MS, Ended::TimerUpdate);
                run.start(&withdrawn, 1, 1, 14_500 * MS);
                let next = run.timer("tack", true, 16 * SECOND);
                run.succeed(&next, 1, 1, 16 * SECOND + MS);
            }),
            vec![AfterRecord],
        ),
        (
            "a start after the timer was done, without a fault",
            and(|run, find| run.start(&find("plain", 0), 2, 1, 4 * SECOND)),
            vec![AfterDone, AfterRecord, SecondStart],
        ),
        (
            "an earlier attempt starts after a later one",
            to(12_501 * MS, "orphan"),
            vec![OutOfOrder, SecondStart],
        ),
        (
            "an attempt starts twice",
            and(|run, find| run.start(&find("orphan", 0), 1, 0, 11 * SECOND)),
            vec![OutOfOrder],
        ),
        ("a second start without a fault", no_fault, vec![Unfinished, Late, SecondStart]),
        (
            "a second start beside a fault of another node",
            with(|line| {
                if let Line::Fault { node, .. } = line {
                    *node = Some(2);
                }
            }),
            vec![SecondStart],
        ),
        (
            "a second start that the first attempt did not end for, but after",
            with(|line| {
                if let Line::Finish { at, how: How::Failed, .. } = line {
                    *at = Stamp(4_060 * MS);
                }
            }),
            vec![SecondStart],
        ),
        (
            "a rescheduled timer starts for its old time",
            with(|line| match line {
                Line::Start { at, name, scheduled_for, due, .. } if name == "moved" => {
                    *at = Stamp(5 * SECOND + MS);
                    (*scheduled_for, *due) = (time(5 * SECOND), time(5 * SECOND));
                }
                _ => {}
            }),
            vec![WrongTime],
        ),
        ("a rescheduled timer starts at its old time", to(5 * SECOND + MS, "moved"), vec![Early]),
    ]
}

/// Lets the fault strike all nodes.
fn of_all(mut lines: Vec<Line>) -> Vec<Line> {
    for line in &mut lines {
        if let Line::Fault { node, .. } = line {
            *node = None;
        }
    }
    lines
}

/// The good run with an attempt that is as late as this, on a node that carries out so many others.
pub(crate) fn late(late: i64, others: usize) -> Vec<Line> {
    and(|run, _| {
        for _ in 0..others {
            let long = run.once(&format!("long-{}", run.timers), SECOND, 13_500 * MS, Answer::Done);
            run.start(&long, 1, 1, 13_500 * MS);
            run.finish(&long, 1, 1, 15_200 * MS, How::Ok);
            run.record(&long, 1, Some(1), 15_200 * MS, Ended::Succeeded);
        }
        let slow = run.once("slow", SECOND, 14 * SECOND, Answer::Done);
        run.succeed(&slow, 1, 1, 14 * SECOND + late);
    })
}

/// The good run with an occurrence that was missed, and found to be at this time.
pub(crate) fn missed(at: i64, found: i64) -> Vec<Line> {
    and(|run, find| {
        let tick = find("tick", at);
        run.lines.retain(|line| match line {
            Line::Start { timer, .. } | Line::Finish { timer, .. } => *timer != tick.id,
            Line::Taken { timer, .. } | Line::Record { timer, .. } => *timer != tick.id,
            _ => true,
        });
        run.record(&tick, 0, None, found, Ended::Missed);
    })
}

fn lateness() -> Vec<Mutation> {
    vec![
        ("an attempt starts late", late(SECOND + 10 * MS, 0), vec![Late]),
        ("an attempt starts late beside a handler that is free", late(1_500 * MS, 1), vec![Late]),
        ("an attempt starts long after the handlers were free", late(2_500 * MS, 2), vec![Late]),
        (
            "an occurrence becomes due late",
            and(|run, _| {
                run.every("tack", 13_500 * MS, 4 * SECOND);
                let tack = run.timer("tack", true, 16 * SECOND);
                run.succeed(&tack, 1, 1, 17_501 * MS);
                for line in &mut run.lines {
                    if let Line::Start { due, timer, .. } = line
                        && *timer == tack.id
                    {
                        *due = time(17_500 * MS);
                    }
                }
            }),
            vec![Late],
        ),
        (
            "an occurrence is missed that was found before the next was due, beside a fault",
            missed(10 * SECOND, 10_900 * MS),
            vec![SkippedFreely],
        ),
        (
            "an occurrence is missed that was found late without a fault",
            missed(16 * SECOND, 17_100 * MS),
            vec![SkippedFreely],
        ),
        (
            "too little happened",
            with(|line| {
                if let Line::Run { floor, .. } = line {
                    *floor = 24;
                }
            }),
            vec![Unjudged],
        ),
    ]
}

/// The number of the call that made that timer.
fn unknown_there() -> u32 {
    let is_it = |line: &Line| match line {
        Line::Call { number, name, .. } if name == "unknown-there" => Some(*number),
        _ => None,
    };
    good().iter().find_map(is_it).unwrap()
}

fn records() -> Vec<Mutation> {
    vec![
        (
            "two attempts complete",
            and(|run, find| run.finish(&find("orphan", 0), 1, 0, 12_600 * MS, How::Ok)),
            vec![CompletedTwice, WrongRecord],
        ),
        (
            "an occurrence has two records",
            and(|run, find| {
                let again = Timer { id: TimerId::from_bits(999), ..find("tick", 4 * SECOND) };
                run.record(&again, 0, None, 6_552 * MS, Ended::TimerUpdate);
            }),
            vec![Doubled],
        ),
        (
            "a timer is recorded, and still there",
            and(|run, find| {
                let far = Timer { id: TimerId::from_bits(999), ..find("tick", 4 * SECOND) };
                run.record(&far, 0, None, 6_552 * MS, Ended::TimerUpdate);
                run.lines.last_mut().map(pending);
            }),
            vec![Unfinished, Doubled],
        ),
        (
            "an occurrence under another identity",
            set("plain", 0, |line| {
                if let Line::Record { timer, .. } = line {
                    *timer = TimerId::from_bits(999);
                }
            }),
            vec![Doubled],
        ),
        (
            "a record of a timer that nobody asked for",
            and_success("nobody", false, 4 * SECOND),
            vec![Unasked],
        ),
        (
            "a timer that the store said was not written",
            and_success("refused", false, 5 * SECOND),
            vec![Unasked],
        ),
        (
            "an occurrence that its schedule does not have",
            and_success("tick", true, 4_500 * MS),
            vec![Unasked],
        ),
        (
            "an occurrence of the time when its schedule was disabled",
            and(|run, _| {
                let timer = run.timer("tick", true, 8 * SECOND);
                run.record(&timer, 0, None, 8_201 * MS, Ended::Missed);
            }),
            vec![Unasked, SkippedFreely],
        ),
        ("an occurrence of no schedule", and_success("none", true, 8 * SECOND), vec![Unasked]),
        (
            "a success by an attempt that failed",
            ended("dead", 0, Ended::Succeeded),
            vec![WrongRecord],
        ),
        (
            "a success of another node's attempt",
            set("plain", 0, |line| {
                if let Line::Record { node, .. } = line {
                    *node = Some(NodeId::from_bits(7));
                }
            }),
            vec![WrongRecord],
        ),
        (
            "a cancelled timer is recorded as a success",
            ended("cancelled", 0, Ended::Succeeded),
            vec![WrongRecord],
        ),
        (
            "a cancel that no client asked for",
            ended("unknown-there", 0, Ended::Cancelled),
            vec![WrongRecord],
        ),
        (
            "an occurrence is withdrawn that no client withdrew",
            ended("tick", 10 * SECOND, Ended::TimerUpdate),
            vec![WrongRecord],
        ),
        (
            "an occurrence is missed without a fault",
            ended("tick", 6 * SECOND, Ended::Missed),
            vec![SkippedFreely],
        ),
        (
            "an occurrence is skipped for an overlap that was none",
            ended("tick", 6 * SECOND, Ended::Overlap),
            vec![SkippedFreely],
        ),
    ]
}
