//! [`Room`]: limits connected clients, and cuts one when another needs its place.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tourbillon_http_limits::Standing;

use crate::answers::Answers;

/// Number of standings.
const STANDINGS: usize = Standing::Continues as usize + 1;

/// Grace of a new client, before it is cut ahead of clients with earlier requests. A client sends
/// its request a moment after it connects, and later on a loaded machine.
const GRACE: Duration = Duration::from_millis(250);

/// Room for connections, and for their answers.
pub(super) struct Room {
    places: Arc<Semaphore>,
    answers: Arc<Answers>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Connections that may be cut, by standing, and then by how long they have had it: the longest
    /// is cut first. A notified connection is cut.
    open: [BTreeMap<(Instant, u64), Arc<Notify>>; STANDINGS],
    /// True while a client waits for a place.
    waits: bool,
    /// Number of clients so far.
    count: u64,
}

/// A client's place. Dropped, there is room for another.
pub(super) struct Seat {
    room: Arc<Room>,
    number: u64,
    stands: Option<(Standing, Instant)>,
    cut: Arc<Notify>,
    _place: OwnedSemaphorePermit,
}

impl Room {
    pub(super) fn new(places: usize, answers: Arc<Answers>) -> Arc<Self> {
        let places = Arc::new(Semaphore::new(places));
        Arc::new(Self { places, answers, state: Mutex::default() })
    }

    /// Waits for a place for a client, and has another cut if there is none.
    ///
    /// One client waits at a time.
    pub(super) async fn seat(self: &Arc<Self>) -> Seat {
        let place = match Arc::clone(&self.places).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => {
                self.make_room();
                let place = Arc::clone(&self.places).acquire_owned().await;
                place.expect("it is never closed")
            }
        };
        let mut state = self.lock();
        state.waits = false;
        state.count += 1;
        let number = state.count;
        drop(state);
        let cut = Arc::new(Notify::new());
        Seat { room: Arc::clone(self), number, stands: None, cut, _place: place }
    }

    /// Cuts the first that may be cut, now or once there is one.
    pub(super) fn make_room(&self) {
        let mut state = self.lock();
        state.waits = !state.cut_any();
    }

    /// Returns whether no place is left.
    pub(super) fn is_full(&self) -> bool {
        self.places.available_permits() == 0
    }

    /// Cuts clients that do not read for as long as memory for answers is waited for.
    pub(super) async fn relieve(&self) {
        loop {
            self.answers.short().await;
            self.free_memory();
        }
    }

    /// Cuts the client that has not read for longest, if an answer waits for memory. The next is
    /// cut once it has gone.
    fn free_memory(&self) {
        if self.answers.are_short() {
            self.lock().cut_first(Standing::Unread as usize..Standing::Unread as usize + 1);
        }
    }

    /// Waits until all `places` clients have gone.
    pub(super) async fn empty(&self, places: usize) {
        let all = u32::try_from(places).unwrap_or(u32::MAX);
        let _ = self.places.acquire_many(all).await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Cuts the first of all; `false` if there is none.
    fn cut_any(&mut self) -> bool {
        let longest = |standing: Standing| {
            let (&(since, _), _) = self.open[standing as usize].first_key_value()?;
            Some(since)
        };
        let first = match (longest(Standing::Silent), longest(Standing::Begins)) {
            (Some(silent), Some(begins)) if begins < silent && silent.elapsed() < GRACE => {
                Standing::Begins
            }
            _ => Standing::Silent,
        };
        self.cut_first(first as usize..STANDINGS)
    }

    /// Cuts the first client of these standings; `false` if there is none.
    fn cut_first(&mut self, standings: std::ops::Range<usize>) -> bool {
        let first = self.open[standings].iter_mut().find_map(BTreeMap::pop_first);
        first.inspect(|(_, cut)| cut.notify_one()).is_some()
    }
}

impl Seat {
    /// Returns the notification that cuts the client.
    pub(super) fn cut(&self) -> Arc<Notify> {
        Arc::clone(&self.cut)
    }

