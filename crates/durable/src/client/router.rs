//! [`Router`]: one client for several stores, by key.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::{Client, Every, Once, Replacement, Revival, RunNow, ScheduleUpdate};
use crate::error::{StoreError, StoreErrorKind};
use crate::id::{Place, TimerId};
use crate::places::Places;
use crate::record::Record;
use crate::schedule::Schedule;
use crate::store::transfer::as_received;
use crate::store::{
    RecordQuery, Result, ScheduleQuery, ScheduleRow, Store, Timer, TimerOrder, TimerQuery,
    TimerUpdate,
};
use crate::time::Time;

/// Client of several stores, which sends each call to the store of its key's place.
///
/// A key selects one of [1,024 places](Place), and a [map](Places) says which store each place is
/// on. The key is the name of a schedule or a timer, unless [`at`](Self::at) gives another, such as
/// a tenant: all that has one key is on one store. A timer without a name has a key that is drawn.
/// Ids have their place: so calls by id need no key.
///
/// Each store keeps its promises for what is on it, and stores know nothing of each other. A store
/// that does not answer delays the keys of its places and no others. Names are unique on each
/// store: use a name with one key always, and it is unique everywhere.
///
/// What writes something of a place that is [on its way](Places::begin_move) to another store fails
/// with [`Moving`](StoreErrorKind::Moving), and nothing is written. [`find`](Self::find) and
/// [`upcoming`](Self::upcoming) look on both stores, and a client of [`at`](Self::at) reads from
/// the old one. Lists may have a timer of the place twice, due far in the future the second time.
///
/// Every store has an engine of its own. All routers and engines of an application need the same
/// map, or a name may be on two stores.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tourbillon_durable::store::{Memory, TimerUpdate};
/// use tourbillon_durable::{Created, Engine, Places, Router};
///
/// # pollster::block_on(async {
/// let places = Places::evenly(["east", "west"])?;
/// let (mut engines, mut clients) = (Vec::new(), Vec::new());
/// for name in ["east", "west"] {
///     // In an application the address of this store.
///     let store = Memory::new(&tourbillon::Timer::global());
///     let engine = Engine::builder().start(Box::new(store))?;
///     clients.push((name, engine.client()?));
///     engines.push(engine);
/// }
/// let router = Router::new(places, clients)?;
///
/// let at = SystemTime::now() + Duration::from_secs(3_600);
/// router.once("mail", at).name("reminder").create().await?;
/// assert!(router.find("reminder").await?.is_some());
///
/// // All of a tenant is on one store.
/// let Created::Created(id) = router.at("tenant-42").once("mail", at).create().await? else {
///     panic!("it is new");
/// };
/// assert_eq!(router.cancel(id).await?, TimerUpdate::Done);
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Router {
    places: Arc<Places>,
    /// By the names of their stores.
    clients: Arc<BTreeMap<String, Client>>,
}

impl Router {
    /// Makes a router of these clients, each with the name of its store.
    ///
    /// # Errors
    ///
    /// [`Invalid`](StoreErrorKind::Invalid) unless each store that has a place has one client.
    pub fn new(
        places: Places,
        clients: impl IntoIterator<Item = (impl Into<String>, Client)>,
    ) -> Result<Self> {
        let mut by_name = BTreeMap::new();
        let invalid = |why: String| Err(StoreError::new(StoreErrorKind::Invalid, why));
        for (name, client) in clients {
            let name = name.into();
            if by_name.contains_key(&name) {
                return invalid(format!("the store `{name}` has two clients"));
            }
            by_name.insert(name, client);
        }
        if let Some(store) = places.stores().find(|store| !by_name.contains_key(*store)) {
            return invalid(format!("the store `{store}` has places and no client"));
        }
        Ok(Self { places: places.into(), clients: by_name.into() })
    }

