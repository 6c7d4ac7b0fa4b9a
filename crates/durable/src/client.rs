//! [`Client`]: makes, changes and lists timers and schedules.

mod backfill;
mod inserts;
mod notices;
mod once;
mod queue;
mod replacement;
mod revive;
mod run_now;
mod schedules;
#[cfg(test)]
mod tests;
mod ticket;
mod tries;
mod upserts;
#[cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9"))]
mod within;

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_channel::{Receiver, Sender};

#[cfg(test)]
pub(crate) use backfill::backfill;
pub use backfill::{Backfill, Backfilled};
pub use once::{Created, Once};
pub use replacement::Replacement;
pub use revive::Revival;
#[cfg(test)]
pub(crate) use revive::revive;
pub use run_now::RunNow;
#[cfg(test)]
pub(crate) use run_now::run_now;
#[cfg(test)]
pub(crate) use schedules::enable;
pub use schedules::{Every, ScheduleUpdate, Upsert};
#[cfg(any(test, feature = "conformance"))]
pub(crate) use schedules::{Wanted, pause, stop, upsert};
#[cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9"))]
pub use within::Uncommitted;

pub(crate) use self::inserts::insert_all;
use self::inserts::insert_together;
use self::notices::Notices;
use self::queue::{Notifiable, Queue, Role, Work};
use self::ticket::{Attended, Caller, Ticket};
use self::upserts::{Upsertion, upsert_together};
use crate::error::{StoreError, StoreErrorKind};
use crate::id::TimerId;
use crate::node::{LANES, SOON, Shared, clean};
use crate::record::{Record, RecordSummary};
use crate::schedule::Schedule;
use crate::store::{
    Amendment, Hits, Named, NewTimer, NodeInfo, Overview, OverviewOf, RecordQuery, Reschedule,
    Result, ScheduleQuery, ScheduleRow, Search, Store, Tally, TallyOf, Timer, TimerQuery,
    TimerUpdate,
};
use crate::threads::spawn;
use crate::time::Time;
use crate::trace;

/// Number of repeats of a call that conflicted, and of an insert whose answer was lost.
const REPEATS: usize = 5;

/// Records that one call deletes.
const PRUNED: u32 = 2_000;

/// Longest time that a call waits for its answer, unless the client is given another.
const DEADLINE: Duration = Duration::from_secs(10);

/// Makes, changes and lists timers and schedules.
///
/// A client has a thread and a connection, or [several](crate::Engine::client_with); its clones
/// share them. The futures of its calls run on any executor. Inserts that wait at the same time
/// share one transaction, so do new schedules, and [lookups](Self::named) share one statement.
///
/// Each thread sends one call after the other. So a database that does not answer holds up the
/// calls behind, but each is answered by its [deadline](Self::with_deadline). All calls that may
/// write are sent by one thread. So a write whose answer was lost, or whose caller left, is not
/// carried out after a later write of the same client was answered.
///
/// Calls that wait at the same time have no order: an insert may be sent before a cancel that was
/// called earlier and is not answered yet, and a lookup before another read. A call that is made
/// after the answer to another is sent after it.
///
/// # Cancel safety
///
/// A call dropped before it was sent to the database is not sent. A call dropped later may still be
/// carried out.
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
    /// Longest time that a call of this clone waits for its answer.
    deadline: Duration,
    /// Schema of the store's tables, if it has one.
    #[cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9"))]
    schema: Option<Arc<str>>,
}

/// A caller that waits for a confirmation.
struct Confirm {
    ticket: Ticket,
    reply: Sender<Result<()>>,
}

