//! Log of the program when nobody reads it.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::program::writer::{WAITING_MAX, Writer};

/// A pipe with room for nothing until it is read.
#[derive(Clone, Default)]
struct Pipe(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_read: bool,
    written: Vec<u8>,
}

impl Pipe {
    fn read(&self) {
        self.0.state.lock().unwrap().is_read = true;
        self.0.changed.notify_all();
    }

    fn lines(&self) -> Vec<String> {
        let state = self.0.state.lock().unwrap();
        String::from_utf8_lossy(&state.written).lines().map(str::to_owned).collect()
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let state = self.0.state.lock().unwrap();
        let mut state = self.0.changed.wait_while(state, |state| !state.is_read).unwrap();
        state.written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_log_that_nobody_reads_holds_nothing_up_and_counts_what_it_leaves_out() {
    const COUNT: usize = 200_000;
    const LATE: Duration = Duration::from_secs(3600);
    let pipe = Pipe::default();
    let writer = Writer::new(pipe.clone()).expect("a thread starts");
    for number in 0..COUNT {
        writer.push(&format!("{number:0100}"));
    }
    // Nor does the end wait for a reader.
    writer.finish(Duration::ZERO);
    pipe.read();
    writer.finish(LATE);
    let mut lines = pipe.lines();
    let told = lines.pop().expect("a line");
    let left_out = told.strip_prefix('[').and_then(|told| told.split(' ').next()?.parse().ok());
    assert_eq!(left_out.map(|count: usize| count + lines.len()), Some(COUNT), "{told}");
    // The thread may have taken as many lines again when it was held up.
    assert!((WAITING_MAX / 100..=2 * WAITING_MAX / 100).contains(&lines.len()), "{}", lines.len());
    assert!(lines.iter().enumerate().all(|(number, line)| line.parse() == Ok(number)));
    writer.push("more");
    writer.finish(LATE);
    assert_eq!(pipe.lines().last().map(String::as_str), Some("more"));
}
