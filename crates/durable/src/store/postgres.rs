//! [`Postgres`]: a store for many nodes, on PostgreSQL 15 and later.
//!
//! The tables are in a schema of the address's database: `tourbillon`, or the schema that the
//! address names. Correctness rests on rows and their locks, and for lanes on advisory locks by
//! their names: there are no triggers or sequences, the functions are for other programs, and
//! listening is optional.
//!
//! # In a transaction of the caller's
//!
//! Writes in a caller's transaction become visible with the caller's own, or not at all.
//!
//! | transaction of | a timer | no timer of that name | another time | an attempt's end |
//! |---|---|---|---|---|
//! | `sqlx` (feature `sqlx-0_8` or `sqlx-0_9`) | `Once::create_in` | `Client::cancel_in` | `Client::reschedule_in` | `Fire::complete_in` |
//! | `tokio_postgres` (feature `tokio-postgres-0_7`) | `Tables::insert` | `Tables::cancel` | `Tables::reschedule` | `Tables::finish` |
//! | anything else, `SELECT tourbillon.` | `once(..)` | `cancel(..)` | `reschedule(..)` | `complete(..)` |
//!
//! `docs/POSTGRES.md` has the parameters of the functions, and why the transaction of an
//! attempt that is no longer the node's cannot commit, unless the call is within a savepoint.

mod address;
mod answer;
mod attempts;
#[cfg(test)]
#[expect(dead_code, reason = "the tests of the store use all of it")]
#[path = "../../tests/postgres/cluster.rs"]
mod cluster;
mod floor;
mod lanes;
mod link;
mod listen;
mod lists;
mod look;
mod named;
mod nodes;
mod overview;
#[cfg(not(feature = "tls"))]
mod plain;
mod pulse;
mod schedules;
mod schema;
mod server;
#[cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9"))]
pub(crate) mod sqlx;
#[cfg(test)]
mod statements;
mod tables;
mod timers;
#[cfg(feature = "tls")]
mod tls;
mod values;
mod views;
#[cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9", feature = "tokio-postgres-0_7"))]
mod within;
mod zones;

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use self::answer::{Answer, PATIENCE};
use self::link::{Link, Query, Session, blocking};
pub use self::schema::SCHEMA;
use self::server::{Backend, Server};
#[cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9"))]
pub use self::sqlx::SqlxTransaction;
pub use self::tables::Tables;
use self::values::Span;
use super::{
    Advance, Advanced, Amendment, Batch, Beat, Change, Changed, Claimed, End, Filled, Finished,
    Heard, Held, Hits, Inserted, Listening, Looked, Maintained, ManualRun, Named, NewOccurrence,
    NewTimer, NodeInfo, Overview, OverviewOf, Past, Promoted, RecordQuery, Reschedule, Result,
    Scan, ScheduleQuery, ScheduleRow, Search, Store, Tally, TallyOf, Timer, TimerQuery,
    TimerUpdate, Upcoming, UpcomingQuery, Window, ZonedQuery,
};
use crate::error::StoreErrorKind;
use crate::id::{Lease, Shards, TimerId};
use crate::record::{Record, RecordSummary};
use crate::time::Time;

/// The longest pause before a call that conflicts is repeated.
const PAUSE: Duration = Duration::from_millis(32);

/// Time after a conflict during which a claim leaves out locked rows.
const CONTENDED: Duration = Duration::from_secs(1);

/// Longest time to make the tables, or to wait for another process to make them.
const MIGRATION: Duration = Duration::from_secs(600);

/// One connection to a PostgreSQL database of timers.
///
/// The store connects when it is made and, after a lost connection, at the next call. No call takes
/// longer than five seconds, whatever the network does; a prune may take that long for each part.
/// Calls block. A call from a thread of a tokio runtime is carried out on a separate thread, and
/// blocks the caller meanwhile.
///
/// # Examples
///
/// ```no_run
/// use tourbillon_durable::store::{Postgres, Store};
///
/// let mut store = Postgres::connect("postgres://app:secret@db.example.org/app")?;
/// println!("{}", store.now()?);
/// # Ok::<(), tourbillon_durable::StoreError>(())
/// ```
pub struct Postgres {
    server: Server,
    link: Option<Link>,
    /// Process that the last connection was to, if that was lost.
    lost: Option<Backend>,
    search: nodes::Search,
    /// Time until which claims do not wait for locks.
    contended_until: Option<Instant>,
    /// Statements ended for want of a lock since they were last asked for.
    lock_timeouts: u64,
}

