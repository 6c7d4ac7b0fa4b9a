//! Faults between a store and its server.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tourbillon_durable::store::calls::{Amendment, Batch};
use tourbillon_durable::store::{Finished, Inserted, Postgres, Store, TimerQuery, TimerUpdate};
use tourbillon_durable::{StoreErrorKind, TimerId};

use crate::cluster::Database;
use crate::{first_done, join, timer};

/// A link to the server that can swallow bytes, each way, hold them back, or be slow; and that
/// counts round trips.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    swallows: [AtomicBool; 2],
    /// The connections before this one carry no request for now.
    held_below: AtomicUsize,
    connections: AtomicUsize,
    /// Delay of an answer in milliseconds.
    late: AtomicU64,
    /// True while no answer is carried.
    holds_answers: AtomicBool,
    /// Number of commits that were sent.
    commits: AtomicUsize,
    /// True if an answer was carried since the last request.
    is_answered: AtomicBool,
    /// Number of requests that followed an answer.
    trips: AtomicUsize,
}

pub(crate) const REQUESTS: usize = 0;
pub(crate) const ANSWERS: usize = 1;

impl Proxy {
    pub(crate) fn new(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let server = TcpStream::connect(server).unwrap();
                let number = shared.connections.fetch_add(1, Ordering::SeqCst);
                let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
                for (way, (from, to)) in [(client, server), back].into_iter().enumerate() {
                    let state = Arc::clone(&shared);
                    thread::spawn(move || state.carry(from, to, way, number));
                }
            }
        });
        Self { address, state }
    }

    pub(crate) fn swallow(&self, way: usize, swallows: bool) {
        self.state.swallows[way].store(swallows, Ordering::SeqCst);
    }

    /// Has each answer come later by so many milliseconds.
    pub(crate) fn slow(&self, late: u64) {
        self.state.late.store(late, Ordering::SeqCst);
    }

    /// Holds the answers, or lets them pass.
    pub(crate) fn hold_answers(&self, holds: bool) {
        self.state.holds_answers.store(holds, Ordering::SeqCst);
    }

    /// Returns how many commits were sent as statements of their own.
    pub(crate) fn commits(&self) -> usize {
        self.state.commits.load(Ordering::SeqCst)
    }

    /// Counts the round trips of `work`, on one connection. Requests that do not wait for each
    /// other may count as several.
    pub(crate) fn trips<T>(&self, work: impl FnOnce() -> T) -> (usize, T) {
        self.state.is_answered.store(true, Ordering::SeqCst);
        let before = self.state.trips.load(Ordering::SeqCst);
        let done = work();
        (self.state.trips.load(Ordering::SeqCst) - before, done)
    }

    /// Holds the requests of the present connections; later ones continue.
    fn hold(&self) {
        let count = self.state.connections.load(Ordering::SeqCst);
        self.state.held_below.store(count, Ordering::SeqCst);
    }

    fn release(&self) {
        self.state.held_below.store(0, Ordering::SeqCst);
    }
}

impl State {
    fn carry(&self, mut from: TcpStream, mut to: TcpStream, way: usize, number: usize) {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            while way == REQUESTS && number < self.held_below.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
            if way == REQUESTS {
                let is_commit = |part: &[u8]| part == b"COMMIT\0";
                let commits = buffer[..count].windows(7).filter(|part| is_commit(part)).count();
                self.commits.fetch_add(commits, Ordering::SeqCst);
                let follows = usize::from(self.is_answered.swap(false, Ordering::SeqCst));
                self.trips.fetch_add(follows, Ordering::SeqCst);
            }
            while way == ANSWERS && self.holds_answers.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
            if way == ANSWERS {
                self.is_answered.store(true, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(self.late.load(Ordering::SeqCst)));
            }
            let swallows = self.swallows[way].load(Ordering::SeqCst);
            if !swallows && to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }
}

pub(crate) fn through(database: &Database) -> (Proxy, Postgres) {
    let proxy = Proxy::new(database.server());
    let store = Postgres::connect(&database.address_by(proxy.address)).unwrap();
    (proxy, store)
}

#[test]
fn what_was_not_sent_yet_is_not_uncertain() {
    let database = Database::new();
    let (proxy, mut store) = through(&database);
    let timer = timer(store.now().unwrap());
    // The answer to the preparation of the statement.
    proxy.swallow(ANSWERS, true);
    let error = store.insert(from_ref(&timer)).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    proxy.swallow(ANSWERS, false);
    assert_eq!(store.insert(from_ref(&timer)).unwrap(), [Inserted::Created]);
}

#[test]
fn a_write_whose_answer_is_swallowed_is_uncertain() {
    let database = Database::new();
    let (proxy, mut store) = through(&database);
    let now = store.now().unwrap();
    // The statement is prepared from here on, and sent at once.
    store.insert(&[timer(now)]).unwrap();
    let timer = timer(now);
    proxy.swallow(ANSWERS, true);
    let error = store.insert(from_ref(&timer)).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Uncertain, "{error}");
    proxy.swallow(ANSWERS, false);
    let again = store.insert(from_ref(&timer)).unwrap();
    assert_eq!(again, [Inserted::Exists(timer.id)]);
}

