//! The whole comparison with the peers, as one table.
//!
//! `cargo bench -p tourbillon-benches --bench compare` measures every row, `-- PART` those whose
//! names contain `PART`, and `-- --growth FILE` draws how costs grow as well. `-- --quick` measures
//! smaller masses, and processes of their own once. It reads `/proc`, so it needs Linux.

#[path = "../common/mod.rs"]
mod common;

mod alarm;
mod allocations;
mod bursts;
mod cron;
mod expiry;
mod growth;
mod lines;
mod machine;
mod memory;
mod own;
mod picture;
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
mod windows;

use std::env;
use std::fs;

use common::prove_that_sleeps_fire;
use scenario::{CHILD, FULL, QUICK, Scenario};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let quick = arguments.iter().any(|argument| Some(argument.as_str()) == QUICK.argument);
    let effort = if quick { QUICK } else { FULL };
    if let Some(at) = arguments.iter().position(|argument| argument == CHILD) {
        let (name, column) = (&arguments[at + 1], &arguments[at + 2]);
        return scenario::run_child(&suite::scenarios(effort), name, column);
    }
    prove_that_sleeps_fire();
    prove_that_the_picture_finds_its_rows();
    // `cargo test` runs benches too, to see that they work.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let mut growth = None;
    let mut parts = Vec::new();
    let mut rest = arguments.into_iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--bench" | "--quick" => {}
            "--growth" => growth = Some(rest.next().expect("--growth takes a file")),
            _ => parts.push(argument),
        }
    }
    println!("{}\n", machine::describe());
    let mut rows = Vec::new();
    for scenario in suite::scenarios(effort) {
        if parts.is_empty() || parts.iter().any(|part| scenario.name.contains(part.as_str())) {
            eprintln!("measuring: {}", scenario.name);
            rows.extend(scenario.measure(effort));
        }
    }
    println!("{}", table::markdown(&rows));
    if let Some(file) = growth {
        let picture = growth::svg(&rows, &suite::series(effort));
        fs::write(file, picture).expect("the picture can be written");
    }
}

/// Checks that each row of the picture is there, once.
fn prove_that_the_picture_finds_its_rows() {
    let scenarios = suite::scenarios(FULL);
    let names: Vec<String> = scenarios.iter().flat_map(Scenario::rows).collect();
    let series = suite::series(FULL).into_iter().flat_map(|series| series.points);
    for shown in series.map(|(_, name)| name) {
        assert_eq!(names.iter().filter(|name| **name == shown).count(), 1, "rows {shown:?}");
    }
}
