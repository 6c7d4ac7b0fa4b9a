//! A node as a process: an engine, and handlers that log their work.

use std::future::poll_fn;
use std::io::Read;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pollster::block_on;
use tourbillon_durable::{EndError, Engine, Fire, Worker};

use crate::Result;
use crate::canary::{Bug, Marks, Tap};
use crate::database::Address;
use crate::log::{How, Label, Line, Log, STALL_US, Stamp, Taken};
use crate::options::Options;
use crate::workload::{KINDS, conduct};

/// Period of a process's checks that it runs.
const WATCH: Duration = Duration::from_millis(20);

/// Runs a node until the standard input ends, so that it ends with who started it.
///
/// # Errors
///
/// If an option makes no sense, or the log or the store cannot be opened.
pub fn run(options: &Options) -> Result<()> {
    let (node, start) = options.text("label")?.split_once('.').ok_or("a label is NODE.START")?;
    let label = Label { node: node.parse()?, start: start.parse()? };
    let log = Path::new(options.text("logs")?).join(format!("node-{}.log", label.node));
    let log = Arc::new(Log::open(&log)?);
    watch(&log, label.node);
    let (bug, kinds) = (options.canary()?, options.text("kinds")?);
    let builder = builder(options, bug)?;
    let engine = Address::new(options.text("store")?)?.patiently(|store| {
        let store = Box::new(Tap::new(store, bug, &Marks::logged(&log, label.node)));
        Ok(builder.clone().start(store)?)
    })?;
    let mut handlers = Vec::new();
    for kind in KINDS.iter().filter(|kind| kinds.split(',').any(|name| name == kind.name)) {
        let (name, threads) = (kind.name.to_owned(), kind.threads);
        log.write(&Line::Handlers { label, kind: name, threads });
        let worker = Arc::new(Mutex::new(engine.worker(kind.name, kind.prefetch)));
        for _ in 0..kind.threads {
            let handler = Handler { label, log: log.clone(), worker: worker.clone() };
            handlers.push(thread::spawn(move || handler.run()));
        }
    }
    wait_for_the_end();
    block_on(engine.stop());
    handlers.into_iter().for_each(|handler| handler.join().expect("a handler panicked"));
    Ok(())
}

/// Times that a storm of a minute meets each of often.
fn builder(options: &Options, bug: Option<Bug>) -> Result<tourbillon_durable::Builder> {
    let lease = options.millis("lease-ms", 2_000)?;
    Ok(Engine::builder()
        .lease(bug.map_or(lease, |bug| bug.trust(lease)))
        .connections(options.number("connections", 1)?)
        .heartbeat(lease / 8)
        .schedule_interval(Duration::from_millis(500))
        .maintenance_interval(Duration::from_millis(500)))
}

/// Logs when this process did not run, so that it is not taken for a breach of promise.
fn watch(log: &Arc<Log>, node: u32) {
    let log = log.clone();
    thread::spawn(move || {
        let mut from = Stamp::now();
        loop {
            thread::sleep(WATCH);
            let to = Stamp::now();
            if to.0 - from.0 > STALL_US {
                log.write(&Line::Stall { from, to, node: Some(node) });
            }
            from = to;
        }
    });
}

/// Returns when the standard input is at its end.
pub(crate) fn wait_for_the_end() {
    let mut byte = [0];
    while std::io::stdin().read(&mut byte).is_ok_and(|count| count > 0) {}
}

/// A thread that carries attempts out.
struct Handler {
    label: Label,
    log: Arc<Log>,
    worker: Arc<Mutex<Worker>>,
}

impl Handler {
    fn run(self) {
        loop {
            // A process can be stopped between any two instructions. So the stamp comes first, and
            // the attempt counts as started then: the worker looks at the lease after it.
            let (at, next) = {
                let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
                let mut next = pin!(worker.next());
                block_on(poll_fn(|cx| {
                    let at = Stamp::now();
                    next.as_mut().poll(cx).map(|next| (at, next))
                }))
            };
            let Some(fire) = next else { return };
            self.carry_out(at, fire);
        }
    }

    fn carry_out(&self, at: Stamp, fire: Fire) {
        let (label, fence) = (self.label, fire.fence());
        let (timer, attempt) = (fence.timer, fence.attempt);
        self.log.write(&Line::Start {
            at,
            began: Stamp::now(),
            label,
            kind: fire.kind().to_owned(),
            name: fire.name().unwrap_or("-").to_owned(),
            scheduled: fire.schedule().is_some(),
            scheduled_for: fire.scheduled_for(),
            due: fire.due(),
            timer,
            attempt,
            node: fence.lease.node,
        });
        let (span, how) = conduct(fire.kind(), timer, attempt);
        thread::sleep(span);
        self.log.write(&Line::Finish { at: Stamp::now(), label, timer, attempt, how });
        let answer = match how {
            How::Ok => block_on(fire.complete()),
            How::Failed => block_on(fire.fail("as it was to")),
            How::GaveUp => block_on(fire.give_up("as it was to")),
            How::Back => return,
        };
        let taken = match answer {
            Ok(()) => Taken::Accepted,
            Err(EndError::Fenced) => Taken::Fenced,
            Err(_) => Taken::Lost,
        };
        self.log.write(&Line::Taken { at: Stamp::now(), label, timer, attempt, taken });
    }
}
