//! [`World`]: nodes, their handlers, clients and a database, on one thread and one clock.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_core::Stream as _;
use tourbillon::virtual_time::VirtualClock;

use super::faulty::{Fault, Faulty, bury, nobody_is_dead};
use super::model::Model;
use crate::id::{NodeId, Shards};
use crate::node::{Fire, MainLoop, Next, Options, Shared, Worker, begin, call};
use crate::store::{Memory, Notification, Store, TimerQuery};

/// How many nodes there are at a time.
const NODES: usize = 3;

/// How many nodes there may be, the dead included.
const LIVES: usize = 60;

/// Most calls of nodes that nest in each other.
const DEPTH: u32 = 4;

pub(super) const KINDS: [&str; 2] = ["mail", "bill"];

thread_local! {
    static WORLD: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
    static BITS: RefCell<Option<fastrand::Rng>> = const { RefCell::new(None) };
}

/// Random bits for identities, from the seed of the world that runs on this thread.
pub(crate) fn random() -> Option<u128> {
    BITS.with_borrow_mut(|bits| bits.as_mut().map(|bits| bits.u128(..)))
}

pub(super) fn with_world<T>(work: impl FnOnce(&Rc<World>) -> T) -> T {
    let world = WORLD.with_borrow(|world| world.clone());
    work(&world.expect("a world runs on this thread"))
}

pub(super) struct World {
    clock: VirtualClock,
    pub(super) timer: tourbillon::Timer,
    memory: Memory,
    pub(super) rng: RefCell<fastrand::Rng>,
    nodes: RefCell<Vec<Rc<Node>>>,
    lives: Cell<usize>,
    handlers: RefCell<Vec<Handler>>,
    late: RefCell<Vec<(Instant, Late)>>,
    /// Faults per thousand calls.
    faults: Cell<u32>,
    down_until: Cell<Instant>,
    depth: Cell<u32>,
    /// Attempts of timers that were another node's and not late.
    pub(super) strays: Cell<usize>,
    pub(super) model: RefCell<Model>,
}

type Late = Box<dyn FnOnce(&mut Memory)>;

struct Node {
    number: usize,
    shared: Arc<Shared>,
    main_loop: RefCell<(MainLoop, Faulty)>,
    claimers: [RefCell<Faulty>; 2],
    workers: RefCell<Vec<Worker>>,
    paused_until: Cell<Instant>,
}

struct Handler {
    node: usize,
    fire: Fire,
    until: Instant,
}

impl World {
    /// Makes the world of this thread.
    pub(super) fn begin(seed: u64, faults: u32) -> Rc<Self> {
        let clock = VirtualClock::new();
        let timer = tourbillon::Timer::builder().virtual_clock(&clock).build().unwrap();
        nobody_is_dead();
        let world = Rc::new(Self {
            memory: Memory::new(&timer),
            rng: RefCell::new(fastrand::Rng::with_seed(seed)),
            nodes: RefCell::default(),
            lives: Cell::new(0),
            handlers: RefCell::default(),
            late: RefCell::default(),
            faults: Cell::new(faults),
            down_until: Cell::new(clock.now()),
            depth: Cell::new(0),
            strays: Cell::new(0),
            model: RefCell::default(),
            clock,
            timer,
        });
        BITS.set(Some(fastrand::Rng::with_seed(!seed)));
        WORLD.set(Some(world.clone()));
        (0..NODES).for_each(|_| world.start_node());
        world
    }

    /// Ends the world of this thread.
    pub(super) fn end() {
        BITS.set(None);
        if let Some(world) = WORLD.take() {
            // Fires point to nodes, and nodes to fires.
            world.handlers.take();
            world.nodes.take();
        }
    }

    pub(super) fn db(&self) -> Memory {
        self.memory.clone()
    }

    pub(super) fn chance(&self, per_mille: u32) -> bool {
        self.rng.borrow_mut().u32(..1_000) < per_mille
    }

    pub(super) fn below(&self, end: u64) -> u64 {
        self.rng.borrow_mut().u64(..end)
    }

    fn millis(&self, end: u64) -> Duration {
        Duration::from_millis(self.below(end))
    }

    pub(super) fn fault(&self) -> Fault {
        if self.clock.now() < self.down_until.get() {
            return Fault::Error;
        }
        if !self.chance(self.faults.get()) {
            return Fault::None;
        }
        match self.below(6) {
            0 => Fault::Error,
            1 => Fault::Lost,
            2 => Fault::LostAndLate(self.millis(8_000)),
            3 => Fault::LateCall(self.millis(6_000)),
            4 => Fault::LateAnswer(self.millis(6_000)),
            _ => Fault::LateAnswer(self.millis(300)),
        }
    }

