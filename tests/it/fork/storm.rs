//! Storms of forks: threads use every public type while another forks at random instants, and each
//! child acts like its parent, with its own timers and with inherited ones.
//!
//! A round is several processes: some fork beside the first use of process-wide things, and one
//! beside the use of all else. `std` holds a lock while a thread starts or ends, and a child that
//! inherits it held starts no thread. So all threads of such a process have started before its
//! first fork, and none ends; only children start the threads of a first use.
//!
//! Actions follow from the seed; their times do not. `TOURBILLON_FORKS` says how many rounds
//! there are; `ci/hostile.sh`, in the repository, runs more.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::task::Context;
use std::thread;
use std::time::{Instant, SystemTime};

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use tourbillon::callback::Callback;
use tourbillon::driver::Driver;
use tourbillon::queue::{DelayQueue, TimeoutQueue};
use tourbillon::virtual_time::{Hold, Tracked, VirtualClock};
use tourbillon::wall::WallSleep;
use tourbillon::{Interval, Sleep, StreamExt as _};

use super::*;

/// Threads of a round beside the forking thread.
const THREADS: usize = 3;

/// Processes of a round that fork beside a first use.
const FIRST_USES: u64 = 8;

/// Forks of a round beside the use of all else.
const FORKS: usize = 4;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn children_forked_in_a_storm_have_timers() {
    alone!();
    let rounds = std::env::var("TOURBILLON_FORKS")
        .map_or(20, |rounds| rounds.parse().expect("a number of rounds"));
    let failed: Vec<_> = (1..=rounds)
        .flat_map(|seed| (0..=FIRST_USES).map(move |part| (seed, part)))
        .map(|(seed, part)| (seed, status_of_a_child(|| round(seed, part))))
        .filter(|(_, status)| *status != 0)
        .collect();
    assert!(failed.is_empty(), "seeds, and the status of each: {failed:?}");
}

/// Numbers that follow from a seed.
struct Random(u64);

