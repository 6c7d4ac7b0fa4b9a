//! Jobs of the program, and its log of them.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use smol::channel::{Receiver, unbounded};
use smol::io::{AsyncReadExt, AsyncWriteExt, Cursor, repeat};
use tourbillon::Timer;

use super::directory;
use crate::program::files::Entry;
use crate::program::jobs::Jobs;
use crate::program::log::Log;
use crate::program::output::{LINE_MAX, OUTPUT_MAX, copy};
use tourbillon_crontab::{Format, parse, visible};

/// The only job of a file, and a log without times and places.
fn only(text: &str, format: Format) -> (Arc<Entry>, Log, Receiver<String>) {
    let table = parse(format!("{text}\n"), format, "UTC").expect("no faults");
    let job = table.jobs.into_iter().next().expect("a job");
    let place = format!(" UTC jobs:{}: ", job.line);
    let entry = Arc::new(Entry { path: Path::new("jobs").into(), job });
    let (told, lines) = unbounded();
    let log = Log::new(&Timer::global(), move |line| {
        let line = line.split_once(&place).map_or(line, |(_, line)| line);
        told.send_blocking(line.to_owned()).expect("it is received");
    });
    (entry, log, lines)
}

/// Runs the only job of a file, and returns the log until it has ended.
fn run(text: &str, format: Format) -> Vec<String> {
    let (entry, log, lines) = only(text, format);
    Jobs::new().start(entry, log);
    let mut told = Vec::new();
    until(&lines, &mut told, |line| line.starts_with("ended ") || line.starts_with("did not run"));
    told
}

/// Takes lines until one `is_last`.
fn until(lines: &Receiver<String>, told: &mut Vec<String>, is_last: impl Fn(&str) -> bool) {
    loop {
        let line = lines.recv_blocking().expect("it is logged");
        told.push(line);
        if is_last(told.last().expect("a line")) {
            return;
        }
    }
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
    let (last, lines) = told.split_last().expect("a line");
    assert!(last.starts_with("ended with 3 after "), "{last}");
    assert_eq!(lines, ["| in 1", "| in 2", &format!("| 1 {} /usr/bin:/bin", name()), "| oh"]);
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
    assert_eq!(told, ["did not run: there is no user named no-such-user"]);
}

#[test]
fn both_streams_of_a_job_are_one_and_keep_their_order() {
    let told = run("HOME=/\n@daily for i in 1 2 3 4; do echo $i; echo -$i >&2; done", Format::User);
    let expected = ["| 1", "| -1", "| 2", "| -2", "| 3", "| -3", "| 4", "| -4"];
    assert_eq!(told[..told.len() - 1], expected);
}

#[cfg(target_os = "linux")]
#[test]
fn a_job_leads_a_session_without_a_terminal_and_inherits_no_descriptor_and_no_signal() {
    use std::os::fd::AsRawFd;

    // As a program's starter may leave one: it stays open in children.
    let file = std::fs::File::open("/dev/null").expect("there is /dev/null");
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).expect("it may be inherited");
    let told = run(
        "HOME=/\n@daily cut -d ' ' -f 1,5,6,7 /proc/$$/stat; echo $$ $$ $$ 0; \
         ls /proc/$$/fd | tr '\\n' ' '; echo; grep SigIgn /proc/$$/status; umask",
        Format::User,
    );
    // Its number, and the numbers of its group, session and terminal.
    assert_eq!(told[0], told[1]);
    let open: Vec<_> = told[2][2..].split_whitespace().collect();
    assert!(open.starts_with(&["0", "1", "2"]), "{open:?}");
    assert!(!open.contains(&&*file.as_raw_fd().to_string()), "{open:?}");
    // This program ignores SIGPIPE. The C library keeps 32 and 33 to itself.
    let ignored = told[3].strip_prefix("| SigIgn:\t").map(|set| u64::from_str_radix(set, 16));
    assert_eq!(ignored.map(|set| set.map(|set| set & !(0b11 << 31))), Some(Ok(0)), "{told:?}");
    assert_eq!(told[4], "| 0022");
}