#[test]
fn a_write_that_is_swallowed_is_uncertain() {
    let database = Database::new();
    let (proxy, mut store) = through(&database);
    let now = store.now().unwrap();
    store.insert(&[timer(now)]).unwrap();
    let timer = timer(now);
    proxy.swallow(REQUESTS, true);
    let error = store.insert(from_ref(&timer)).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Uncertain, "{error}");
    // To read again does no harm, whatever became of it.
    let error = store.now().unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    proxy.swallow(REQUESTS, false);
    assert_eq!(store.insert(from_ref(&timer)).unwrap(), [Inserted::Created]);
}

#[test]
fn a_write_that_is_held_back_is_not_done_after_it_was_repeated() {
    let database = Database::new();
    let (proxy, mut store) = through(&database);
    let lease = join(&mut store);
    let now = store.now().unwrap();
    store.insert(&[timer(now)]).unwrap();
    let timer = timer(now);
    proxy.hold();
    let error = store.insert(from_ref(&timer)).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Uncertain, "{error}");
    assert_eq!(store.insert(from_ref(&timer)).unwrap(), [Inserted::Created]);
    assert_eq!(store.claim(lease, &[timer.id]).unwrap().timers.len(), 1);
    assert_eq!(store.finish(lease, &first_done(timer.id)).unwrap(), [Finished::Accepted]);

    // What arrives now finds nobody. If it did, the timer would be there for a second time.
    proxy.release();
    thread::sleep(Duration::from_millis(300));
    assert_eq!(store.timers(&TimerQuery::new().timer(timer.id)).unwrap(), []);
}

const TERMINATE: &str = "
    SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'tourbillon'";

#[test]
fn a_connection_that_ended_between_calls_is_made_anew() {
    let database = Database::new();
    let mut store = database.connect();
    let timer = timer(store.now().unwrap());
    store.insert(from_ref(&timer)).unwrap();
    assert_eq!(database.client().query(TERMINATE, &[]).unwrap().len(), 1);
    // Not even uncertain.
    let again = store.insert(from_ref(&timer)).unwrap();
    assert_eq!(again, [Inserted::Exists(timer.id)]);
}

#[test]
fn a_claim_leaves_out_what_another_transaction_has_locked() {
    let database = Database::new();
    let mut store = database.connect();
    let lease = join(&mut store);
    let now = store.now().unwrap();
    let timers = [timer(now), timer(now)];
    store.insert(&timers).unwrap();
    let mut ids = timers.each_ref().map(|timer| timer.id);
    ids.sort();

    let mut client = database.client();
    let mut transaction = client.transaction().unwrap();
    let lock = format!("SELECT FROM tourbillon.timer WHERE id = '{}' FOR UPDATE", ids[0]);
    transaction.query(&lock, &[]).unwrap();
    let claim = |store: &mut Postgres| -> Vec<TimerId> {
        let claimed = store.claim(lease, &ids).unwrap();
        claimed.timers.iter().map(|timer| timer.new.id).collect()
    };
    let begun = Instant::now();
    assert_eq!(claim(&mut store), [ids[1]]);
    assert_ne!(store.lock_timeouts(), 0);
    assert_eq!(store.lock_timeouts(), 0);
    // For a second it waits for no lock, nor does an end that goes together with a claim.
    assert_eq!(claim(&mut store), []);
    let batch = Batch { lease, ends: &first_done(ids[1]), timers: &ids[..1] };
    let (ended, claimed) = store.finish_and_claim(&batch).unwrap();
    assert_eq!((ended, claimed.timers), (vec![Finished::Accepted], vec![]));
    let timeouts = store.lock_timeouts();
    assert!(timeouts == 0 || begun.elapsed() >= Duration::from_secs(1), "{timeouts} timeouts");
    transaction.commit().unwrap();
    assert_eq!(claim(&mut store), [ids[0]]);
}

#[test]
fn what_is_locked_for_long_is_a_conflict() {
    let database = Database::new();
    let mut store = database.connect();
    let timer = timer(store.now().unwrap());
    store.insert(from_ref(&timer)).unwrap();
    let mut client = database.client();
    let mut transaction = client.transaction().unwrap();
    transaction.query("SELECT FROM tourbillon.timer FOR UPDATE", &[]).unwrap();
    assert_eq!(store.cancel(timer.id).unwrap_err().kind(), StoreErrorKind::Conflict);
    transaction.commit().unwrap();
    store.cancel(timer.id).unwrap();
}

/// As if another had claimed the timer before the first attempt, and handed it back after.
#[test]
fn what_was_not_amended_for_a_moment_is_amended_by_a_repeat() {
    let database = Database::new();
    let mut store = database.connect();
    let timer = timer(store.now().unwrap());
    store.insert(from_ref(&timer)).unwrap();
    let misses = "CREATE SEQUENCE public.misses;
        CREATE FUNCTION public.miss() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RETURN CASE WHEN nextval('public.misses') > 1 THEN new END; END $$;
        CREATE TRIGGER miss BEFORE UPDATE ON tourbillon.timer
            FOR EACH ROW EXECUTE FUNCTION public.miss()";
    database.client().batch_execute(misses).unwrap();
    let amendment = Amendment {
        timer: timer.id,
        attempt: 0,
        version: 1,
        pause: Duration::ZERO,
        detail: "waits",
    };
    assert_eq!(store.amend(&amendment).unwrap(), TimerUpdate::Done);
    let found = store.timers(&TimerQuery::new()).unwrap().remove(0);
    assert_eq!((&*found.detail, found.version), ("waits", 2));
}