impl Postgres {
    /// Connects to the database at `address`, a URL or `key=value` pairs as libpq has them, and
    /// makes its tables or brings them up to [`SCHEMA`].
    ///
    /// Encryption is asked for as from libpq, and needs the feature `tls`:
    ///
    /// | `sslmode` | encrypted | the server's certificate |
    /// |---|---|---|
    /// | `disable` | no | |
    /// | `prefer` (default) | if the server offers it | is that of an authority of `sslrootcert`, if that is given |
    /// | `require` | yes | the same |
    /// | `verify-ca` | yes | is that of an authority of `sslrootcert` |
    /// | `verify-full` | yes | also has the host's name or address as a `subjectAltName` |
    ///
    /// `sslrootcert` is a PEM file of authorities, or `system`, the default of `verify-full`.
    /// `sslcert` and `sslkey` are PEM files of the client's certificate and key. Files are read by
    /// this call only. A login by SCRAM is bound to the connection where the server offers it
    /// (`channel_binding`).
    ///
    /// The parameter `schema` names the schema that the tables are in; `tourbillon` by default. A
    /// database has room for several sets of tables, each in its schema. The call makes a schema
    /// that is not there. [`Tables::in_schema`] says which names it takes.
    ///
    /// # Errors
    ///
    /// [`Invalid`](StoreErrorKind::Invalid) if the address or a file that it names makes no sense,
    /// or demands encryption without that feature.
    pub fn connect(address: &str) -> Result<Self> {
        let mut store = Self::on(Server::new(address)?);
        blocking(|| {
            let begun = Instant::now();
            store.within(begun, MIGRATION, async |session, _| schema::migrate(session).await)
        })?;
        Ok(store)
    }

    /// A store that has not connected.
    fn on(server: Server) -> Self {
        let search = nodes::Search::default();
        Self { server, link: None, lost: None, search, contended_until: None, lock_timeouts: 0 }
    }

    fn call<T: Send>(
        &mut self,
        work: impl AsyncFnMut(&mut Session, bool) -> Answer<T> + Send,
    ) -> Result<T> {
        blocking(|| {
            let begun = Instant::now();
            self.ready(begun + PATIENCE)?;
            self.within(begun, PATIENCE, work)
        })
    }

    /// Does `work` once, which waits for a lock as long as the session lets it. The caller makes
    /// the call again, behind others.
    fn try_call<T: Send>(
        &mut self,
        work: impl AsyncFnOnce(&mut Session) -> Answer<T> + Send,
    ) -> Result<T> {
        blocking(|| {
            let deadline = Instant::now() + PATIENCE;
            self.ready(deadline)?;
            self.once(deadline, work)
        })
    }

    /// Does `work`, again while it conflicts; its second argument says whether it did, or another
    /// call did of late.
    fn within<T>(
        &mut self,
        begun: Instant,
        patience: Duration,
        mut work: impl AsyncFnMut(&mut Session, bool) -> Answer<T>,
    ) -> Result<T> {
        let mut pause = Duration::from_millis(1);
        loop {
            let is_contended = self.is_contended();
            let answer =
                self.once(begun + patience, async |session| work(session, is_contended).await);
            match answer {
                Err(error) if error.kind() == StoreErrorKind::Conflict => {
                    if begun.elapsed() > patience / 2 {
                        return Err(error);
                    }
                }
                answer => return answer,
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE);
        }
    }

    /// Does `work` once.
    fn once<T>(
        &mut self,
        deadline: Instant,
        work: impl AsyncFnOnce(&mut Session) -> Answer<T>,
    ) -> Result<T> {
        let link = match &mut self.link {
            Some(link) => link,
            none => {
                let link = Link::connect(&self.server, deadline, self.lost.as_ref())?;
                self.lost = None;
                none.insert(link)
            }
        };
        let answer = link.call(deadline, work);
        self.lock_timeouts += link.lock_timeouts();
        answer.map_err(|(error, is_usable)| {
            if error.kind() == StoreErrorKind::Conflict {
                self.contended_until = Some(Instant::now() + CONTENDED);
            }
            if !is_usable {
                self.lose();
            }
            error
        })
    }

    /// Returns whether a call has conflicted with another a short time ago.
    fn is_contended(&self) -> bool {
        self.contended_until.is_some_and(|until| Instant::now() < until)
    }