#[test]
fn a_job_dies_by_a_signal_whatever_its_starter_blocks() {
    // Of this thread's own: the job's starter inherits them.
    let blocked = std::thread::spawn(|| {
        let mut set = std::mem::MaybeUninit::uninit();
        // SAFETY: `set` is a valid place for a set, and the call fills it.
        unsafe { libc::sigfillset(set.as_mut_ptr()) };
        // SAFETY: `set` is a set, and the old one is not asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()) };
        run("HOME=/\n@daily kill -TERM $$; echo stayed", Format::User)
    });
    let told = blocked.join().expect("it is run");
    assert!(told.iter().any(|line| line.starts_with("ended by signal 15")), "{told:?}");
}

#[test]
fn a_job_has_ended_when_its_shell_has_and_what_it_leaves_behind_prints_on() {
    let fifo = directory("left-behind").join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().expect("there is `mkfifo`");
    assert!(made.success());
    let job = format!("HOME=/\n@daily cat {} & echo done", fifo.display());
    let (entry, log, lines) = only(&job, Format::User);
    Jobs::new().start(entry, log);
    let mut told = Vec::new();
    until(&lines, &mut told, |line| line.starts_with("ended with 0"));
    assert_eq!((told.len(), &*told[0]), (2, "| done"));
    fs::write(&fifo, "late\n").expect("it is read");
    until(&lines, &mut told, |line| line == "| late");
}

#[test]
fn at_the_end_the_whole_of_each_job_is_asked_to_end_and_killed_if_that_is_urgent() {
    // The shells wait for children, and these have to end as well. The first is up when its child
    // is: a child that is made after the signal is not asked.
    let ready = "HOME=/\n@daily trap 'echo asked; exit 3' TERM; (echo up; exec sleep 1000) & wait";
    let deaf = "HOME=/\n@daily trap '' TERM; echo up; sleep 1000; echo never";
    for (job, expected) in [(ready, "asked"), (deaf, "killed")] {
        let (entry, log, lines) = only(job, Format::User);
        let jobs = Jobs::new();
        jobs.start(entry, log.clone());
        let mut told = Vec::new();
        until(&lines, &mut told, |line| line == "| up");
        let urgent = async {
            if job == ready {
                std::future::pending().await
            }
        };
        smol::block_on(jobs.end(&log, urgent));
        drop(log);
        while let Ok(line) = lines.recv_blocking() {
            told.push(line);
        }
        let has = |what: &str| told.iter().any(|line| line.contains(what));
        assert!(has("1 jobs are asked to end"), "{told:?}");
        match expected {
            "asked" => assert!(has("| asked") && has("ended with 3") && !has("killed"), "{told:?}"),
            _ => assert!(has("1 jobs are killed") && has("ended by signal 9"), "{told:?}"),
        }
        assert!(!has("never") && !has("are not ended"), "{told:?}");
    }
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

/// The report on a stream, and how many bytes it leaves out.
fn copied(stream: impl smol::io::AsyncRead + Unpin) -> (Vec<String>, u64) {
    let told = RefCell::new(Vec::new());
    let tell = |line: &str| told.borrow_mut().push(line.to_owned());
    let left_out = pollster::block_on(copy(stream, tell)).expect("it can be read");
    (told.into_inner(), left_out)
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
fn output_without_end_leaves_other_jobs_their_turn() {
    // Always readable: a task that does not yield holds the executor's only thread.
    let endless = std::pin::pin!(copy(repeat(b'x'), |_| {}));
    assert!(pollster::block_on(smol::future::poll_once(endless)).is_none());
}

#[test]
fn a_line_is_logged_when_it_is_printed_and_not_at_the_end() {
    let (reader, mut writer) = std::os::unix::net::UnixStream::pair()
        .and_then(|(a, b)| Ok((smol::Async::new(a)?, smol::Async::new(b)?)))
        .expect("a pair of sockets");
    let told = RefCell::new(Vec::new());
    let tell = |line: &str| told.borrow_mut().push(line.to_owned());
    let mut copy = std::pin::pin!(copy(reader, tell));
    smol::block_on(async {
        writer.write_all(b"one\ntwo\nthr").await.expect("there is room");
        let until_told = async {
            while told.borrow().len() < 2 {
                smol::future::yield_now().await;
            }
        };
        let whole = async {
            copy.as_mut().await.expect("readable");
        };
        smol::future::or(whole, until_told).await;
        assert_eq!(*told.borrow(), ["one", "two"]);
        drop(writer);
        copy.await.expect("readable");
    });
    assert_eq!(*told.borrow(), ["one", "two", "thr"]);
}
