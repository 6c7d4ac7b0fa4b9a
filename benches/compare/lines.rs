//! Cache lines that timers touch, as valgrind traces them. What several threads share of these is
//! what makes them wait for each other, on machines with more processors than this one, too.

use std::collections::HashSet;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use crate::common::peers::Peer;
use crate::common::slots::Slots;
use crate::common::wakers::{Count, poll};
use crate::common::work::{FAR, others};
use crate::process::settle;

/// Set for the process that is traced.
const TRACED: &str = "TOURBILLON_TRACED";
/// Written where a section of the trace begins and where it ends.
static MARK: AtomicU64 = AtomicU64::new(0);

/// Lines that an arm and cancel touches; those that it writes; those that it and an arm and cancel
/// on another thread both touch and one of them writes; and those that the drop of one of many
/// timers touches and the drop of another one does not. Without the stack. None without valgrind.
pub(crate) fn of<P: Peer>() -> Vec<f64> {
    if env::var_os(TRACED).is_some() {
        traced::<P>();
        return Vec::new();
    }
    let own_path = env::current_exe().expect("the bench knows its path");
    let traced = Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes"])
        .arg(own_path)
        .args(env::args().skip(1))
        .env(TRACED, "")
        .output();
    let Ok(output) = traced else { return vec![f64::NAN; 4] };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{} is not traced: {said}", P::NAME);
    let mut addresses = said.split_whitespace().map(address);
    let mark = addresses.next().expect("it says where the mark is");
    let sections = sections(&String::from_utf8_lossy(&output.stderr), mark, addresses);
    let [here, there, drop, other_drop] = &sections[..] else { panic!("it marks four sections") };
    let clash = |one: &Lines, other: &Lines| &one.written & &other.touched;
    let shared = &clash(here, there) | &clash(there, here);
    let own = &drop.touched - &other_drop.touched;
    [&here.touched, &here.written, &shared, &own].map(|lines| lines.len() as f64).to_vec()
}

#[derive(Default)]
struct Lines {
    touched: HashSet<u64>,
    written: HashSet<u64>,
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

/// Does the work that is traced.
fn traced<P: Peer>() {
    const TIMERS: usize = 300;
    let _entered = P::enter();
    println!("{:p}", &MARK);
    pollster::block_on(P::sleep(Duration::from_millis(20)));
    let others = others::<P>(TIMERS);
    // Kept, so that the other thread does not get the same memory.
    let _kept = arm_cancel::<P>();
    thread::spawn(arm_cancel::<P>).join().expect("it ends");
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

/// The last of several, which find what they need in place. Returns what it needed itself.
fn arm_cancel<P: Peer>() -> impl Sized {
    const TIMES: usize = 10;
    /// So that no other memory is on the lines of the one in the middle.
    const PLACES: usize = 33;
    let _entered = P::enter();
    let waker = Count::new().waker();
    let mut sleeps = Slots::with_capacity(PLACES);
    for _ in 0..PLACES {
        sleeps.push(None);
    }
    let deadline = Instant::now() + FAR;
    let mut arm_and_cancel = || {
        let mut place = sleeps.at(PLACES / 2);
        place.set(Some(P::sleep_until(deadline)));
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