    pub(super) fn later(&self, span: Duration, work: Late) {
        self.late.borrow_mut().push((self.clock.now() + span, work));
    }

    /// Lets time pass while others continue.
    pub(super) fn pass(&self, span: Duration) {
        let end = self.clock.now() + span;
        self.depth.set(self.depth.get() + 1);
        while self.clock.now() < end {
            let left = end - self.clock.now();
            if self.depth.get() > DEPTH {
                self.advance(left);
            } else {
                self.advance(left.min(Duration::from_millis(40)));
                self.step();
            }
        }
        self.depth.set(self.depth.get() - 1);
    }

    fn advance(&self, span: Duration) {
        self.clock.advance(span);
        let now = self.clock.now();
        let mut late = self.late.borrow_mut();
        let due = late.extract_if(.., |(when, _)| *when <= now).collect::<Vec<_>>();
        drop(late);
        due.into_iter().for_each(|(_, work)| work(&mut self.db()));
    }

    /// One thing that happens.
    pub(super) fn step(&self) {
        match self.below(100) {
            0..25 => self.advance(self.millis(60)),
            25..45 => self.keep(),
            45..70 => self.claim(),
            70..82 => self.take_fire(),
            82..94 => self.end_handler(),
            94..99 => Model::act(self),
            99 if self.chance(500) => self.tell(),
            _ => self.mishap(),
        }
        self.model.borrow_mut().see_ends();
        if self.chance(200) {
            self.check_overlaps();
        }
    }

    fn mishap(&self) {
        if self.faults.get() == 0 {
            return;
        }
        match self.below(12) {
            0 | 1 if self.lives.get() < LIVES => {
                let victim = self.below(NODES as u64) as usize;
                self.crash(victim);
                self.start_node();
            }
            2..5 => {
                let node = self.some_node();
                node.paused_until.set(self.clock.now() + self.millis(9_000));
            }
            5 => self.down_until.set(self.clock.now() + self.millis(7_000)),
            _ => {}
        }
    }

    fn start_node(&self) {
        let options = Options {
            node: NodeId::new(),
            lease: Duration::from_secs(4),
            cache_capacity: 40,
            batch: 5,
            connections: 2,
            ..Options::default()
        };
        let shared = Shared::new(options, self.timer.clone());
        let number = self.lives.replace(self.lives.get() + 1);
        let faulty = || Faulty { number };
        let workers = KINDS.map(|kind| Worker::new(&shared, kind, 3)).into();
        self.nodes.borrow_mut().push(Rc::new(Node {
            number,
            main_loop: RefCell::new((MainLoop::new(&shared), faulty())),
            claimers: [RefCell::new(faulty()), RefCell::new(faulty())],
            workers: RefCell::new(workers),
            paused_until: Cell::new(self.clock.now()),
            shared,
        }));
    }

    fn crash(&self, place: usize) {
        let node = self.nodes.borrow_mut().remove(place);
        bury(node.number);
        let mut handlers = self.handlers.borrow_mut();
        let dead: Vec<_> = handlers.extract_if(.., |handler| handler.node == node.number).collect();
        drop(handlers);
        drop(dead);
    }

    fn some_node(&self) -> Rc<Node> {
        let nodes = self.nodes.borrow();
        nodes[self.below(nodes.len() as u64) as usize].clone()
    }

    /// A node that is not paused.
    fn awake(&self) -> Option<Rc<Node>> {
        Some(self.some_node()).filter(|node| node.paused_until.get() <= self.clock.now())
    }

    fn keep(&self) {
        if let Some(node) = self.awake() {
            if let Ok(mut main_loop) = node.main_loop.try_borrow_mut() {
                let (main_loop, store) = &mut *main_loop;
                main_loop.step(store);
            }
        }
    }

    /// Nodes are notified of a timer that is due soon, or of none; some are not.
    pub(super) fn tell(&self) {
        let shards = Shards::from_mask(self.below(u64::MAX) | self.below(u64::MAX));
        let nodes = self.nodes.borrow();
        nodes
            .iter()
            .filter(|_| self.chance(600))
            .for_each(|node| node.shared.hear(Notification::Due(shards)));
    }

    fn claim(&self) {
        let Some(node) = self.awake() else { return };
        let claimer = &node.claimers[self.below(2) as usize];
        if let Ok(mut store) = claimer.try_borrow_mut() {
            if let Next::Call(job) = begin(&node.shared) {
                call(&node.shared, job, &mut *store);
            }
        }
    }