    /// Map that the router goes by.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Clients of all stores, by the names of their stores.
    pub fn clients(&self) -> impl Iterator<Item = (&str, &Client)> {
        self.clients.iter().map(|(name, client)| (&**name, client))
    }

    /// Returns the client for what has `key`. What it makes is of the key's place, whatever its
    /// name is. A name that something of another place has on the same store is
    /// [`Invalid`](StoreErrorKind::Invalid) to it.
    pub fn at(&self, key: &str) -> Client {
        self.at_place(Place::of(key))
    }

    /// Returns the client for what is of `place`, as [`at`](Self::at) does for a key of it.
    pub fn at_place(&self, place: Place) -> Client {
        let client = self.clients[self.places.store(place)].at_place(place);
        Client { is_moving: self.places.moving_to(place).is_some(), ..client }
    }

    /// Client for the reads of a place on the store that it is on its way to, if it is.
    fn reader_at_the_end(&self, place: Place) -> Option<Client> {
        let to = self.places.moving_to(place)?;
        Some(Client { is_moving: true, ..self.clients[to].at_place(place) })
    }

    /// A timer that fires once. Its key is its name, if it gets one.
    pub fn once(&self, kind: &str, at: impl Into<Time>) -> Once {
        Once::routed(self, kind, at.into())
    }

    /// A schedule, whose key is its name.
    pub fn every(&self, name: &str, schedule: impl Into<Schedule>) -> Every {
        self.at(name).every(name, schedule)
    }

    /// [`Client::enable`] for a schedule whose key is its name.
    pub async fn enable(&self, name: &str) -> Result<ScheduleUpdate> {
        self.at(name).enable(name).await
    }

    /// [`Client::disable`] for a schedule whose key is its name.
    pub async fn disable(&self, name: &str) -> Result<ScheduleUpdate> {
        self.at(name).disable(name).await
    }

    /// [`Client::pause`] for a schedule whose key is its name.
    pub async fn pause(&self, name: &str, until: impl Into<Time>) -> Result<ScheduleUpdate> {
        self.at(name).pause(name, until).await
    }

    /// [`Client::remove`] for a schedule whose key is its name.
    pub async fn remove(&self, name: &str) -> Result<ScheduleUpdate> {
        self.at(name).remove(name).await
    }

    /// [`Client::upcoming`] for a schedule whose key is its name.
    pub async fn upcoming(&self, name: &str, count: usize) -> Result<Vec<Time>> {
        let times = self.at(name).upcoming(name, count).await?;
        match self.reader_at_the_end(Place::of(name)) {
            Some(client) if times.is_empty() => client.upcoming(name, count).await,
            _ => Ok(times),
        }
    }

    /// [`Client::run_now`] for a schedule whose key is its name.
    pub async fn run_now(&self, name: &str) -> Result<RunNow> {
        self.at(name).run_now(name).await
    }

    /// [`Client::find`] for a timer whose key is its name.
    pub async fn find(&self, name: &str) -> Result<Option<Timer>> {
        let found = self.at(name).find(name).await?;
        // It is on the new store before it leaves the old one.
        match self.reader_at_the_end(Place::of(name)) {
            Some(client) if found.is_none() => {
                Ok(client.find(name).await?.map(|timer| as_received(&timer).unwrap_or(timer)))
            }
            _ => Ok(found),
        }
    }

    /// [`Client::cancel`], by the place of the id.
    pub async fn cancel(&self, timer: TimerId) -> Result<TimerUpdate> {
        self.at_place(timer.place()).cancel(timer).await
    }

    /// [`Client::reschedule`], by the place of the id.
    pub async fn reschedule(&self, timer: TimerId, to: impl Into<Time>) -> Result<TimerUpdate> {
        self.at_place(timer.place()).reschedule(timer, to).await
    }

    /// [`Client::amend`], by the place of the id.
    pub async fn amend(
        &self,
        found: &Timer,
        detail: impl AsRef<str>,
        pause: Duration,
    ) -> Result<TimerUpdate> {
        self.at_place(found.new.id.place()).amend(found, detail, pause).await
    }