/// The clones of a client. With the last of them the queue is closed.
struct Handle(Arc<Queue>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Work of a call on the store. It sends its own answer.
type Job = Box<dyn FnOnce(&mut dyn Store) + Send>;

/// A call, and its caller.
struct Call {
    ticket: Ticket,
    work: Job,
}

/// A name that is looked up, and the caller.
struct Lookup {
    name: String,
    ticket: Ticket,
    reply: Sender<Result<(Time, Named)>>,
}

impl Client {
    /// A client without an engine. Engines find its timers by their scans, or at once if the store
    /// has notices.
    ///
    /// # Errors
    ///
    /// If its thread cannot be started.
    pub fn new(store: Box<dyn Store>) -> Result<Self> {
        Self::start(vec![store], None)
    }

    pub(crate) fn start(stores: Vec<Box<dyn Store>>, node: Option<Weak<Shared>>) -> Result<Self> {
        let queue = Arc::new(Queue::default());
        let client = Self {
            handle: Arc::new(Handle(queue.clone())),
            deadline: DEADLINE,
            #[cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9"))]
            schema: stores.first().and_then(|store| store.schema()).map(Arc::from),
        };
        let roles = std::iter::once(Role::Writer).chain(std::iter::repeat(Role::Reader));
        for (store, role) in stores.into_iter().zip(roles) {
            let (thread, node) = (Thread::new(&queue, role), node.clone());
            spawn("client", move || thread.serve(store, node.as_ref()))?;
        }
        Ok(client)
    }

    /// Sets the longest time that a call waits for its answer; 10 s by default. Other clones keep
    /// theirs. [`Duration::MAX`] is no limit.
    ///
    /// A call that was not sent by then is not sent, and fails as
    /// [`Unavailable`](StoreErrorKind::Unavailable). A call that was sent fails as
    /// [`Uncertain`](StoreErrorKind::Uncertain), or as `Unavailable` if it only reads, and sends no
    /// further statement. Each part of [`prune`](Self::prune) counts as one call.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon_durable::Client;
    /// use tourbillon_durable::store::Memory;
    ///
    /// # pollster::block_on(async {
    /// let client = Client::new(Box::new(Memory::new(&tourbillon::Timer::global())))?;
    /// // For a web service, whose own clients leave after three seconds.
    /// let hasty = client.clone().with_deadline(Duration::from_secs(2));
    /// assert_eq!(hasty.find("reminder").await?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// A timer that fires once, to be made with [`create`](Once::create).
    pub fn once(&self, kind: &str, at: impl Into<Time>) -> Once {
        Once::new(self, kind, at.into())
    }

    /// A schedule of this name, to be made or changed with [`upsert`](Every::upsert).
    pub fn every(&self, name: &str, schedule: impl Into<Schedule>) -> Every {
        Every::new(self, name, schedule.into())
    }

    /// Takes a timer back that no attempt runs of. Once this says
    /// [`TimerUpdate::Done`], no attempt can start.
    ///
    /// # Errors
    ///
    /// If the error is [`Uncertain`](StoreErrorKind::Uncertain), the timer may be cancelled.
    pub async fn cancel(&self, timer: TimerId) -> Result<TimerUpdate> {
        self.insist(move |store| store.cancel(timer)).await
    }

    /// Gives a timer that no attempt runs of, and that belongs to no schedule, another time. Once
    /// this says [`TimerUpdate::Done`], no attempt can start for the old one.
    ///
    /// At [`Time::NEVER`] the timer is held: no attempt starts until it is given another time.
    ///
    /// # Errors
    ///
    /// The errors of [`replace`](Self::replace).
    pub async fn reschedule(&self, timer: TimerId, to: impl Into<Time>) -> Result<TimerUpdate> {
        self.replace(timer, Replacement::at(to)).await
    }

    /// Gives a timer another time, as [`reschedule`](Self::reschedule) does, and the replacement's
    /// other values. An attempt sees either all old values or all new ones.
    ///
    /// With [`Replacement::expect`] it is [`TimerUpdate::Stale`] if another change came first: of
    /// two that expect one version, one is made. Attempts are no changes: with
    /// [`Replacement::attempt`] it is stale after one, too.
    ///
    /// # Errors
    ///
    /// [`Invalid`](StoreErrorKind::Invalid) if the payload has more than 64 KiB. If the error is
    /// [`Uncertain`](StoreErrorKind::Uncertain), the timer may be changed.
    pub async fn replace(&self, timer: TimerId, replacement: Replacement) -> Result<TimerUpdate> {
        let Replacement { to, payload, expect, attempt } = replacement;
        payload.as_deref().map_or(Ok(()), once::check_payload)?;
        let payload = payload.map(Arc::new);
        let move_to = move |store: &mut dyn Store| {
            let payload = payload.as_ref().map(|payload| payload.as_slice());
            store.reschedule(&Reschedule { timer, to, payload, expect, attempt })
        };
        let done = self.insist(move_to).await?;
        if done == TimerUpdate::Done {
            self.notify(Notifiable::Due(timer, to));
        }
        Ok(done)
    }

    /// Changes the [detail](Timer::detail) that the last attempt of a timer left, and the time of
    /// the next attempt, if the timer has not changed since it was read. The detail is cut as in
    /// [`Fire::fail`](crate::Fire::fail). The next attempt is due `pause` from now, or at the
    /// scheduled time if that is later. For a timer that was
    /// [postponed](crate::Fire::postpone_with) until others decide. It may belong to a schedule.
    ///
    /// If two callers amend the same state, one gets [`TimerUpdate::Done`] and the other
    /// [`TimerUpdate::Stale`]. No attempt starts between the read and a successful change.
    ///
    /// # Errors
    ///
    /// The errors of [`replace`](Self::replace), except that a detail is cut. If the error is
    /// [`Uncertain`](StoreErrorKind::Uncertain), the timer may be amended.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use tourbillon_durable::store::{Memory, TimerUpdate};
    /// use tourbillon_durable::Client;
    ///
    /// # pollster::block_on(async {
    /// let client = Client::new(Box::new(Memory::new(&tourbillon::Timer::global())))?;
    /// client.once("order", SystemTime::now()).name("payment").create().await?;
    ///
    /// let seen = client.find("payment").await?.unwrap();
    /// let hour = Duration::from_secs(3_600);
    /// assert_eq!(client.amend(&seen, "paid", Duration::ZERO).await?, TimerUpdate::Done);
    /// assert_eq!(client.amend(&seen, "waits", hour).await?, TimerUpdate::Stale);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub async fn amend(
        &self,
        found: &Timer,
        detail: impl AsRef<str>,
        pause: Duration,
    ) -> Result<TimerUpdate> {
        let (timer, attempt, version) = (found.new.id, found.attempt, found.version);
        let detail = clean(detail.as_ref());
        let amend = move |store: &mut dyn Store| {
            store.amend(&Amendment { timer, attempt, version, pause, detail: &detail })
        };
        let done = self.insist(amend).await?;
        if done == TimerUpdate::Done && pause <= SOON {
            // For every clock.
            self.notify(Notifiable::Due(timer, Time::from_micros(0)));
        }
        Ok(done)
    }

    /// The timer without a schedule that has this name.
    pub async fn find(&self, name: &str) -> Result<Option<Timer>> {
        let name = name.to_owned();
        self.read(move |store| store.find(&name)).await
    }

    /// Returns the schedule of this name, the timer of this name that has no schedule, and the
    /// database's time. If neither exists, the newest record of the name is returned.
    ///
    /// Calls that wait at the same time go into one statement. Nothing has a name that no store
    /// takes, such as an empty one.
    pub async fn named(&self, name: &str) -> Result<(Time, Named)> {
        if !once::is_good(name) {
            return Ok((self.now().await?, Named::default()));
        }
        let (reply, answer) = async_channel::bounded(1);
        let ticket = Ticket::default();
        let lookup = Lookup { name: name.to_owned(), ticket: ticket.clone(), reply };
        self.handle.0.look_up(lookup);
        in_time(self.deadline, Caller::new(ticket), answer, StoreErrorKind::Unavailable).await
    }

    /// Waits until everything that this client has read so far is as durable as its own writes.
    ///
    /// A read may show another client's commit that no standby has confirmed yet. A caller that
    /// reads that nothing is left to write calls this before it reports so.
    ///
    /// Calls that wait at the same time are confirmed together.
    ///
    /// # Errors
    ///
    /// [`Uncertain`](StoreErrorKind::Uncertain) if it may be lost still.
    pub async fn confirm(&self) -> Result<()> {
        let (reply, answer) = async_channel::bounded(1);
        let ticket = Ticket::default();
        self.handle.0.confirm(Confirm { ticket: ticket.clone(), reply });
        in_time(self.deadline, Caller::new(ticket), answer, StoreErrorKind::Uncertain).await
    }

    /// Lists timers that are not over, in the query's order; by default the earliest due comes
    /// first.
    pub async fn timers(&self, query: TimerQuery) -> Result<Vec<Timer>> {
        self.read(move |store| store.timers(&query)).await
    }

    /// Schedules, in the order of their names.
    pub async fn schedules(&self, query: ScheduleQuery) -> Result<Vec<ScheduleRow>> {
        self.read(move |store| store.schedules(&query)).await
    }

    /// Lists records of timers and occurrences, oldest first unless the query says otherwise.
    pub async fn records(&self, query: RecordQuery) -> Result<Vec<Record>> {
        self.read(move |store| store.records(&query)).await
    }

    /// Returns the newest records of each of these names, `each` at most, in one statement: the
    /// answers are in the order of `names`, and each has the newest record first.
    pub async fn latest_records(
        &self,
        names: Vec<String>,
        each: u32,
    ) -> Result<Vec<Vec<RecordSummary>>> {
        let latest = move |store: &mut dyn Store| {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            store.latest_records(&names, each)
        };
        self.read(latest).await
    }

    /// Searches the names of schedules, and of timers that have a name and no schedule. It reads as
    /// many rows as the search allows, and says where the next one continues.
    pub async fn search(&self, search: Search) -> Result<Hits> {
        self.read(move |store| store.search(&search)).await
    }

    /// Counts records by their time and how they ended. It stops at a limit and says so.
    pub async fn tally(&self, of: &TallyOf) -> Result<Tally> {
        let of = of.clone();
        self.read(move |store| store.tally(&of)).await
    }

    /// The nodes that live.
    pub async fn nodes(&self) -> Result<Vec<NodeInfo>> {
        self.read(|store| store.nodes()).await
    }

    /// Counts timers, schedules and records of some kinds. Each count stops at a limit and says so.
    pub async fn overview(&self, of: &OverviewOf) -> Result<Overview> {
        let of = of.clone();
        self.read(move |store| store.overview(&of)).await
    }

    /// Deletes records from before `before`, in parts. Returns how many. After an error, or
    /// dropped, it may have deleted some.
    pub async fn prune(&self, before: impl Into<Time>) -> Result<u64> {
        let before = before.into();
        let mut count = 0;
        loop {
            // Other calls come between two parts.
            let pruned = self.call(move |store| store.prune(before, PRUNED)).await?;
            count += pruned;
            if pruned < u64::from(PRUNED) {
                return Ok(count);
            }
        }
    }

    /// The database's clock.
    pub async fn now(&self) -> Result<Time> {
        self.read(|store| store.now()).await
    }

    /// Runs `work`, which may write, on the client's thread that writes, with its connection.
    pub(crate) fn call<T, W>(&self, work: W) -> impl Future<Output = Result<T>> + use<T, W>
    where
        T: Send + 'static,
        W: FnOnce(&mut dyn Store) -> Result<T> + Send + 'static,
    {
        self.request(StoreErrorKind::Uncertain, Queue::write, work)
    }

    /// Runs `work`, which writes nothing, on a thread of the client, with its connection.
    pub(crate) fn read<T, W>(&self, work: W) -> impl Future<Output = Result<T>> + use<T, W>
    where
        T: Send + 'static,
        W: FnOnce(&mut dyn Store) -> Result<T> + Send + 'static,
    {
        self.request(StoreErrorKind::Unavailable, Queue::read, work)
    }

    /// Queues `work` by `add`. If it was sent and takes too long, the error is of the kind `late`.
    fn request<T, W>(
        &self,
        late: StoreErrorKind,
        add: fn(&Queue, Call),
        work: W,
    ) -> impl Future<Output = Result<T>> + use<T, W>
    where
        T: Send + 'static,
        W: FnOnce(&mut dyn Store) -> Result<T> + Send + 'static,
    {
        let (reply, answer) = async_channel::bounded(1);
        let ticket = Ticket::default();
        let work = Box::new(move |store: &mut dyn Store| {
            let _ = reply.try_send(work(store));
        });
        add(&self.handle.0, Call { ticket: ticket.clone(), work });
        in_time(self.deadline, Caller::new(ticket), answer, late)
    }

    fn upsert(
        &self,
        wanted: schedules::Wanted,
        as_of: Option<Time>,
    ) -> impl Future<Output = Result<Upsert>> + use<> {
        let (reply, answer) = async_channel::bounded(1);
        let ticket = Ticket::default();
        self.handle.0.upsert(Upsertion { wanted, as_of, ticket: ticket.clone(), reply });
        in_time(self.deadline, Caller::new(ticket), answer, StoreErrorKind::Uncertain)
    }

    /// Has nodes notified of a timer.
    fn notify(&self, notice: Notifiable) {
        self.handle.0.notify([notice]);
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("waiting", &self.handle.0.len()).finish_non_exhaustive()
    }
}

