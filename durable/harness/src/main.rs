//! Runs the harness.

mod options;

use std::path::Path;
use std::process::ExitCode;

use options::Options;
use tourbillon_durable_harness::{checker, log};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const USAGE: &str = "\
harness check DIR    judges the logs in DIR";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    let done = Options::new(arguments).and_then(|options| match command.as_str() {
        "check" => check(&options),
        _ => Err(USAGE.into()),
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Whether the promises were kept.
fn check(options: &Options) -> Result<bool> {
    let report = checker::check(&log::read(Path::new(options.word(0)?))?);
    println!("{report}");
    Ok(report.violations.is_empty())
}