    /// Sees to it that there is a connection, if the server lets it.
    fn ready(&mut self, deadline: Instant) -> Result<()> {
        if self.link.as_ref().is_some_and(|link| !link.is_open()) {
            self.lose();
        }
        if self.link.is_none() {
            let mut link = Link::connect(&self.server, deadline, self.lost.as_ref())?;
            self.lost = None;
            let checked = link.call(deadline, async |session| schema::check(session).await);
            checked.map_err(|(error, _)| error)?;
            self.link = Some(link);
        }
        Ok(())
    }

    fn lose(&mut self) {
        self.lost = self.link.take().map(Link::into_backend);
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres")
            .field("server", &self.server)
            .field("is_connected", &self.link.is_some())
            .finish_non_exhaustive()
    }
}

impl crate::store::Sealed for Postgres {}

impl Store for Postgres {
    fn connect(&self) -> Result<Box<dyn Store>> {
        let mut store = Self::on(self.server.clone());
        blocking(|| store.ready(Instant::now() + PATIENCE))?;
        Ok(Box::new(store))
    }

    fn disconnect(&mut self) {
        self.link = None;
    }

    fn schema(&self) -> Option<&str> {
        Some(self.server.tables().schema())
    }

    fn lock_timeouts(&mut self) -> u64 {
        std::mem::take(&mut self.lock_timeouts)
    }

    fn listen(&self, heard: Heard) -> Result<Option<Listening>> {
        Ok(Some(Box::new(listen::Listening::start(&self.server, heard)?)))
    }

    fn notify(&mut self, shards: Shards) -> Result<bool> {
        self.call(async |session, _| listen::notify(session, shards).await)?;
        Ok(true)
    }

    fn now(&mut self) -> Result<Time> {
        self.call(async |session, _| nodes::now(session).await)
    }

    fn join(&mut self, lease: Lease, span: Duration) -> Result<Option<Beat>> {
        self.call(async |session, _| nodes::join(session, lease, Span(span)).await)
    }

    fn beat(&mut self, lease: Lease, span: Duration) -> Result<Option<Beat>> {
        self.call(async |session, _| nodes::beat(session, lease, Span(span)).await)
    }

    fn leave(&mut self, lease: Lease) -> Result<()> {
        self.call(async |session, _| nodes::leave(session, lease).await)
    }

    fn maintain(&mut self) -> Result<Maintained> {
        let mut search = std::mem::take(&mut self.search);
        let maintained = self.call(async |session, _| nodes::maintain(session, &mut search).await);
        self.search = search;
        maintained
    }

    fn promote(&mut self, lanes: &[String]) -> Result<Vec<Promoted>> {
        let mut promoted = Vec::new();
        for part in lanes.chunks(lanes::LOCKED) {
            promoted.extend(self.call(async |session, _| lanes::promote(session, part).await)?);
        }
        Ok(promoted)
    }

    fn nodes(&mut self) -> Result<Vec<NodeInfo>> {
        self.call(async |session, _| overview::nodes(session).await)
    }

    fn insert(&mut self, timers: &[NewTimer]) -> Result<Vec<Inserted>> {
        if timers.is_empty() {
            return Ok(Vec::new());
        }
        self.try_call(async |session| timers::insert(session, timers).await)
    }

    fn insert_and_look(&mut self, timers: &[NewTimer], names: &[&str]) -> Result<Looked> {
        self.try_call(async |session| named::insert_and_look(session, timers, names).await)
    }

    fn scan(&mut self, scan: &Scan<'_>) -> Result<Window> {
        self.call(async |session, _| timers::scan(session, scan).await)
    }

    fn held(&mut self, lease: Lease, after: Option<(Time, TimerId)>) -> Result<Held> {
        self.call(async |session, _| nodes::held(session, lease, after).await)
    }

    fn claim(&mut self, lease: Lease, timers: &[TimerId]) -> Result<Claimed> {
        self.call(async |session, is_contended| {
            attempts::claim(session, lease, timers, is_contended).await
        })
    }

    fn finish(&mut self, lease: Lease, ends: &[End]) -> Result<Vec<Finished>> {
        if ends.is_empty() {
            return Ok(Vec::new());
        }
        let is_one_statement = !attempts::is_mixed(ends);
        self.call(async |session, _| {
            if is_one_statement {
                return attempts::finish(session, lease, ends).await;
            }
            session.begin().await?;
            let finished = attempts::finish(session, lease, ends).await?;
            session.commit().await?;
            Ok(finished)
        })
    }