    /// The client stands so, since then; `None` if it must not be cut.
    pub(super) fn stands(&mut self, now: Option<(Standing, Instant)>) {
        if now == self.stands {
            return;
        }
        let mut state = self.room.lock();
        if let Some((standing, since)) = self.stands.take() {
            state.open[standing as usize].remove(&(since, self.number));
        }
        self.stands = now;
        let Some((standing, since)) = now else { return };
        state.open[standing as usize].insert((since, self.number), Arc::clone(&self.cut));
        if state.waits {
            state.waits = !state.cut_any();
        }
        drop(state);
        if standing == Standing::Unread {
            self.room.free_memory();
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.stands(None);
        self.room.free_memory();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt as _;

    use super::*;

    fn is_cut(seat: &Seat) -> bool {
        pin!(seat.cut.notified()).now_or_never().is_some()
    }

    #[test]
    fn who_was_granted_least_and_is_longest_so_is_cut_first() {
        use Standing::{Begins, Continues, Idle, Silent, Unread};
        let start = Instant::now();
        // Longer ago than the grace of new connections.
        let at = |ms| start - Duration::from_secs(10) + Duration::from_millis(ms);
        let order = [
            (Silent, at(5)),
            (Silent, at(6)),
            (Begins, at(1)),
            (Idle, at(2)),
            (Idle, at(3)),
            (Unread, at(0)),
            (Continues, at(0)),
        ];
        let room = Room::new(order.len() + 1, Answers::new(1));
        let mut seats: Vec<_> = order.iter().map(|_| room.seat().now_or_never().unwrap()).collect();
        let mut answered = room.seat().now_or_never().unwrap();
        answered.stands(Some((Silent, start)));
        answered.stands(None);
        for (seat, stands) in seats.iter_mut().zip(order).rev() {
            seat.stands(Some(stands));
        }
        assert!(room.is_full());
        for (place, stands) in order.iter().enumerate() {
            room.make_room();
            assert!(is_cut(&seats[place]), "{stands:?}");
            assert!(!seats.iter().any(is_cut) && !is_cut(&answered));
        }
        // The next that may be cut is.
        room.make_room();
        answered.stands(Some((Continues, at(9))));
        assert!(is_cut(&answered));
    }

    #[test]
    fn who_has_just_connected_is_not_cut_before_requests_that_began_earlier() {
        let start = Instant::now();
        let room = Room::new(4, Answers::new(1));
        let mut seats: Vec<_> = (0..4).map(|_| room.seat().now_or_never().unwrap()).collect();
        // However long this test takes, the third has just connected.
        let just = start + Duration::from_secs(3_600);
        let stands = [
            (Standing::Begins, start),
            (Standing::Continues, start),
            (Standing::Silent, just),
            (Standing::Begins, just + Duration::from_millis(1)),
        ];
        for (seat, stands) in seats.iter_mut().zip(stands) {
            seat.stands(Some(stands));
        }
        for cut in [0, 2, 3, 1] {
            room.make_room();
            assert_eq!(seats.iter().position(is_cut), Some(cut));
        }
    }

    #[test]
    fn who_waits_is_seated_once_another_has_gone() {
        let room = Room::new(1, Answers::new(1));
        let mut first = room.seat().now_or_never().unwrap();
        let mut waits = pin!(room.seat());
        assert!(waits.as_mut().now_or_never().is_none());
        assert!(!is_cut(&first));
        first.stands(Some((Standing::Silent, Instant::now())));
        assert!(is_cut(&first));
        drop(first);
        let mut second = waits.now_or_never().unwrap();
        second.stands(Some((Standing::Silent, Instant::now())));
        assert!(!is_cut(&second), "nobody waits");
    }

    #[test]
    fn who_does_not_read_is_cut_while_memory_is_waited_for() {
        let answers = Answers::new(10);
        let room = Room::new(9, Arc::clone(&answers));
        let mut seats: Vec<_> = (0..2).map(|_| room.seat().now_or_never().unwrap()).collect();
        let start = Instant::now();
        let held = answers.hold(10).now_or_never().unwrap();
        seats[0].stands(Some((Standing::Unread, start)));
        assert!(!is_cut(&seats[0]));
        let mut waits = pin!(answers.hold(1));
        assert!(waits.as_mut().now_or_never().is_none());
        seats[1].stands(Some((Standing::Unread, start + Duration::from_millis(1))));
        assert!(is_cut(&seats[0]) && !is_cut(&seats[1]));
        seats.remove(0);
        assert!(is_cut(&seats[0]), "the next, as there is still no memory");
        drop(held);
        assert!(waits.now_or_never().is_some());
    }
}
