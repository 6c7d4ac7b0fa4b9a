//! Moves a place from one store to another, while nodes run on both.
//!
//! ```text
//! cargo run -p tourbillon-durable --example durable_move -- KEY OLD NEW
//! ```
//!
//! `KEY` is a key of the place, such as `tenant-42`; `OLD` and `NEW` are files of SQLite, or
//! databases as `postgres://...` with the feature `postgres`. All processes have the map first in
//! which the place is on its way, as `GROWING.md` describes. Killed at any time, it is started
//! again.

use std::env;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use tourbillon_durable::store::{Sqlite, Store};
use tourbillon_durable::{Mover, Place, Progress, StoreErrorKind};

/// Pause before the next step.
const PAUSE: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [key, old, new] = &arguments[..] else {
        eprintln!("usage: durable_move KEY OLD NEW");
        return ExitCode::FAILURE;
    };
    match move_place(Place::of(key), old, new) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("durable_move: {error}");
            ExitCode::FAILURE
        }
    }
}

fn move_place(place: Place, old: &str, new: &str) -> Result<(), Box<dyn Error>> {
    let mut mover = Mover::new(place, open(old)?, open(new)?);
    loop {
        match mover.step() {
            Ok(Progress::Done) => break,
            Ok(Progress::Waits(timers)) => println!("waits for {} timers", timers.len()),
            Err(error) => match error.kind() {
                StoreErrorKind::Unavailable
                | StoreErrorKind::Uncertain
                | StoreErrorKind::Conflict => println!("tries again: {error}"),
                _ => return Err(error.into()),
            },
        }
        std::thread::sleep(PAUSE);
    }
    println!("the place {} is moved", place.number());
    Ok(())
}

fn open(address: &str) -> Result<Box<dyn Store>, Box<dyn Error>> {
    #[cfg(feature = "postgres")]
    if address.starts_with("postgres://") {
        return Ok(Box::new(tourbillon_durable::store::Postgres::connect(address)?));
    }
    Ok(Box::new(Sqlite::open(address)?))
}
