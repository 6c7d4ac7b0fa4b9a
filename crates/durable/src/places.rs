//! [`Places`]: which store each place is on.

use std::fmt;
use std::str::FromStr;

use crate::error::{StoreError, StoreErrorKind};
use crate::id::{PLACES, Place};

/// Longest name of a store, in bytes.
const NAME_MAX: usize = 63;

/// Map from each [`Place`] to the name of the store that it is on.
///
/// It is written as text, for a configuration: ranges of places in their order, each with its
/// store, separated by spaces. A place that is on its way to another store has both:
/// `512=east>west`.
///
/// # Examples
///
/// ```
/// use tourbillon_durable::{Place, Places};
///
/// let mut places = Places::evenly(["east", "west"])?;
/// assert_eq!(places.to_string(), "0-511=east 512-1023=west");
///
/// let place = Place::new(3).unwrap();
/// places.begin_move(place, "west")?;
/// assert_eq!(places.to_string(), "0-2=east 3=east>west 4-511=east 512-1023=west");
/// assert_eq!((places.store(place), places.moving_to(place)), ("east", Some("west")));
///
/// places.put(place, "west")?;
/// let read: Places = "0-2=east 3=west 4-511=east 512-1023=west".parse()?;
/// assert_eq!(read, places);
/// # Ok::<(), tourbillon_durable::StoreError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Places {
    /// Names of stores, each once.
    stores: Vec<String>,
    /// Stores of each place.
    of: Box<[Seat; PLACES as usize]>,
}

/// Stores of a place, by their indices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Seat {
    store: u16,
    /// Store that it is on its way to.
    to: Option<u16>,
}

impl Places {
    /// Divides the places among stores into ranges whose sizes differ by one at most.
    ///
    /// # Errors
    ///
    /// [`Invalid`](StoreErrorKind::Invalid) if there is no store, or more than [`PLACES`], or if a
    /// name is given twice, or has anything but 1 to 63 of the characters `a` to `z`, `0` to `9`,
    /// `_` and `-`.
    pub fn evenly(stores: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, StoreError> {
        let stores: Vec<String> = stores.into_iter().map(Into::into).collect();
        for (n, store) in stores.iter().enumerate() {
            check(store)?;
            if stores[..n].contains(store) {
                return Err(invalid(format!("the store `{store}` is given twice")));
            }
        }
        if !(1..=usize::from(PLACES)).contains(&stores.len()) {
            let why = format!("{PLACES} places are on 1 to {PLACES} stores, not {}", stores.len());
            return Err(invalid(why));
        }
        let share = |place: usize| (place * stores.len() / usize::from(PLACES)) as u16;
        let of = Box::new(std::array::from_fn(|place| Seat { store: share(place), to: None }));
        Ok(Self { stores, of })
    }

    /// Name of the store that `place` is on; of the old one, while it is on its way.
    pub fn store(&self, place: Place) -> &str {
        &self.stores[usize::from(self.seat(place).store)]
    }

    /// Name of the store that `place` is on its way to; `None` if it stays where it is.
    pub fn moving_to(&self, place: Place) -> Option<&str> {
        self.seat(place).to.map(|to| &*self.stores[usize::from(to)])
    }

    /// Names of all stores that have a place, or that one is on its way to.
    pub fn stores(&self) -> impl Iterator<Item = &str> {
        self.stores.iter().map(|store| &**store)
    }

    /// Says that `place` is on its way to another store: a [`Router`](crate::Router) then writes
    /// nothing of it, and a [`Mover`](crate::Mover) moves it.
    ///
    /// # Errors
    ///
    /// [`Invalid`](StoreErrorKind::Invalid) for a name as in [`evenly`](Self::evenly), for that of
    /// the store which the place is on, or if it is on its way to another one.
    pub fn begin_move(&mut self, place: Place, to: &str) -> Result<(), StoreError> {
        check(to)?;
        let from = self.store(place).to_owned();
        check_move(&from, to)?;
        if let Some(other) = self.moving_to(place).filter(|other| *other != to) {
            return Err(invalid(format!("the place is on its way to the store `{other}`")));
        }
        self.set(place, (from, Some(to.to_owned())));
        Ok(())
    }

    /// Puts `place` on another store, and ends its way there. Moves no timers: a
    /// [`Mover`](crate::Mover) does. A place whose mover has begun is put on the new store, and
    /// only once the mover is [`Done`](crate::Progress::Done).
    ///
    /// # Errors
    ///
    /// [`Invalid`](StoreErrorKind::Invalid) for a name as in [`evenly`](Self::evenly).
    pub fn put(&mut self, place: Place, store: &str) -> Result<(), StoreError> {
        check(store)?;
        self.set(place, (store.to_owned(), None));
        Ok(())
    }

    fn seat(&self, place: Place) -> Seat {
        self.of[usize::from(place.number())]
    }

    fn set(&mut self, place: Place, names: Names) {
        let names_of =
            |place| (self.store(place).to_owned(), self.moving_to(place).map(str::to_owned));
        let mut all: Vec<Names> = (0..PLACES).filter_map(Place::new).map(names_of).collect();
        all[usize::from(place.number())] = names;
        *self = Self::of_names(all);
    }

    /// Makes the map in which the place of each number has the stores of that index.
    fn of_names(names: Vec<Names>) -> Self {
        let mut stores: Vec<String> = Vec::new();
        let mut of = Box::new([Seat::default(); PLACES as usize]);
        let mut index = |name: String| {
            let found = stores.iter().position(|store| *store == name).unwrap_or(stores.len());
            if found == stores.len() {
                stores.push(name);
            }
            found as u16
        };
        for ((store, to), seat) in names.into_iter().zip(of.iter_mut()) {
            *seat = Seat { store: index(store), to: to.map(&mut index) };
        }
        Self { stores, of }
    }
}

/// Store of a place, and the one that it is on its way to.
type Names = (String, Option<String>);

impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = 0;
        for range in self.of.chunk_by(|one, other| one == other) {
            let (last, seat) = (first + range.len() - 1, range[0]);
            let space = if first == 0 { "" } else { " " };
            let store = &self.stores[usize::from(seat.store)];
            match range.len() {
                1 => write!(f, "{space}{first}={store}")?,
                _ => write!(f, "{space}{first}-{last}={store}")?,
            }
            if let Some(to) = seat.to {
                write!(f, ">{}", self.stores[usize::from(to)])?;
            }
            first = last + 1;
        }
        Ok(())
    }
}

