//! When the program runs jobs, under virtual time.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, fs};

use async_signal::Signal;
use futures::channel::mpsc::{self, UnboundedSender};
use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;
use tourbillon_cron::Missed;

use super::{directory, utc, virtual_timer};
use crate::program::files::Files;
use crate::program::log::Log;
use crate::program::run::Runner;
use tourbillon_crontab::Format;

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

/// Clock, timer and signals that a script has in its hands.
struct Machine {
    clock: VirtualClock,
    timer: Timer,
    signals: UnboundedSender<Signal>,
}

impl Machine {
    async fn wait(&self, span: Duration) {
        self.timer.sleep(span).await;
    }

    fn send(&self, signal: Signal) {
        self.signals.unbounded_send(signal).expect("it is running");
    }
}

/// Runs the jobs in `path` from 9:45 of a day in winter until `script` ends. Returns the lines of
/// the log without the date, and without the lines that come when a process prints or ends.
fn run(path: &Path, policy: Missed, script: impl AsyncFnOnce(&Machine)) -> Vec<String> {
    run_with(path, "UTC", policy, |_| {}, script)
}

/// Runs it, and calls `see` with each line as it is logged.
fn run_with(
    path: &Path,
    zone: &str,
    policy: Missed,
    see: impl Fn(&str) + Send + Sync + 'static,
    script: impl AsyncFnOnce(&Machine),
) -> Vec<String> {
    let (timer, clock) = virtual_timer();
    clock.set_wall(utc("2026-01-05T09:45"));
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    let log = Log::new(&timer, move |line| {
        see(line);
        let is_of_process = [": | ", ": ended ", " jobs are asked to end"];
        if !is_of_process.iter().any(|what| line.contains(what)) {
            sink.lock().unwrap().push(line.replace("Mon 2026-01-05 ", "").replace(" UTC", ""));
        }
    });
    let mut files = Files::new(Some(zone.to_owned())).expect("it is named");
    files.owner = Some(rustix::process::geteuid().as_raw());
    files.add(path, Some(Format::User)).expect("the path is there");
    let (signals, receiver) = mpsc::unbounded();
    let machine = Machine { clock: clock.clone(), timer: timer.clone(), signals };
    clock.block_on(async {
        let runner = Runner::new(files, policy, &timer, log);
        let script = async {
            script(&machine).await;
            machine.send(Signal::Term);
        };
        // The script first: its actions are done before the runner is polled at that time.
        futures::join!(script, runner.run(receiver));
    });
    let told = told.lock().unwrap();
    let is_told = |line: &&String| !["wake-ups", " times of, "].iter().any(|no| line.contains(no));
    told.iter().filter(is_told).cloned().collect()
}

/// The times at which jobs ran, and for which.
fn due(told: &[String]) -> Vec<String> {
    let line = |line: &String| {
        let (at, rest) = line.split_once(' ')?;
        let (_, due) = rest.split_once(": due ")?;
        Some(format!("{} for {due}", &at[..5]))
    };
    told.iter().filter_map(line).collect()
}

#[test]
fn sighup_reads_the_files_again_and_runs_nothing_twice() {
    let path = directory("sighup");
    fs::write(path.join("a"), "@reboot true\n0 * * * * true\n").expect("a file can be written");
    let told = run(&path, Missed::Skip, async |machine| {
        machine.wait(HOUR).await;
        fs::write(path.join("b"), "50 10 * * * true\n").expect("a file can be written");
        fs::write(path.join("c"), "50 26 * * * true\n").expect("a file can be written");
        machine.send(Signal::Hup);
        machine.wait(30 * MINUTE).await;
        fs::remove_file(path.join("a")).expect("it is there");
        machine.send(Signal::Hup);
        machine.wait(24 * HOUR).await;
    });
    let place = |name: &str| path.join(name).display().to_string();
    assert_eq!(
        told,
        [
            "09:45:00 2 jobs".to_owned(),
            format!("10:00:00 {}:2: due 10:00:00, 0 missed", place("a")),
            format!("10:45:00 {}:1:4: hour: `26` is not within 0 to 23", place("c")),
            "10:45:00     50 26 * * * true".to_owned(),
            "10:45:00        ^^".to_owned(),
            "10:45:00 3 jobs".to_owned(),
            format!("10:50:00 {}:1: due 10:50:00, 0 missed", place("b")),
            format!("11:00:00 {}:2: due 11:00:00, 0 missed", place("a")),
            format!("11:15:00 {}:1:4: hour: `26` is not within 0 to 23", place("c")),
            "11:15:00     50 26 * * * true".to_owned(),
            "11:15:00        ^^".to_owned(),
            "11:15:00 1 jobs".to_owned(),
            format!(
                "Tue 2026-01-06 10:50:00 {}:1: due Tue 2026-01-06 10:50:00, 0 missed",
                place("b")
            ),
        ]
    );
}