impl Random {
    /// One below `end`.
    fn below(&mut self, end: u64) -> u64 {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        self.0 = self.0.wrapping_add(GOLDEN);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    fn micros_below(&mut self, end: u64) -> Duration {
        Duration::from_micros(self.below(end))
    }

    /// Lets less than `end` microseconds pass.
    fn linger(&mut self, end: u64) {
        let (start, span) = (Instant::now(), self.micros_below(end));
        while start.elapsed() < span {
            std::hint::spin_loop();
        }
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// Threads that run the jobs sent to them, and do not end.
struct Crew([Sender<Job>; THREADS]);

impl Crew {
    fn start() -> Self {
        let crew = Self([(); THREADS].map(|()| {
            let (send, jobs) = channel::<Job>();
            thread::spawn(move || jobs.iter().for_each(|job| job()));
            send
        }));
        all_others_wait();
        crew
    }

    /// Makes each thread run `job` with numbers of its own.
    fn run(&self, random: &mut Random, job: impl Fn(&mut Random) + Clone + Send + 'static) {
        for thread in &self.0 {
            let (job, seed) = (job.clone(), random.below(u64::MAX));
            thread.send(Box::new(move || job(&mut Random(seed)))).expect("the thread waits");
        }
    }
}

/// Waits until every other thread of the process waits for something.
fn all_others_wait() {
    let this = std::fs::read_link("/proc/thread-self").expect("procfs is there");
    eventually("all other threads wait", || {
        let tasks = std::fs::read_dir("/proc/self/task").expect("procfs is there");
        let mut others =
            tasks.flatten().filter(|task| Some(&*task.file_name()) != this.file_name());
        others.all(|task| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
        })
    });
}

fn round(seed: u64, part: u64) {
    let random = &mut Random(seed << 32 | part);
    let crew = Crew::start();
    if part < FIRST_USES {
        return first_uses(&crew, random);
    }
    let mut parent = Parent::new();
    let shared = Arc::clone(&parent.shared);
    crew.run(random, move |random| {
        loop {
            shared.step(random);
        }
    });
    for _ in 0..FORKS {
        let mut inherited = Inherited::of(&parent);
        parent.driver.turn();
        random.linger(2_000);
        let in_turn = random.below(3) == 0;
        let status = status_of_a_child(|| {
            if in_turn {
                let status = status_of_a_child(|| inherited.use_all(&mut parent));
                assert_eq!(status, 0, "a child of a child");
            }
            inherited.use_all(&mut parent);
        });
        assert_eq!(status, 0, "a child beside all else");
    }
}

/// Forks during the other threads' first use of the things that a process, or a clock, has once.
fn first_uses(crew: &Crew, random: &mut Random) {
    let (go, kind) = (Arc::new(AtomicBool::new(false)), random.below(5));
    let begun = Arc::new(AtomicUsize::new(0));
    // Where there is none, nothing has counted forks before.
    let clock = (random.below(2) == 0).then(VirtualClock::new);
    let (is_let_go, given, begin) = (Arc::clone(&go), clock.clone(), Arc::clone(&begun));
    crew.run(random, move |random| {
        let own = (kind == 1).then(|| Timer::builder().build().expect("the options are valid"));
        while !is_let_go.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        random.linger(20);
        begin.fetch_add(1, Ordering::Relaxed);
        // None of these arms a timer, which would start a thread.
        match (kind, own, &given) {
            (0, ..) => drop(tourbillon::sleep(HOUR)),
            (1, own, _) => drop(Timer::set_global(own.expect("it was made"))),
            (2, ..) => drop(tourbillon::wall::sleep_until_wall(SystemTime::now() + HOUR)),
            (3, ..) => drop(Timer::builder().build()),
            (_, _, Some(clock)) => drop(Timer::builder().virtual_clock(clock).build()),
            (_, _, None) => drop(VirtualClock::new().hold()),
        }
    });
    go.store(true, Ordering::Relaxed);
    while begun.load(Ordering::Relaxed) == 0 {
        std::hint::spin_loop();
    }
    random.linger(20);
    let status = status_of_a_child(|| {
        for timer in [Timer::global(), Timer::builder().build().expect("the options are valid")] {
            in_real_time(&timer);
        }
        let (timer, own) = virtual_timer();
        in_virtual_time(&timer, &own);
        if let Some(clock) = &clock {
            // It has a timer, or gets one here.
            drop(Timer::builder().virtual_clock(clock).build());
            let now = clock.now();
            clock.set_wall(clock.wall_now());
            clock.advance(SECOND);
            assert_eq!(clock.now(), now + SECOND);
        }
    });
    assert_eq!(status, 0, "a child beside first uses, of kind {kind}");
}

/// Timers that the threads of a round use all at once.
struct Shared {
    own: Timer,
    by_hand: Timer,
    by_clock: Timer,
    clock: VirtualClock,
    /// Waker of the future of [`Parent::tracked`].
    tracked: Waker,
}

/// Timers that the thread that forks has besides.
struct Parent {
    shared: Arc<Shared>,
    driver: Driver,
    tracked: Tracked<Waiting>,
    /// Ends the tracked future.
    done: Arc<AtomicBool>,
}

impl Parent {
    /// Starts all threads that there will be.
    fn new() -> Self {
        let own = Timer::builder().build().expect("the options are valid");
        let (by_hand, driver) =
            Timer::builder().build_manual(|| {}).expect("the options are valid");
        let (by_clock, clock) = virtual_timer();
        let (kept, done) = (Arc::default(), Arc::default());
        let tracked = polled(clock.track(waiting(&kept, &done)));
        let waker = kept.lock().unwrap().take().expect("it was polled");
        for timer in [&own, &Timer::global()] {
            timer.start().expect("a thread can be started");
        }
        pollster::block_on(tourbillon::wall::sleep_until_wall(SystemTime::now() + ms(1)));
        all_others_wait();
        let shared = Shared { own, by_hand, by_clock, clock, tracked: waker };
        Self { shared: Arc::new(shared), driver, tracked, done }
    }
}

impl Shared {
    fn timer(&self, random: &mut Random) -> Timer {
        match random.below(4) {
            0 => Timer::global(),
            1 => self.own.clone(),
            2 => self.by_hand.clone(),
            _ => self.by_clock.clone(),
        }
    }

    /// Does something at random that takes a lock.
    fn step(&self, random: &mut Random) {
        let timer = self.timer(random);
        match random.below(14) {
            0..=2 => {
                let mut sleep = timer.sleep(random.micros_below(2_000));
                let _ = poll(&mut sleep);
                sleep.reset_after(random.micros_below(1_000));
                sleep.set_tolerance(random.micros_below(100));
                let _ = poll(&mut sleep);
            }
            3 => drop(self.clock.advance(random.micros_below(100))),
            4 => self.clock.jump(random.micros_below(10)),
            5 => self.clock.set_wall(self.clock.wall_now()),
            6 => self.clock.suspend(Duration::ZERO),
            7 => drop(self.clock.hold()),
            8 => self.tracked.wake_by_ref(),
            9 => {
                let callback = timer.sleep(random.micros_below(200)).call(|| {});
                random.linger(200);
                if random.below(2) == 0 {
                    callback.cancel_and_wait();
                }
            }
            10 => {
                let callback = every(&timer, Duration::from_micros(20), || {});
                random.linger(200);
                drop(format!("{callback:?}"));
            }
            11 => {
                let mut wall = timer.sleep_until_wall(timer.wall_now() + random.micros_below(200));
                let _ = poll(&mut wall);
            }
            12 => {
                let mut queue = DelayQueue::with_timer(&timer);
                let key = queue.insert((), HOUR);
                let _ = crate::support::poll_next(&mut queue, Waker::noop());
                queue.reset(&key, random.micros_below(100));
            }
            _ => drop((timer.stats(), format!("{timer:?} {:?}", self.clock))),
        }
    }
}

/// Timers that the thread that forks has in use, each at a different place.
struct Inherited {
    sleeps: Vec<Sleep>,
    past: Sleep,
    interval: Interval,
    timeout: tourbillon::Timeout<std::future::Pending<()>>,
    wall: WallSleep,
    by_virtual_wall: WallSleep,
    queue: DelayQueue<u32>,
    timeout_queue: TimeoutQueue<u32>,
    callbacks: Vec<Callback>,
    /// Callbacks that began in another process than the counting one.
    calls: Arc<AtomicUsize>,
    streams: Vec<BoxStream<'static, ()>>,
    hold: Option<Hold>,
}

impl Inherited {
    fn of(parent: &Parent) -> Self {
        let Shared { own, by_hand, by_clock, clock, .. } = &*parent.shared;
        let mut sleeps: Vec<_> =
            [own, by_hand, by_clock, &Timer::global()].map(|timer| timer.sleep(HOUR)).into();
        let (mut past, mut interval) = (own.sleep(ms(1)), own.interval(ms(1)));
        let mut wall = tourbillon::wall::sleep_until_wall(SystemTime::now() + ms(1));
        let mut by_virtual_wall = by_clock.sleep_until_wall(clock.wall_now() + HOUR);
        let (mut queue, mut timeout_queue) =
            (DelayQueue::with_timer(own), TimeoutQueue::with_timer(ms(2), &Timer::global()));
        for n in 0..3 {
            queue.insert(n, ms(1 + u64::from(n)));
            timeout_queue.push(n);
        }
        let mut streams: Vec<BoxStream<'static, ()>> = vec![
            stream::repeat(()).throttle(ms(1)).boxed(),
            stream::pending::<()>()
                .timeout_repeating(tourbillon::interval(ms(1)))
                .map(|_| ())
                .boxed(),
        ];
        let mut timeout = own.timeout(ms(1), std::future::pending());
        let (calls, process) = (Arc::new(AtomicUsize::new(0)), std::process::id());
        let count = |calls: &Arc<AtomicUsize>| {
            let calls = Arc::clone(calls);
            move || {
                _ = calls.fetch_add(usize::from(std::process::id() != process), Ordering::Relaxed)
            }
        };
        let callbacks = vec![
            every(own, Duration::from_micros(20), count(&calls)),
            tourbillon::sleep(ms(1)).call(count(&calls)),
            by_hand.sleep(ms(1)).call(count(&calls)),
            every(by_clock, SECOND, count(&calls)),
        ];
        for sleep in sleeps.iter_mut().chain([&mut past]) {
            let _ = poll(sleep);
        }
        let noop = Waker::noop();
        let _ = (interval.poll_tick(&mut Context::from_waker(noop)), poll(&mut timeout));
        let _ = (poll(&mut wall), poll(&mut by_virtual_wall));
        let _ = (poll_next(&mut queue, noop), poll_next(&mut timeout_queue, noop));
        for stream in &mut streams {
            let _ = poll_next(stream, noop);
        }
        let hold = Some(clock.hold());
        Self {
            sleeps,
            past,
            interval,
            timeout,
            wall,
            by_virtual_wall,
            queue,
            timeout_queue,
            callbacks,
            calls,
            streams,
            hold,
        }
    }

    /// Uses all in a child: the timers that it inherited, then the rest.
    fn use_all(&mut self, parent: &mut Parent) {
        let Shared { own, by_hand, by_clock, clock, tracked } = &*parent.shared;
        for timer in [own, &Timer::global()] {
            in_real_time(timer);
        }
        self.hold = None;
        in_virtual_time(by_clock, clock);
        by_turns(by_hand, &mut parent.driver);

        // Woken in the child, it is to be polled before the clock moves.
        assert!(poll(&mut parent.tracked).is_pending());
        tracked.wake_by_ref();
        parent.done.store(true, Ordering::Relaxed);
        assert!(poll(&mut parent.tracked).is_ready());

        let deadline = self.past.deadline();
        pollster::block_on(&mut self.past);
        assert!(own.now() >= deadline);
        for (sleep, timer) in self.sleeps.iter_mut().zip([own, by_hand, by_clock]) {
            sleep.reset_after(ms(1));
            let deadline = sleep.deadline();
            while poll(sleep).is_pending() {
                parent.driver.turn();
                clock.advance(ms(1));
            }
            assert!(timer.now() >= deadline);
        }
        let next = self.interval.next_tick();
        pollster::block_on(self.interval.tick());
        assert!(own.now() >= next);
        assert!(pollster::block_on(Pin::new(&mut self.timeout)).is_err());
        let target = self.wall.target();
        pollster::block_on(&mut self.wall);
        assert!(SystemTime::now() >= target);
        clock.block_on(&mut self.by_virtual_wall);
        assert!(clock.wall_now() >= self.by_virtual_wall.target());
        // The ones that its parent has not had.
        for n in 3 - self.queue.len() as u32..3 {
            let expired = pollster::block_on(self.queue.next()).expect("there are more");
            assert_eq!(expired.into_inner(), n);
        }
        for n in 3 - self.timeout_queue.len() as u32..3 {
            let expired = pollster::block_on(self.timeout_queue.next()).expect("there are more");
            assert_eq!(expired.into_inner(), n);
        }
        for stream in &mut self.streams {
            // One waits for the clock, and the others for a thread.
            clock.block_on(stream.next()).expect("they do not end");
        }
        for callback in &self.callbacks {
            assert!(!callback.cancel() && !callback.cancel_and_wait());
        }
        self.callbacks.clear();
        assert_eq!(self.calls.load(Ordering::Relaxed), 0, "they are the parent's");
    }
}

/// Uses a timer with a thread as one does.
fn in_real_time(timer: &Timer) {
    let start = timer.now();
    pollster::block_on(timer.sleep(ms(1)));
    assert!(timer.now() >= start + ms(1));
    let mut interval = timer.interval(Duration::from_micros(100));
    for n in 0..3 {
        let tick = pollster::block_on(interval.tick());
        assert!(timer.now() >= tick && tick >= start + n * Duration::from_micros(100));
    }
    assert!(pollster::block_on(timer.timeout(ms(1), std::future::pending::<()>())).is_err());
    let (tell, told) = channel();
    let again = tell.clone();
    let once = timer.sleep(Duration::ZERO).call(move || tell.send(()).expect("the child waits"));
    told.recv().expect("it is called");
    let every = every(timer, Duration::from_micros(50), move || again.send(()).unwrap_or(()));
    assert!(told.iter().take(3).count() == 3 && !once.cancel());
    every.cancel_and_wait();
    let target = timer.wall_now() + ms(1);
    pollster::block_on(timer.sleep_until_wall(target));
    assert!(timer.wall_now() >= target);
    let (mut queue, mut timeout_queue) =
        (DelayQueue::with_timer(timer), TimeoutQueue::with_timer(ms(1), timer));
    queue.insert((), ms(1));
    timeout_queue.push(());
    pollster::block_on(queue.next()).expect("there is one");
    pollster::block_on(timeout_queue.next()).expect("there is one");
    assert_eq!(pollster::block_on(stream::iter(0..3).throttle(ms(1)).count()), 3);
}

/// Uses a timer on a virtual clock as one does.
fn in_virtual_time(timer: &Timer, clock: &VirtualClock) {
    let (start, wall) = (clock.now(), clock.wall_now());
    let mut sleep = timer.sleep(SECOND);
    let mut by_wall = timer.sleep_until_wall(wall + 10 * SECOND);
    assert!(poll(&mut sleep).is_pending() && poll(&mut by_wall).is_pending());
    assert_eq!(clock.advance(SECOND), 1);
    assert!(poll(&mut sleep).is_ready());
    drop(clock.hold());
    clock.block_on(clock.track(timer.sleep(SECOND)));
    clock.jump(SECOND);
    assert_eq!((clock.now(), clock.wall_now()), (start + 3 * SECOND, wall + 3 * SECOND));
    clock.suspend(7 * SECOND);
    assert!(poll(&mut by_wall).is_ready());
    let (calls, count) = (Arc::new(AtomicUsize::new(0)), 3);
    let callback = every(timer, SECOND, {
        let calls = Arc::clone(&calls);
        move || _ = calls.fetch_add(1, Ordering::Relaxed)
    });
    clock.advance(count as u32 * SECOND);
    assert!(calls.load(Ordering::Relaxed) == count && callback.cancel());
    assert_eq!(clock.pending(), 0);
}

/// Uses a timer that is turned by hand as a loop does.
fn by_turns(timer: &Timer, driver: &mut Driver) {
    drop(driver.turn_fd().expect("there is one"));
    let mut sleep = timer.sleep(ms(1));
    // A slow machine may take the millisecond to get here.
    let is_armed = poll(&mut sleep).is_pending();
    let mut fired = 0;
    while is_armed && fired == 0 {
        fired += driver.turn().fired;
        thread::sleep(driver.max_wait().unwrap_or_default());
    }
    assert!(poll(&mut sleep).is_ready() && timer.now() >= sleep.deadline());
}
