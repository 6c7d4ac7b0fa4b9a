//! Cache lines that timers touch, as valgrind traces them. Threads wait for each other at the lines
//! that they share, on machines with more processors than this one, too.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::process::{Command, exit};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use tourbillon::{Sleep, Timer};

use crate::common::peers::Peer;
use crate::common::slots::Slots;
use crate::common::wakers::{Count, poll};
use crate::common::work::{FAR, others};
use crate::process::settle;

/// Set for the process that is traced.
const TRACED: &str = "TOURBILLON_TRACED";
/// Written where a section of the trace begins and where it ends.
static MARK: AtomicU64 = AtomicU64::new(0);

/// Numbers of lines: touched by an arm and cancel; written by it; touched by it and by an arm and
/// cancel on another thread, and written by either; and touched by the drop of a timer of many, and
/// not by the drop of another. Without the stack. None without valgrind.
pub(crate) fn of<P: Peer>() -> Vec<f64> {
    let Some([here, there, drop, other_drop]) = traced(arms_and_drops::<P>) else {
        return vec![f64::NAN; 4];
    };
    let own = &drop.touched - &other_drop.touched;
    [&here.touched, &here.written, &here.shared(&there), &own].map(count).to_vec()
}

/// Numbers of lines, of timers with so many shards, each with a far timer, turned by hand: written
/// by an arm and cancel; touched by it and by another on a second thread, and written by either,
/// with the process-wide timer and with a held one. For a turn with nothing due, and for a turn
/// that fires a timer: touched by it; written by it; and touched by it and by an arm and cancel in
/// another shard, and written by either. None without valgrind.
pub(crate) fn of_turns(shards: usize) -> Vec<f64> {
    let sections = traced(|| arms_and_turns(shards));
    let Some([turn, here, own_here, there, own_there, fire]) = sections else {
        return vec![f64::NAN; 9];
    };
    let shared = [(&here, &there), (&own_here, &own_there), (&turn, &there), (&fire, &there)];
    let [arms, own_arms, turn_and_arm, fire_and_arm] = shared.map(|(one, other)| one.shared(other));
    let lines = [
        &here.written,
        &arms,
        &own_arms,
        &turn.touched,
        &turn.written,
        &turn_and_arm,
        &fire.touched,
        &fire.written,
        &fire_and_arm,
    ];
    lines.map(count).to_vec()
}

fn count(lines: &HashSet<u64>) -> f64 {
    lines.len() as f64
}

/// Lines that each marked section of `work` touches, in a process of its own. None without
/// valgrind.
fn traced<const SECTIONS: usize>(work: impl FnOnce()) -> Option<[Lines; SECTIONS]> {
    if env::var_os(TRACED).is_some() {
        println!("{:p}", &MARK);
        work();
        exit(0);
    }
    let own_path = env::current_exe().expect("the bench knows its path");
    let traced = Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes"])
        .arg(own_path)
        .args(env::args().skip(1))
        .env(TRACED, "")
        .output();
    let output = traced.ok()?;
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "it is not traced: {said}");
    let mut addresses = said.split_whitespace().map(address);
    let mark = addresses.next().expect("it says where the mark is");
    let sections = sections(&String::from_utf8_lossy(&output.stderr), mark, addresses);
    Some(sections.try_into().ok().expect("it marks as many sections"))
}

#[derive(Default)]
struct Lines {
    touched: HashSet<u64>,
    written: HashSet<u64>,
}

impl Lines {
    /// Lines that both touch and either writes.
    fn shared(&self, other: &Self) -> HashSet<u64> {
        &(&self.written & &other.touched) | &(&other.written & &self.touched)
    }
}

/// The sections of a trace, each with an address on its stack.
fn sections(trace: &str, mark: u64, mut stacks: impl Iterator<Item = u64>) -> Vec<Lines> {
    const LINE: u64 = 64;
    const FRAMES: u64 = 16 * 1024;
    let mut sections: Vec<Lines> = Vec::new();
    let mut stack = None;
    for line in trace.lines() {
        let Some((kind @ ("L" | "S" | "M"), place)) = line.trim_start().split_once(' ') else {
            continue;
        };
        let address = address(place.split(',').next().unwrap_or_default());
        if address == mark {
            stack = match stack {
                Some(_) => None,
                None => {
                    sections.push(Lines::default());
                    stacks.next()
                }
            };
        } else if let (Some(stack), Some(section)) = (stack, sections.last_mut()) {
            if address.abs_diff(stack) < FRAMES {
                continue;
            }
            section.touched.insert(address / LINE);
            if kind != "L" {
                section.written.insert(address / LINE);
            }
        }
    }
    sections
}