#[test]
fn rules_of_a_zone_that_change_are_followed_at_sighup_and_within_an_hour() {
    let zones = directory("zoneinfo");
    put(&zones, "Europe/Berlin", "2025b");
    let mut program = Command::new(env::current_exe().expect("it has a path"));
    program.args(["program::tests::run::follows_the_rules", "--exact", "--ignored"]);
    let output = program.env("TZDIR", &zones).output().expect("it can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Puts the rules of a zone into a folder, as the zone `Moved`.
fn put(zones: &Path, zone: &str, version: &str) {
    let rules = Path::new("/usr/share/zoneinfo").join(zone);
    fs::copy(rules, zones.join("Moved")).expect("the system has zones");
    fs::write(zones.join("tzdata.zi"), format!("# version {version}\n")).expect("written");
}

#[test]
#[ignore = "a part of the test above, with zones of its own"]
fn follows_the_rules() {
    let zones = PathBuf::from(env::var_os("TZDIR").expect("it is set"));
    let path = directory("moved").join("jobs");
    fs::write(&path, "0 9 * * * true\n").expect("a file can be written");
    let told = run_with(
        &path,
        "Moved",
        Missed::Skip,
        |_| {},
        async |machine| {
            // 10:45 in Berlin, where 9:00 is past. In New York it is 4:45.
            put(&zones, "America/New_York", "2026a");
            machine.send(Signal::Hup);
            machine.wait(5 * HOUR).await;
            // Without a signal: 9:45 in New York, and 4:45 in Honolulu.
            put(&zones, "Pacific/Honolulu", "2026f");
            machine.wait(10 * HOUR).await;
        },
    );
    let data =
        |version: &str| format!("times of Moved, time zones {version} in {}", zones.display());
    let told: Vec<_> = told.iter().map(|line| line.splitn(3, ' ').last().unwrap()).collect();
    let place = path.display();
    assert_eq!(
        told,
        [
            data("2025b"),
            "1 jobs".to_owned(),
            data("2026a"),
            "1 jobs".to_owned(),
            format!("{place}:1: due 09:00:00 EST, 0 missed"),
            data("2026f"),
            "1 jobs".to_owned(),
            format!("{place}:1: due 09:00:00 HST, 0 missed"),
        ]
    );
}

#[test]
fn a_file_that_changed_is_read_before_a_job_of_it_is_run() {
    let path = directory("changed").join("jobs");
    fs::write(&path, "0 * * * * true\n").expect("a file can be written");
    let told = run(&path, Missed::Skip, async |machine| {
        fs::write(&path, "30 * * * * true\n").expect("a file can be written");
        machine.wait(HOUR).await;
        fs::write(&path, "30 * * * * true\n# the same\n").expect("a file can be written");
        machine.wait(HOUR).await;
    });
    assert_eq!(due(&told), ["10:30 for 10:30:00, 0 missed", "11:30 for 11:30:00, 0 missed"]);
    let reads: Vec<_> = told.iter().filter(|line| line.ends_with(" 1 jobs")).collect();
    assert_eq!(reads, ["09:45:00 1 jobs", "10:00:00 1 jobs", "11:30:00 1 jobs"]);
}

#[test]
fn files_that_are_read_again_lose_nothing_that_is_due_and_run_nothing_twice() {
    let path = directory("together");
    let touch =
        |count: u32| fs::write(path.join("other"), format!("# {count}\n")).expect("written");
    touch(0);
    fs::write(path.join("jobs"), "0 * * * * true\n50 9 * * * true\n0 10 * * * true\n")
        .expect("a file can be written");
    // All three become due at once; the first is the latest.
    let told = run(&path, Missed::Coalesce, async |machine| {
        machine.wait(MINUTE).await;
        touch(1);
        machine.clock.suspend(30 * MINUTE);
        machine.wait(MINUTE).await;
    });
    let all = ["10:00:00", "09:50:00", "10:00:00"].map(|at| format!("10:16 for {at}, 0 missed"));
    assert_eq!(due(&told), all);
    // The same, and the files change once more when the first of them is started.
    let (other, changed) = (path.join("other"), AtomicBool::new(false));
    let change = move |line: &str| {
        if line.contains("jobs:1: due") && !changed.swap(true, Relaxed) {
            fs::write(&other, "# changed\n").expect("a file can be written");
        }
    };
    let told = run_with(&path, "UTC", Missed::Coalesce, change, async |machine| {
        machine.clock.suspend(30 * MINUTE);
        machine.wait(MINUTE).await;
    });
    assert_eq!(due(&told).len(), 3, "{told:?}");
    // SIGHUP comes in the moment in which something is due.
    let told = run(&path, Missed::Skip, async |machine| {
        for minutes in [5, 10] {
            machine.wait(minutes * MINUTE).await;
            machine.send(Signal::Hup);
        }
        machine.wait(MINUTE).await;
        machine.send(Signal::Hup);
        machine.wait(MINUTE).await;
    });
    assert_eq!(
        due(&told),
        ["09:50 for 09:50:00", "10:00 for 10:00:00", "10:00 for 10:00:00"]
            .map(|due| format!("{due}, 0 missed"))
    );
    // After the clock was set back, no job runs a second time.
    let told = run(&path, Missed::Skip, async |machine| {
        machine.wait(20 * MINUTE).await;
        machine.clock.set_wall(utc("2026-01-05T09:40"));
        machine.send(Signal::Hup);
        machine.wait(30 * MINUTE).await;
    });
    assert_eq!(due(&told).len(), 3, "{told:?}");
    // Jobs of a new file are not due for times before it came.
    let told = run(&path, Missed::Coalesce, async |machine| {
        machine.wait(14 * MINUTE).await;
        fs::write(path.join("other"), "55 9 * * * true\n").expect("written");
        machine.send(Signal::Hup);
        machine.wait(30 * MINUTE).await;
    });
    assert_eq!(due(&told).len(), 3, "{told:?}");
}

/// Runs an hourly job and a job at half past ten, with the clock set to `to` at 10:40, and for 3:35
/// hours after that.
fn stepped(name: &str, policy: Missed, to: &str) -> Vec<String> {
    let path = directory(name).join("jobs");
    fs::write(&path, "0 * * * * true\n30 10 * * * true\n").expect("a file can be written");
    let told = run(&path, policy, async |machine| {
        machine.wait(55 * MINUTE).await;
        machine.clock.set_wall(utc(&format!("2026-01-05T{to}")));
        machine.wait(3 * HOUR + 35 * MINUTE).await;
    });
    let due = due(&told);
    assert_eq!(due[..2], ["10:00 for 10:00:00, 0 missed", "10:30 for 10:30:00, 0 missed"]);
    due[2..].to_vec()
}

#[test]
fn a_clock_set_back_by_up_to_three_hours_runs_nothing_again() {
    assert_eq!(
        stepped("back", Missed::Skip, "08:40"),
        ["11:00 for 11:00:00, 0 missed", "12:00 for 12:00:00, 0 missed"]
    );
    assert_eq!(stepped("three", Missed::Coalesce, "07:40"), ["11:00 for 11:00:00, 0 missed"]);
}

#[test]
fn a_clock_set_back_by_more_than_three_hours_is_taken_at_its_word() {
    assert_eq!(
        stepped("far", Missed::Skip, "07:39"),
        [
            "08:00 for 08:00:00, 0 missed",
            "09:00 for 09:00:00, 0 missed",
            "10:00 for 10:00:00, 0 missed",
            "10:30 for 10:30:00, 0 missed",
            "11:00 for 11:00:00, 0 missed",
        ]
    );
}

#[test]
fn steps_back_add_up_until_the_clock_has_made_up_for_them() {
    let path = directory("twice").join("jobs");
    fs::write(&path, "0 * * * * true\n").expect("a file can be written");
    let told = run(&path, Missed::Skip, async |machine| {
        machine.wait(25 * MINUTE).await;
        for to in ["08:10", "06:20"] {
            machine.clock.set_wall(utc(&format!("2026-01-05T{to}")));
            machine.wait(10 * MINUTE).await;
        }
        machine.wait(HOUR).await;
    });
    assert_eq!(due(&told), ["10:00 for 10:00:00, 0 missed", "07:00 for 07:00:00, 0 missed"]);
}

#[test]
fn a_clock_set_forward_skips_what_was_missed_or_catches_up_with_it_once() {
    assert_eq!(
        stepped("skip", Missed::Skip, "13:30"),
        [
            "14:00 for 14:00:00, 3 missed",
            "15:00 for 15:00:00, 0 missed",
            "16:00 for 16:00:00, 0 missed",
            "17:00 for 17:00:00, 0 missed",
        ]
    );
    assert_eq!(
        stepped("catch", Missed::Coalesce, "13:30"),
        [
            "13:30 for 13:00:00, 2 missed",
            "14:00 for 14:00:00, 0 missed",
            "15:00 for 15:00:00, 0 missed",
            "16:00 for 16:00:00, 0 missed",
            "17:00 for 17:00:00, 0 missed",
        ]
    );
}