impl FromStr for Places {
    type Err = StoreError;

    /// Reads what [`Display`](fmt::Display) writes. The ranges are in any order, and have each
    /// place once.
    fn from_str(text: &str) -> Result<Self, StoreError> {
        let mut names = vec![None; usize::from(PLACES)];
        for part in text.split_whitespace() {
            let unread = || invalid(format!("`{part}` is no range of places with a store"));
            let (range, stores) = part.split_once('=').ok_or_else(unread)?;
            let (store, to) = match stores.split_once('>') {
                None => (stores, None),
                Some((store, to)) => (store, Some(to)),
            };
            check(store)?;
            if let Some(to) = to {
                check(to)?;
                check_move(store, to)?;
            }
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let number = |text: &str| text.parse::<usize>().map_err(|_| unread());
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(unread());
            }
            for name in names.get_mut(first..=last).ok_or_else(unread)? {
                if name.replace((store.to_owned(), to.map(str::to_owned))).is_some() {
                    return Err(invalid(format!(
                        "`{part}` has a place that is on a store already"
                    )));
                }
            }
        }
        let missing = names.iter().position(Option::is_none);
        if let Some(place) = missing {
            return Err(invalid(format!("the place {place} is on no store")));
        }
        Ok(Self::of_names(names.into_iter().flatten().collect()))
    }
}

fn check_move(from: &str, to: &str) -> Result<(), StoreError> {
    if from == to {
        return Err(invalid(format!("the store `{to}` has the place already")));
    }
    Ok(())
}