    /// A handler starts an attempt from a worker.
    fn take_fire(&self) {
        let Some(node) = self.awake() else { return };
        let mut workers = node.workers.borrow_mut();
        let place = self.below(workers.len() as u64) as usize;
        let mut cx = Context::from_waker(Waker::noop());
        let worker = std::pin::Pin::new(&mut workers[place]);
        if let Poll::Ready(Some(fire)) = worker.poll_next(&mut cx) {
            assert_eq!(fire.kind(), KINDS[place]);
            self.check_start(&fire);
            self.count_stray(&node.shared, &fire);
            let span = if self.chance(50) { self.millis(9_000) } else { self.millis(300) };
            let until = self.clock.now() + span;
            self.handlers.borrow_mut().push(Handler { node: node.number, fire, until });
        }
    }

    fn count_stray(&self, node: &Shared, fire: &Fire) {
        let is_own = node.lock().shards.contains(fire.id().shard());
        let is_late = fire.claimed().since(fire.due()) >= node.options.grace;
        // A node may claim again a timer that it made due itself, and the next timer of a lane.
        if !is_own && !is_late && fire.attempt() == 1 && fire.lane().is_none() {
            self.strays.set(self.strays.get() + 1);
        }
    }

    fn check_start(&self, fire: &Fire) {
        let now = self.db().now().unwrap();
        assert!(fire.claimed() >= fire.due() && now >= fire.claimed(), "{fire:?} is early");
        let rows = self.db().timers(&TimerQuery::new().timer(fire.id())).unwrap();
        let is_ours = |row: &crate::store::Timer| {
            row.running == Some(fire.fence().lease) && row.attempt == fire.attempt()
        };
        assert!(rows.iter().any(is_ours), "{fire:?} is not running, but {rows:?}");
        for other in self.handlers.borrow().iter() {
            let is_same = other.fire.id() == fire.id();
            assert!(!(is_same && other.fire.is_current()), "{fire:?} has two owners");
            let is_beside = fire.lane().is_some() && fire.lane() == other.fire.lane();
            assert!(!(is_beside && other.fire.is_current()), "{fire:?} is beside another");
        }
        self.model.borrow_mut().check_start(fire);
    }

    fn end_handler(&self) {
        let now = self.clock.now();
        let mut handlers = self.handlers.borrow_mut();
        let ready: Vec<usize> =
            (0..handlers.len()).filter(|place| handlers[*place].until <= now).collect();
        if ready.is_empty() {
            return;
        }
        let Handler { fire, .. } = handlers.remove(ready[self.below(ready.len() as u64) as usize]);
        drop(handlers);
        match self.below(10) {
            0 => {
                let detail = fire.attempt().to_string();
                drop(match self.chance(500) {
                    true => fire.fail(detail),
                    false => fire.fail_after(detail, self.millis(3_000)),
                });
            }
            1 => drop(fire.give_up("simulated")),
            2 => drop(fire),
            3 => drop(fire.postpone(self.millis(3_000))),
            _ => self.complete(fire),
        }
    }

    fn complete(&self, fire: Fire) {
        let fence = fire.fence();
        let ended = fire.complete();
        self.model.borrow_mut().ends.push((fence, ended));
    }

    /// Of a schedule that lets nothing overlap, one timer is unfinished at a time; and of a lane.
    fn check_overlaps(&self) {
        let (mut unfinished, mut fronts) = (BTreeMap::<_, u32>::new(), BTreeSet::new());
        for timer in self.db().timers(&TimerQuery::new().limit(u32::MAX)).unwrap() {
            let is_queued = timer.running.is_none() && timer.new.due == crate::Time::NEVER;
            if let Some(lane) = timer.new.lane.filter(|_| !is_queued) {
                assert!(fronts.insert(lane.clone()), "two are unfinished in the lane {lane}");
            }
            if let (Some(schedule), Some(name), false) =
                (timer.new.schedule, timer.new.name, is_queued)
            {
                *unfinished.entry((schedule, name)).or_default() += 1;
            }
        }
        let model = self.model.borrow();
        for ((_, name), count) in unfinished {
            assert!(count == 1 || model.may_overlap(&name), "{count} of {name} are unfinished");
        }
    }

    /// Mends everything, and continues for a minute: by then nothing is left that is due.
    pub(super) fn calm_down(&self) {
        self.faults.set(0);
        self.down_until.set(self.clock.now());
        self.advance(Duration::from_secs(9));
        for _ in 0..600 {
            self.advance(Duration::from_millis(100));
            for node in self.nodes.borrow().clone() {
                let (main_loop, store) = &mut *node.main_loop.borrow_mut();
                main_loop.step(store);
                while let Next::Call(job) = begin(&node.shared) {
                    call(&node.shared, job, &mut *node.claimers[0].borrow_mut());
                }
            }
            (0..60).for_each(|_| self.take_fire());
            let handlers = self.handlers.take();
            handlers.into_iter().for_each(|handler| self.complete(handler.fire));
            self.model.borrow_mut().see_ends();
            self.check_overlaps();
        }
    }
}