    /// [`Client::replace`], by the place of the id.
    pub async fn replace(&self, timer: TimerId, replacement: Replacement) -> Result<TimerUpdate> {
        self.at_place(timer.place()).replace(timer, replacement).await
    }

    /// [`Client::revive`], by the place of the id.
    pub async fn revive(&self, timer: TimerId) -> Result<Revival> {
        self.at_place(timer.place()).revive(timer).await
    }

    /// Lists timers of all stores together, as [`Client::timers`] does those of one.
    ///
    /// The order and the place after which a page begins are the query's, so the last timer of a
    /// page says where the next begins, whichever store it is on. Each store is asked for a page,
    /// all at the same time; if one does not answer, there is no list.
    ///
    /// A name alone says where a page by names ends. So timers of one name, each on another store,
    /// are on one page, which then has more than its limit if they are its last.
    pub async fn timers(&self, query: TimerQuery) -> Result<Vec<Timer>> {
        let (limit, is_by_name) = (query.limit, matches!(query.order, TimerOrder::Name { .. }));
        let mut timers = self.of_each(move |store| store.timers(&query)).await?;
        if is_by_name {
            cut_by_name(&mut timers, limit, |timer| &timer.new.name);
        } else {
            timers.sort_by_key(|timer| (timer.new.due, timer.new.id));
            timers.truncate(limit as usize);
        }
        Ok(timers)
    }

    /// Lists schedules of all stores together, in the order of their names; pages are as those of
    /// [`timers`](Self::timers).
    pub async fn schedules(&self, query: ScheduleQuery) -> Result<Vec<ScheduleRow>> {
        let limit = query.limit;
        let mut schedules = self.of_each(move |store| store.schedules(&query)).await?;
        cut_by_name(&mut schedules, limit, |schedule| &schedule.name);
        Ok(schedules)
    }

    /// Lists records of all stores together, in the query's order; pages are as those of
    /// [`timers`](Self::timers). Times are those of each store's own clock.
    pub async fn records(&self, query: RecordQuery) -> Result<Vec<Record>> {
        let (limit, newest_first) = (query.limit, query.newest_first);
        let mut records = self.of_each(move |store| store.records(&query)).await?;
        records.sort_by_key(|record| (record.recorded, record.timer));
        if newest_first {
            records.reverse();
        }
        records.truncate(limit as usize);
        Ok(records)
    }

    /// Reads from all stores at the same time, and returns what they answer, one after the other.
    async fn of_each<T: Send + 'static>(
        &self,
        read: impl Fn(&mut dyn Store) -> Result<Vec<T>> + Clone + Send + 'static,
    ) -> Result<Vec<T>> {
        let answers = self.clients.values().map(|client| client.read(read.clone()));
        // Each is sent before the first is awaited.
        let answers: Vec<_> = answers.collect();
        join(answers).await
    }
}

/// Sorts rows by their names, and leaves the first `limit`, with all others of the last one's name.
fn cut_by_name<T, N: Ord>(rows: &mut Vec<T>, limit: u32, name: impl Fn(&T) -> &N) {
    rows.sort_by(|one, other| name(one).cmp(name(other)));
    let mut end = rows.len().min(limit as usize);
    while end > 0 && end < rows.len() && name(&rows[end - 1]) == name(&rows[end]) {
        end += 1;
    }
    rows.truncate(end);
}

/// Returns the rows of all answers, or the first error in their order.
async fn join<T>(answers: Vec<impl Future<Output = Result<Vec<T>>>>) -> Result<Vec<T>> {
    let mut all = Vec::new();
    for answer in answers {
        all.append(&mut answer.await?);
    }
    Ok(all)
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router")
            .field("places", &format_args!("{}", self.places))
            .field("clients", &self.clients)
            .finish()
    }
}