fn check(name: &str) -> Result<(), StoreError> {
    let is_good = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-'
    };
    if (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(is_good) {
        return Ok(());
    }
    let why = format!(
        "a store's name has 1 to {NAME_MAX} of the characters a to z, 0 to 9, _ and -: not `{name}`"
    );
    Err(invalid(why))
}

fn invalid(why: String) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, why)
}

#[cfg(test)]
mod tests {
    use super::Places;
    use crate::id::{PLACES, Place};

    fn places() -> impl Iterator<Item = Place> {
        (0..PLACES).filter_map(Place::new)
    }

    #[test]
    fn places_are_divided_evenly() {
        for count in [1, 2, 3, 7, 1_024] {
            let map = Places::evenly((0..count).map(|n| format!("s{n}"))).unwrap();
            let counts = map
                .stores()
                .map(|store| places().filter(|place| map.store(*place) == store).count());
            let counts: Vec<_> = counts.collect();
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(most - least <= 1, "{count}: {counts:?}");
            assert_eq!(counts.iter().sum::<usize>(), 1_024);
        }
    }

    #[test]
    fn a_map_is_read_as_it_is_written() {
        let mut map = Places::evenly(["a", "b", "c"]).unwrap();
        assert_eq!(map.to_string().parse::<Places>().unwrap(), map);
        for (place, store) in [(0, "c"), (5, "d-2"), (6, "d-2"), (1_023, "a")] {
            let place = Place::new(place).unwrap();
            map.begin_move(place, store).unwrap();
            assert_eq!(map.to_string().parse::<Places>().unwrap(), map);
            map.put(place, store).unwrap();
            assert_eq!(map.to_string().parse::<Places>().unwrap(), map);
        }
        let text = "0=c 1-4=a 5-6=d-2 7-341=a 342-682=b 683-1022=c 1023=a";
        assert_eq!(map.to_string(), text);
        let backwards = text.split(' ').rev().collect::<Vec<_>>().join("\n");
        assert_eq!(backwards.parse::<Places>().unwrap().to_string(), text);
    }

    #[test]
    fn a_store_without_a_place_is_none_of_the_map() {
        let mut map: Places = "0=a 1-1023=b".parse().unwrap();
        map.put(Place::new(0).unwrap(), "b").unwrap();
        assert_eq!(map.stores().collect::<Vec<_>>(), ["b"]);
        assert_eq!(map.to_string(), "0-1023=b");
    }

    #[test]
    fn a_place_on_its_way_has_both_stores() {
        let mut map: Places = "0-1023=east".parse().unwrap();
        for place in [512, 513] {
            map.begin_move(Place::new(place).unwrap(), "west").unwrap();
        }
        assert_eq!(map.to_string(), "0-511=east 512-513=east>west 514-1023=east");
        let on_its_way = Place::new(513).unwrap();
        assert_eq!((map.store(on_its_way), map.moving_to(on_its_way)), ("east", Some("west")));
        assert_eq!(map.moving_to(Place::new(514).unwrap()), None);
        assert_eq!(map.stores().collect::<Vec<_>>(), ["east", "west"]);
        for other in ["east", "north"] {
            map.begin_move(on_its_way, other).unwrap_err();
        }
        map.begin_move(on_its_way, "west").unwrap();
        assert_eq!(map.moving_to(on_its_way), Some("west"));
    }

    #[test]
    fn a_map_that_leaves_a_place_or_has_it_twice_is_refused() {
        let texts = [
            "",
            "0-1022=a",
            "1-1023=a",
            "0-1024=a",
            "0-1023=",
            "0-1023=A",
            "0-1023",
            "9-3=a",
            "0-1023=a 3=b",
            "x-1023=a",
            "0-1023=a b",
            "-1-1023=a",
            "0-1023=a>",
            "0-1023=a>a",
            "0-1023=a>b>c",
        ];
        for text in texts {
            text.parse::<Places>().unwrap_err();
        }
        for stores in [&["a", "a"][..], &[], &["A"], &["a", ""]] {
            Places::evenly(stores.iter().copied()).unwrap_err();
        }
        Places::evenly((0..=PLACES).map(|n| format!("s{n}"))).unwrap_err();
    }
}