fn address(hex: &str) -> u64 {
    u64::from_str_radix(hex.trim_start_matches("0x"), 16).expect("it is an address")
}

/// Arms and cancels, here and on another thread, and drops two of many timers.
fn arms_and_drops<P: Peer>() {
    const TIMERS: usize = 300;
    let _entered = P::enter();
    pollster::block_on(P::sleep(Duration::from_millis(20)));
    let others = others::<P>(TIMERS);
    // Kept, so that the other thread does not get the same memory.
    let _kept = arm_cancel::<P::Sleep>(P::sleep_until);
    let elsewhere = || {
        let _entered = P::enter();
        arm_cancel::<P::Sleep>(P::sleep_until);
    };
    thread::spawn(elsewhere).join().expect("it ends");
    drop(others);
    let waker = Count::new().waker();
    let start = Instant::now() + FAR;
    let mut sleeps = Slots::with_capacity(TIMERS);
    for n in 0..TIMERS as u32 {
        let sleep = sleeps.push(Some(P::sleep_until(start + Duration::from_millis(1) * n)));
        assert!(poll(sleep.as_pin_mut().expect("it was just made"), &waker).is_pending());
    }
    settle();
    for index in [TIMERS / 3, TIMERS / 2] {
        marked(|| sleeps.at(index).set(None));
    }
}

/// Turns with nothing due, arms and cancels on two threads, and turns with one timer due.
fn arms_and_turns(shards: usize) {
    const DELAY: Duration = Duration::from_millis(100);
    let by_hand = || Timer::builder().shards(shards).build_manual(|| {});
    let (global, mut driver) = by_hand().expect("the options are valid");
    let (own, mut own_driver) = by_hand().expect("the options are valid");
    Timer::set_global(global).expect("nothing has used it");
    let (own, step) = (&own, &Barrier::new(shards + 1));
    thread::scope(|scope| {
        for thread in 0..shards {
            scope.spawn(move || {
                let waker = Count::new().waker();
                let armed = |mut sleep: Sleep| {
                    assert!(poll(Pin::new(&mut sleep), &waker).is_pending());
                    sleep
                };
                // As many threads as there are shards have one each.
                let _far = [tourbillon::sleep(FAR / 2), own.sleep(FAR / 2)].map(armed);
                step.wait();
                step.wait();
                // Kept, so that the other thread does not get the same memory.
                let mut kept = None;
                for at in 0..2 {
                    if at == thread {
                        let global = arm_cancel(tourbillon::sleep_until);
                        kept = Some((global, arm_cancel(|deadline| own.sleep_until(deadline))));
                    }
                    step.wait();
                }
                let _due = (thread == 0).then(|| armed(tourbillon::sleep(DELAY)));
                step.wait();
                step.wait();
                drop(kept);
            });
        }
        step.wait();
        own_driver.turn();
        (0..10).for_each(|_| assert_eq!(driver.turn().fired, 0));
        settle();
        marked(|| assert_eq!(driver.turn().fired, 0));
        (0..4).for_each(|_| _ = step.wait());
        thread::sleep(2 * DELAY);
        marked(|| assert_eq!(driver.turn().fired, 1));
        step.wait();
    });
}

/// The last of several: each finds its needs in place. Returns its own needs.
fn arm_cancel<S: Future>(sleep_until: impl Fn(Instant) -> S) -> impl Sized {
    const TIMES: usize = 10;
    /// So that no other memory is on the lines of the one in the middle.
    const PLACES: usize = 33;
    let waker = Count::new().waker();
    let mut sleeps = Slots::with_capacity(PLACES);
    for _ in 0..PLACES {
        sleeps.push(None);
    }
    let deadline = Instant::now() + FAR;
    let mut arm_and_cancel = || {
        let mut place = sleeps.at(PLACES / 2);
        place.set(Some(sleep_until(deadline)));
        assert!(poll(place.as_mut().as_pin_mut().expect("it is there"), &waker).is_pending());
        place.set(None);
    };
    (1..TIMES).for_each(|_| arm_and_cancel());
    settle();
    marked(arm_and_cancel);
    (waker, sleeps)
}

#[inline(never)]
fn marked(work: impl FnOnce()) {
    let on_the_stack = 0;
    println!("{:p}", &on_the_stack);
    MARK.store(1, Ordering::Relaxed);
    work();
    MARK.store(0, Ordering::Relaxed);
}