/// Waits for the answer, up to the deadline. If the call was sent by then, the error is of the kind
/// `late`.
async fn in_time<T>(
    deadline: Duration,
    caller: Caller,
    answer: Receiver<Result<T>>,
    late: StoreErrorKind,
) -> Result<T> {
    if let Ok(answer) = tourbillon::timeout(deadline, answer.recv()).await {
        return answer.unwrap_or_else(|_| Err(ended()));
    }
    Err(if caller.leave() {
        StoreError::new(late, format!("sent, and not answered within {deadline:?}"))
    } else {
        let why = format!("not sent within {deadline:?}: the calls before it took too long");
        StoreError::new(StoreErrorKind::Unavailable, why)
    })
}

fn ended() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "the client's thread has ended")
}

/// A thread of a client. Dropped, it is counted out.
struct Thread {
    queue: Arc<Queue>,
    role: Role,
}

impl Thread {
    fn new(queue: &Arc<Queue>, role: Role) -> Self {
        queue.enter(role);
        Self { queue: queue.clone(), role }
    }

    /// Carries out requests until there are no clients.
    fn serve(self, mut store: Box<dyn Store>, node: Option<&Weak<Shared>>) {
        let mut notices = Notices::default();
        while let Some(work) = self.queue.take(self.role) {
            match work {
                Work::Call(Call { ticket, work }) => {
                    work(&mut Attended::new(&mut *store, &[ticket]));
                }
                Work::Inserts(inserts) => {
                    let made = insert_together(&mut *store, inserts);
                    // In a call of its own, which holds up no further write.
                    let notices = made.into_iter().filter_map(|timer| match timer.lane {
                        Some(_) => Some(Notifiable::Made(timer)),
                        None => unexpected(node, timer.id, &timer.kind, timer.due)
                            .map(|(timer, due)| Notifiable::Due(timer, due)),
                    });
                    self.queue.notify(notices);
                }
                Work::Upserts(upserts) => upsert_together(&mut *store, upserts),
                Work::Lookups(lookups) => look_up_together(&mut *store, lookups),
                Work::Confirms(confirms) => confirm_together(&mut *store, confirms),
                Work::Notices(of) => {
                    let timers = all_unexpected(&mut *store, node, of);
                    notices.notify(&mut *store, timers.into_iter());
                }
            }
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.queue.leave(self.role);
    }
}

/// Confirms the reads of all of these callers, and answers.
fn confirm_together(store: &mut dyn Store, confirms: Vec<Confirm>) {
    let tickets: Vec<_> = confirms.iter().map(|confirm| confirm.ticket.clone()).collect();
    let confirmed = repeat(|| Attended::new(store, &tickets).confirm());
    for Confirm { reply, .. } in confirms {
        let _ = reply.try_send(confirmed.as_ref().copied().map_err(StoreError::copy));
    }
}

/// Looks up the names that callers wait for, and answers.
fn look_up_together(store: &mut dyn Store, lookups: Vec<Lookup>) {
    let lookups: Vec<_> = lookups.into_iter().filter(|lookup| lookup.ticket.send()).collect();
    if !lookups.is_empty() {
        look_up(store, &lookups);
    }
}

/// Looks up names in one statement, or each in a separate statement if the store refuses any.
fn look_up(store: &mut dyn Store, lookups: &[Lookup]) {
    let names: Vec<_> = lookups.iter().map(|lookup| &*lookup.name).collect();
    let tickets: Vec<_> = lookups.iter().map(|lookup| lookup.ticket.clone()).collect();
    match Attended::new(store, &tickets).named(&names) {
        Ok((now, found)) => {
            for (lookup, found) in lookups.iter().zip(found) {
                let _ = lookup.reply.try_send(Ok((now, found)));
            }
        }
        Err(error) if error.kind() == StoreErrorKind::Invalid && lookups.len() > 1 => {
            lookups.iter().for_each(|lookup| look_up(store, std::slice::from_ref(lookup)));
        }
        Err(error) => {
            for lookup in lookups {
                let _ = lookup.reply.try_send(Err(error.copy()));
            }
        }
    }
}

/// Tells the client's own node of a timer that was made. If that does not expect it, returns it for
/// the nodes of other processes.
fn unexpected(
    node: Option<&Weak<Shared>>,
    timer: TimerId,
    kind: &str,
    due: Time,
) -> Option<(TimerId, Time)> {
    let node = node.and_then(Weak::upgrade);
    (!node.is_some_and(|node| node.expect(timer, kind, due))).then_some((timer, due))
}

/// Returns the timers to name in a notice to nodes of other processes. For new timers in lanes it
/// first chooses the lanes' fronts, because only they are due. If that fails, a node chooses them
/// within seconds.
fn all_unexpected(
    store: &mut dyn Store,
    node: Option<&Weak<Shared>>,
    notices: Vec<Notifiable>,
) -> Vec<(TimerId, Time)> {
    let (mut lanes, mut timers) = (BTreeSet::new(), Vec::new());
    for notice in notices {
        match notice {
            Notifiable::Due(timer, due) => timers.push((timer, due)),
            Notifiable::Made(NewTimer { lane: Some(lane), .. }) => _ = lanes.insert(lane),
            Notifiable::Made(made) => {
                timers.extend(unexpected(node, made.id, &made.kind, made.due))
            }
        }
    }
    let lanes: Vec<_> = lanes.into_iter().collect();
    for part in lanes.chunks(LANES) {
        match repeat(|| store.promote(part)) {
            Ok(fronts) => {
                let fronts = fronts.iter();
                timers.extend(
                    fronts.filter_map(|front| unexpected(node, front.id, &front.kind, front.due)),
                );
            }
            Err(error) => trace::store_failed("promote", &error),
        }
    }
    timers
}

/// Makes a call again while its answer is lost. Says whether one was.
///
/// After a lost answer each error is [`Uncertain`](StoreErrorKind::Uncertain): nobody knows whether
/// the call was carried out.
fn until_answered<T>(mut call: impl FnMut() -> Result<T>) -> Result<(T, bool)> {
    let (mut repeats, mut is_lost) = (1..REPEATS, false);
    loop {
        let error = match call() {
            Ok(answer) => return Ok((answer, is_lost)),
            Err(error) => error,
        };
        match error.kind() {
            StoreErrorKind::Uncertain if repeats.next().is_some() => is_lost = true,
            _ if is_lost => return Err(StoreError::new(StoreErrorKind::Uncertain, error)),
            _ => return Err(error),
        }
    }
}

/// Makes a call again while a concurrent transaction gets in the way.
fn repeat<T>(mut call: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..REPEATS {
        match call() {
            Err(error) if error.kind() == StoreErrorKind::Conflict => {}
            answer => return answer,
        }
    }
    call()
}
