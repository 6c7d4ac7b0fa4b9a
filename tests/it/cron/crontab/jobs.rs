//! How the example's cron runs a job, and what it logs of it.

use std::cell::RefCell;
use std::path::Path;
use std::sync::{Arc, Mutex};

use smol::io::{AsyncReadExt, AsyncWriteExt, Cursor, repeat};
use tourbillon::Timer;

use super::files::Entry;
use super::job::execute;
use super::log::{Log, visible};
use super::output::{Budget, LINE_MAX, OUTPUT_MAX, copy};
use super::table::{Format, parse};

/// Runs the only job of a file, and returns what is logged, without times and places.
fn run(text: &str, format: Format) -> Vec<String> {
    let table = parse(text, format, "UTC").expect("no faults");
    let job = table.jobs.into_iter().next().expect("a job");
    let line = job.line;
    let entry = Arc::new(Entry { path: Path::new("jobs").into(), job });
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    let log = Log::new("UTC", &Timer::global(), move |line| {
        sink.lock().unwrap().push(line.to_owned());
    });
    smol::block_on(execute(entry, log));
    let told = told.lock().unwrap();
    let place = format!(" UTC jobs:{line}: ");
    told.iter().map(|line| line.split_once(&place).expect("a place").1.to_owned()).collect()
}

fn name() -> String {
    let id = std::process::Command::new("id").arg("-un").output().expect("there is an `id`");
    String::from_utf8(id.stdout).expect("a name").trim().to_owned()
}

#[test]
fn a_job_has_its_variables_its_input_and_both_its_streams_in_the_log() {
    let told = run(
        "A=1\nHOME=/\n@daily cat; echo $A $LOGNAME $PATH; echo oh >&2; exit 3%in 1%in 2",
        Format::User,
    );
    let (last, mut lines) = told.split_last().expect("a line");
    assert!(last.starts_with("ended with 3 after "), "{last}");
    let oh = lines.iter().position(|line| line == "| oh").expect("the line of the other stream");
    let mut rest = lines.to_vec();
    rest.remove(oh);
    lines = &rest;
    assert_eq!(lines, ["| in 1", "| in 2", &format!("| 1 {} /usr/bin:/bin", name())]);
}

#[test]
fn a_job_whose_home_is_missing_runs_in_the_root_directory_and_the_log_says_so() {
    let told = run("HOME=/no/such/home\n@daily pwd; echo $HOME", Format::User);
    let name = name();
    assert!(
        told[0].starts_with(&format!("HOME of {name}, which is /no/such/home, cannot be entered"))
            && told[0].ends_with("it runs in /"),
        "{told:?}"
    );
    assert_eq!(told[1..3], ["| /", "| /no/such/home"]);
    assert!(told[3].starts_with("ended with 0 after "), "{told:?}");
}

#[test]
fn a_job_that_cannot_be_started_says_what_is_wrong() {
    let told = run("SHELL=/no/such/shell\n@daily true", Format::User);
    assert_eq!(told.len(), 1);
    let expected = "did not run: SHELL, which is /no/such/shell, cannot be started by ";
    assert!(told[0].starts_with(expected), "{told:?}");
    let told = run("@daily no-such-user true", Format::System);
    assert_eq!(told, ["did not run: /etc/passwd has no user named no-such-user"]);
}

#[test]
fn what_a_job_prints_changes_nothing_but_its_line_of_the_log() {
    let job = r"@daily printf 'a\033[2J\rb\tc\177\302\205d\nnext\r\n\377\300e\342\200\256f\nend'";
    let told = run(&format!("HOME=/\n{job}"), Format::User);
    assert_eq!(
        told[..4],
        ["| a\\u{1b}[2J\\rb\tc\\u{7f}\\u{85}d", "| next", "| \\xff\\xc0e\\u{202e}f", "| end"]
    );
    assert_eq!(visible("é ü 漢 \\ \"'".as_bytes()), "é ü 漢 \\ \"'");
}

/// What is told of a stream, and how many bytes are left out.
fn copied(stream: impl smol::io::AsyncRead + Unpin) -> (Vec<String>, u64) {
    let (budget, told) = (Budget::new(), RefCell::new(Vec::new()));
    let tell = |line: &str| told.borrow_mut().push(line.to_owned());
    pollster::block_on(copy(stream, &budget, tell)).expect("it can be read");
    (told.into_inner(), budget.dropped())
}

#[test]
fn a_long_line_is_cut_and_a_long_output_too_and_the_log_says_by_how_much() {
    let whole = "x".repeat(LINE_MAX);
    let (told, dropped) = copied(Cursor::new(format!("{whole}\n{whole}y\n\n{whole}yz")));
    let cut = |count| format!("{whole} [{count} bytes more]");
    assert_eq!(told, [whole.clone(), cut(1), String::new(), cut(2)]);
    assert_eq!(dropped, 0);

    // A line without an end is one line, in bounded space: this is more than there is memory.
    let (told, dropped) = copied(repeat(b'x').take(100_000_000));
    assert_eq!((told, dropped), (vec![cut(100_000_000 - LINE_MAX)], 0));

    let line = format!("{}\n", "z".repeat(127));
    let count = OUTPUT_MAX / 127;
    let (told, dropped) = copied(Cursor::new(line.repeat(count + 50) + "\n"));
    assert_eq!((told.len(), dropped), (count, 50 * 128 + 1));
    // Empty lines cost something as well.
    let (told, dropped) = copied(repeat(b'\n').take(1_000_000));
    assert_eq!(told.len() as u64 + dropped, 1_000_000);
    assert!(told.len() * 40 < OUTPUT_MAX, "{}", told.len());
}

#[test]
fn a_line_is_logged_when_it_is_printed_and_not_at_the_end() {
    let (reader, mut writer) = std::os::unix::net::UnixStream::pair()
        .and_then(|(a, b)| Ok((smol::Async::new(a)?, smol::Async::new(b)?)))
        .expect("a pair of sockets");
    let (budget, told) = (Budget::new(), RefCell::new(Vec::new()));
    let tell = |line: &str| told.borrow_mut().push(line.to_owned());
    let mut copy = std::pin::pin!(copy(reader, &budget, tell));
    smol::block_on(async {
        writer.write_all(b"one\ntwo\nthr").await.expect("there is room");
        let until_told = async {
            while told.borrow().len() < 2 {
                smol::future::yield_now().await;
            }
        };
        smol::future::or(async { copy.as_mut().await.expect("readable") }, until_told).await;
        assert_eq!(*told.borrow(), ["one", "two"]);
        drop(writer);
        copy.await.expect("readable");
    });
    assert_eq!(*told.borrow(), ["one", "two", "thr"]);
}
