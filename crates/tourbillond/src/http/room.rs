//! [`Room`]: limits connected clients and the memory of their requests, and cuts one when another
//! needs its place, or all together have sent too much.

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

/// Memory of all requests that are not complete, in bytes.
const REQUESTS_MAX: usize = 32 << 20;

/// Room for connections, for their requests, and for their answers.
pub(super) struct Room {
    places: Arc<Semaphore>,
    answers: Arc<Answers>,
    state: Mutex<Connections>,
}

#[derive(Default)]
struct Connections {
    /// Connections that may be cut, by standing, and then by how long they have had it: the longest
    /// is cut first. A notified connection is cut.
    open: [BTreeMap<(Instant, u64), Open>; STANDINGS],
    /// Bytes of all requests in `open`.
    taken: usize,
    /// True while a client waits for a place.
    waits: bool,
    /// Number of clients so far.
    count: u64,
}

/// A connection that may be cut.
struct Open {
    cut: Arc<Notify>,
    /// Bytes of a request that is not complete.
    taken: usize,
}

/// A client's place. Dropped, there is room for another.
pub(super) struct Seat {
    room: Arc<Room>,
    number: u64,
    stands: Option<(Standing, Instant)>,
    taken: usize,
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
        Seat { room: Arc::clone(self), number, stands: None, taken: 0, cut, _place: place }
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

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connections {
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
        let Some((_, open)) = first else { return false };
        self.taken -= open.taken;
        open.cut.notify_one();
        true
    }

    /// Cuts clients whose requests are not complete, strangers first, until the requests of the
    /// others have room.
    fn make_room_for_requests(&mut self) {
        for standing in [Standing::Begins, Standing::Continues] {
            let standing = standing as usize;
            while self.taken > REQUESTS_MAX && self.cut_first(standing..standing + 1) {}
        }
    }
}

impl Seat {
    /// Returns the notification that cuts the client.
    pub(super) fn cut(&self) -> Arc<Notify> {
        Arc::clone(&self.cut)
    }

    /// The client stands so, since then, and has sent so many bytes of a request that is not
    /// complete; `None` if it must not be cut.
    pub(super) fn stands(&mut self, now: Option<(Standing, Instant)>, taken: usize) {
        let taken = now.map_or(0, |_| taken);
        if (now, taken) == (self.stands, self.taken) {
            return;
        }
        let mut state = self.room.lock();
        if let Some((standing, since)) = self.stands.take() {
            let open = state.open[standing as usize].remove(&(since, self.number));
            state.taken -= open.map_or(0, |open| open.taken);
        }
        (self.stands, self.taken) = (now, taken);
        let Some((standing, since)) = now else { return };
        let open = Open { cut: Arc::clone(&self.cut), taken };
        state.open[standing as usize].insert((since, self.number), open);
        state.taken += taken;
        state.make_room_for_requests();
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
        self.stands(None, 0);
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
        answered.stands(Some((Silent, start)), 0);
        answered.stands(None, 0);
        for (seat, stands) in seats.iter_mut().zip(order).rev() {
            seat.stands(Some(stands), 0);
        }
        assert!(room.is_full());
        for (place, stands) in order.iter().enumerate() {
            room.make_room();
            assert!(is_cut(&seats[place]), "{stands:?}");
            assert!(!seats.iter().any(is_cut) && !is_cut(&answered));
        }
        // The next that may be cut is.
        room.make_room();
        answered.stands(Some((Continues, at(9))), 0);
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
            seat.stands(Some(stands), 0);
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
        first.stands(Some((Standing::Silent, Instant::now())), 0);
        assert!(is_cut(&first));
        drop(first);
        let mut second = waits.now_or_never().unwrap();
        second.stands(Some((Standing::Silent, Instant::now())), 0);
        assert!(!is_cut(&second), "nobody waits");
    }

    #[test]
    fn who_does_not_read_is_cut_while_memory_is_waited_for() {
        let answers = Answers::new(10);
        let room = Room::new(9, Arc::clone(&answers));
        let mut seats: Vec<_> = (0..2).map(|_| room.seat().now_or_never().unwrap()).collect();
        let start = Instant::now();
        let held = answers.hold(10).now_or_never().unwrap();
        seats[0].stands(Some((Standing::Unread, start)), 0);
        assert!(!is_cut(&seats[0]));
        let mut waits = pin!(answers.hold(1));
        assert!(waits.as_mut().now_or_never().is_none());
        seats[1].stands(Some((Standing::Unread, start + Duration::from_millis(1))), 0);
        assert!(is_cut(&seats[0]) && !is_cut(&seats[1]));
        seats.remove(0);
        assert!(is_cut(&seats[0]), "the next, as there is still no memory");
        drop(held);
        assert!(waits.now_or_never().is_some());
    }

    #[test]
    fn requests_that_are_not_complete_share_memory_and_those_of_strangers_are_cut_first() {
        let room = Room::new(9, Answers::new(1));
        let mut seats: Vec<_> = (0..5).map(|_| room.seat().now_or_never().unwrap()).collect();
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let part = REQUESTS_MAX / 4;
        // They grow; a client that is being answered is not cut.
        for taken in [1, part] {
            seats[0].stands(Some((Standing::Continues, at(0))), taken);
            seats[1].stands(Some((Standing::Begins, at(2))), taken);
            seats[2].stands(Some((Standing::Begins, at(1))), taken);
            seats[3].stands(None, taken);
            seats[4].stands(Some((Standing::Idle, at(0))), 0);
        }
        assert!(!seats.iter().any(is_cut));
        seats[3].stands(Some((Standing::Begins, at(3))), part);
        assert!(!seats.iter().any(is_cut), "all of it is taken");
        seats[3].stands(Some((Standing::Begins, at(3))), part + 1);
        assert_eq!(seats.iter().position(is_cut), Some(2));
        // It has no part any more, whatever it says until it is gone.
        seats.remove(2);
        seats[2].stands(Some((Standing::Begins, at(3))), 2 * part);
        assert!(!seats.iter().any(is_cut));
        seats[0].stands(Some((Standing::Continues, at(0))), 4 * part);
        let cut: Vec<_> = seats.iter().map(is_cut).collect();
        assert_eq!(cut, [false, true, true, false], "strangers, and that is enough");
    }
}
