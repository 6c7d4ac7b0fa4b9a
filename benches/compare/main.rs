//! The whole comparison with the peers, as one table.
//!
//! `cargo bench -p tourbillon-benches --bench compare` measures every row, `-- PART` those whose
//! names contain `PART`. `-- --quick` measures smaller masses, and processes of their own once. It
//! reads `/proc`, so it needs Linux.

#[path = "../common/mod.rs"]
mod common;

mod alarm;
mod allocations;
mod bursts;
mod cron;
mod expiry;
mod lines;
mod machine;
mod own;
mod process;
mod punctuality;
mod queues;
mod rest;
mod scenario;
mod statistics;
mod stories;
mod suite;
mod table;
mod tasks;
mod threads;

use std::env;

use common::prove_that_sleeps_fire;
use scenario::{CHILD, FULL, QUICK};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let quick = arguments.iter().any(|argument| Some(argument.as_str()) == QUICK.argument);
    let effort = if quick { QUICK } else { FULL };
    if let Some(at) = arguments.iter().position(|argument| argument == CHILD) {
        let (name, column) = (&arguments[at + 1], &arguments[at + 2]);
        return scenario::run_child(&suite::scenarios(effort), name, column);
    }
    prove_that_sleeps_fire();
    // `cargo test` runs benches too, to see that they work.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let parts: Vec<_> = arguments.iter().filter(|part| !part.starts_with("--")).collect();
    println!("{}\n", machine::describe());
    let mut rows = Vec::new();
    for scenario in suite::scenarios(effort) {
        if parts.is_empty() || parts.iter().any(|part| scenario.name.contains(part.as_str())) {
            eprintln!("measuring: {}", scenario.name);
            rows.extend(scenario.measure(effort));
        }
    }
    println!("{}", table::markdown(&rows));
}