    fn finish_and_claim(&mut self, batch: &Batch<'_>) -> Result<(Vec<Finished>, Claimed)> {
        let Batch { lease, ends, timers } = *batch;
        if !ends.is_empty() && !timers.is_empty() && ends.iter().all(attempts::is_last) {
            let together = blocking(|| {
                let deadline = Instant::now() + PATIENCE;
                self.ready(deadline)?;
                let is_contended = self.is_contended();
                self.once(deadline, async |session| {
                    attempts::end_and_claim(session, lease, ends, timers, is_contended).await
                })
            });
            match together {
                Err(error) if error.kind() == StoreErrorKind::Conflict => {}
                answer => return answer,
            }
        }
        let finished = self.finish(lease, ends)?;
        Ok((finished, self.claim(lease, timers)?))
    }

    fn confirm(&mut self) -> Result<()> {
        self.call(async |session, _| session.confirm().await)
    }

    fn cancel(&mut self, timer: TimerId) -> Result<TimerUpdate> {
        self.try_call(async |session| timers::cancel(session, timer).await)
    }

    fn reschedule(&mut self, reschedule: &Reschedule<'_>) -> Result<TimerUpdate> {
        self.try_call(async |session| timers::reschedule(session, reschedule).await)
    }

    fn amend(&mut self, amendment: &Amendment<'_>) -> Result<TimerUpdate> {
        self.try_call(async |session| timers::amend(session, amendment).await)
    }

    fn find(&mut self, name: &str) -> Result<Option<Timer>> {
        self.call(async |session, _| timers::find(session, name).await)
    }

    fn named(&mut self, names: &[&str]) -> Result<(Time, Vec<Named>)> {
        self.call(async |session, _| named::find(session, names).await)
    }

    fn timers(&mut self, query: &TimerQuery) -> Result<Vec<Timer>> {
        self.call(async |session, _| lists::timers(session, query).await)
    }

    fn schedule(&mut self, name: &str) -> Result<(Time, Option<ScheduleRow>)> {
        self.call(async |session, _| schedules::schedule(session, name).await)
    }

    fn schedules(&mut self, query: &ScheduleQuery) -> Result<Vec<ScheduleRow>> {
        self.call(async |session, _| lists::schedules(session, query).await)
    }

    fn upcoming(&mut self, query: &UpcomingQuery) -> Result<Upcoming> {
        self.call(async |session, _| schedules::upcoming(session, query).await)
    }

    fn zoned(&mut self, query: &ZonedQuery) -> Result<Vec<ScheduleRow>> {
        self.call(async |session, _| zones::zoned(session, query).await)
    }

    fn rezone(&mut self, row: &ScheduleRow) -> Result<Advanced> {
        self.call(async |session, _| zones::rezone(session, row).await)
    }

    fn change(&mut self, change: &Change<'_>) -> Result<Changed> {
        self.call(async |session, _| schedules::change(session, change).await)
    }

    fn create_schedules(&mut self, rows: &[ScheduleRow]) -> Result<Vec<bool>> {
        self.call(async |session, _| schedules::create(session, rows).await)
    }

    fn advance(&mut self, advance: &Advance<'_>) -> Result<Advanced> {
        self.call(async |session, _| schedules::advance(session, advance).await)
    }

    fn advance_batch(&mut self, advances: &[Advance<'_>]) -> Result<Vec<Advanced>> {
        self.call(async |session, _| {
            if session.is_citus {
                return Ok(vec![schedules::advance(session, &advances[0]).await?]);
            }
            schedules::advance_all(session, advances).await
        })
    }

    fn backfill(&mut self, past: &Past<'_>) -> Result<Filled> {
        self.call(async |session, _| schedules::backfill(session, past).await)
    }

    fn insert_occurrence(&mut self, occurrence: &NewOccurrence<'_>) -> Result<ManualRun> {
        self.call(async |session, _| schedules::insert_occurrence(session, occurrence).await)
    }

    fn records(&mut self, query: &RecordQuery) -> Result<Vec<Record>> {
        self.call(async |session, _| lists::records(session, query).await)
    }

    fn latest_records(&mut self, names: &[&str], each: u32) -> Result<Vec<Vec<RecordSummary>>> {
        self.call(async |session, _| views::latest_records(session, names, each).await)
    }

    fn search(&mut self, search: &Search) -> Result<Hits> {
        self.call(async |session, _| views::search(session, search).await)
    }

    fn tally(&mut self, of: &TallyOf) -> Result<Tally> {
        self.call(async |session, _| views::tally(session, of).await)
    }

    fn overview(&mut self, of: &OverviewOf) -> Result<Overview> {
        self.call(async |session, _| overview::overview(session, of).await)
    }

    fn prune(&mut self, before: Time, limit: u32) -> Result<u64> {
        self.call(async |session, _| lists::prune(session, before, limit).await)
    }
}
