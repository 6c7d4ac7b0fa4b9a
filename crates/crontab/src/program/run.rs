//! Runs jobs when they are due.

use std::future::{Future as _, pending, poll_fn, ready};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use async_signal::Signal;
use futures::{Stream, StreamExt};
use tourbillon::Timer;
use tourbillon_cron::{Missed, Tick, Ticks, ZoneData};

use super::due::Due;
use super::files::{Entry, Files};
use super::jobs::Jobs;
use super::log::Log;

/// A clock that is set back by more than this was wrong, and cron starts from the new time.
const CORRECTION: Duration = Duration::from_secs(3 * 3600);
/// Time after which the files and the rules of the zones are looked at, if no job was due.
const LOOK: Duration = Duration::from_secs(3600);

/// Event that woke the task that waits for everything.
enum Event {
    Due(Arc<Entry>, Tick),
    Signal(Signal),
    /// The clock was set back by very much.
    Corrected,
    /// Nothing was due for [`LOOK`].
    Quiet,
}

/// Runs jobs on time.
pub(crate) struct Runner {
    files: Files,
    policy: Missed,
    timer: Timer,
    log: Log,
    due: Due,
    jobs: Jobs,
    /// True if the files were looked at since something became due.
    looked: bool,
    /// Zone and data that the log names last.
    zones: String,
    /// The latest time that the clock has shown.
    latest: SystemTime,
    /// Time that it showed when it was last read, and when that was.
    last: (SystemTime, Instant),
    wake_ups: u64,
}

impl Runner {
    /// Reads the files, and starts the jobs for the start.
    pub(crate) fn new(files: Files, policy: Missed, timer: &Timer, log: Log) -> Self {
        let now = timer.wall_now();
        let due = Due::new(&[], |cron| Ticks::with_timer(cron, timer));
        let (timer, last) = (timer.clone(), (now, timer.now()));
        let jobs = Jobs::new();
        let (looked, latest, wake_ups) = (false, now, 0);
        let zones = String::new();
        let mut runner =
            Self { files, policy, timer, log, due, jobs, looked, zones, latest, last, wake_ups };
        for entry in runner.load(None).iter().filter(|entry| entry.job.when.is_none()) {
            runner.start(Arc::clone(entry));
        }
        runner
    }

    /// Runs jobs until a signal other than SIGHUP comes, and ends the running ones. Another such
    /// signal kills them.
    pub(crate) async fn run(mut self, mut signals: impl Stream<Item = Signal> + Unpin) {
        loop {
            match self.event(&mut signals).await {
                // A file that changed before a job of it is due is read before the job is run. Once
                // for all that is due together, or some of it would run twice.
                Event::Due(entry, tick) => {
                    if !std::mem::replace(&mut self.looked, true) && self.files.have_changed() {
                        self.load(Some(tick.scheduled()));
                        continue;
                    }
                    let due = self.log.shown(tick.scheduled());
                    let missed = tick.missed();
                    self.log.tell(format_args!("{}: due {due}, {missed} missed", entry.place()));
                    self.start(entry);
                }
                Event::Corrected => {
                    self.log.tell("the clock was set back by hours; jobs now follow the new time");
                    self.load(None);
                }
                Event::Signal(Signal::Hup) => {
                    self.load(None);
                }
                Event::Quiet if self.files.have_changed() => {
                    self.load(None);
                }
                Event::Quiet => {}
                Event::Signal(_) => break,
            }
        }
        let mut signals = signals.filter(|signal| ready(*signal != Signal::Hup));
        let hurry = async {
            if signals.next().await.is_none() {
                pending().await
            }
        };
        self.jobs.end(&self.log, hurry).await;
        let driver = self.timer.stats().driver_wakeups;
        let own = self.wake_ups;
        self.log
            .tell(format_args!("ends after {own} wake-ups, and {driver} of the timer's thread"));
    }

    /// Reads the files, and continues with the jobs that are due from now on, or from `due` on if
    /// there were some that had not started.
    fn load(&mut self, due: Option<SystemTime>) -> Vec<Arc<Entry>> {
        let due = due.into_iter().chain(self.due.next_scheduled());
        let from = due.map(|due| due - Duration::from_nanos(1)).fold(self.latest, SystemTime::min);
        let load = self.files.load();
        self.log.set_zone(&self.files.zone);
        for fault in load.faults.iter().chain(&load.never) {
            self.log.tell(fault);
        }
        let zones = format!("times of {}, time zones {}", self.files.zone, ZoneData::current());
        if zones != self.zones {
            self.log.tell(&zones);
            self.zones = zones;
        }
        self.log.tell(format_args!("{} jobs", load.jobs.len()));
        self.due = Due::new(&load.jobs, |cron| {
            let mut ticks = Ticks::with_timer(cron, &self.timer).missed(self.policy);
            ticks.restart(from);
            ticks
        });
        load.jobs
    }

    fn start(&self, entry: Arc<Entry>) {
        self.jobs.start(entry, self.log.clone());
    }

    /// Waits for a job or a signal, and counts how often it is woken.
    async fn event(&mut self, signals: &mut (impl Stream<Item = Signal> + Unpin)) -> Event {
        let mut was_polled = false;
        let mut quiet = pin!(self.timer.sleep(LOOK));
        poll_fn(|cx| {
            self.wake_ups += u64::from(std::mem::replace(&mut was_polled, true));
            if self.was_corrected() {
                return Poll::Ready(Event::Corrected);
            }
            // Before the signals, so that no job of several due together is started twice.
            if let Poll::Ready(Some((entry, tick))) = self.due.poll_next_unpin(cx) {
                return Poll::Ready(Event::Due(entry, tick));
            }
            self.looked = false;
            match signals.poll_next_unpin(cx) {
                Poll::Ready(Some(signal)) => Poll::Ready(Event::Signal(signal)),
                _ => quiet.as_mut().poll(cx).map(|_| Event::Quiet),
            }
        })
        .await
    }

    /// Returns whether the clock was set back by very much. After less, nothing is different until
    /// it comes to its old time again.
    fn was_corrected(&mut self) -> bool {
        let (wall, now) = (self.timer.wall_now(), self.timer.now());
        let (last_wall, last) = std::mem::replace(&mut self.last, (wall, now));
        // The time it would show, had nobody set it: it may have been hours since it was last read.
        self.latest = self.latest.max(last_wall + now.duration_since(last));
        let corrected = self.latest.duration_since(wall).is_ok_and(|back| back > CORRECTION);
        self.latest = if corrected { wall } else { self.latest.max(wall) };
        corrected
    }
}
