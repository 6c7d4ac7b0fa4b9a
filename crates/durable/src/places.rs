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
/// store, separated by spaces.
///
/// # Examples
///
/// ```
/// use tourbillon_durable::{Place, Places};
///
/// let mut places = Places::evenly(["east", "west"])?;
/// assert_eq!(places.to_string(), "0-511=east 512-1023=west");
///
/// places.put(Place::new(3).unwrap(), "west")?;
/// let read: Places = "0-2=east 3=west 4-511=east 512-1023=west".parse()?;
/// assert_eq!(read, places);
/// assert_eq!(read.store(Place::new(3).unwrap()), "west");
/// # Ok::<(), tourbillon_durable::StoreError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Places {
    /// Names of stores, each once.
    stores: Vec<String>,
    /// Index in `stores` of each place's.
    of: Box<[u16; PLACES as usize]>,
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
        let of = Box::new(std::array::from_fn(share));
        Ok(Self { stores, of })
    }

    /// Name of the store that `place` is on.
    pub fn store(&self, place: Place) -> &str {
        &self.stores[usize::from(self.of[usize::from(place.number())])]
    }

    /// Names of all stores that have a place.
    pub fn stores(&self) -> impl Iterator<Item = &str> {
        self.stores.iter().map(|store| &**store)
    }

    /// Puts `place` on another store. Moves no timers.
    ///
    /// # Errors
    ///
    /// [`Invalid`](StoreErrorKind::Invalid) for a name as in [`evenly`](Self::evenly).
    pub fn put(&mut self, place: Place, store: &str) -> Result<(), StoreError> {
        check(store)?;
        let mut names: Vec<String> =
            (0..PLACES).filter_map(Place::new).map(|place| self.store(place).to_owned()).collect();
        store.clone_into(&mut names[usize::from(place.number())]);
        *self = Self::of_names(names);
        Ok(())
    }

    /// Makes the map in which the place of each number has the store of that index.
    fn of_names(names: Vec<String>) -> Self {
        let (mut stores, mut of) = (Vec::new(), Box::new([0; PLACES as usize]));
        for (name, at) in names.into_iter().zip(of.iter_mut()) {
            let found = stores.iter().position(|store| *store == name);
            *at = found.unwrap_or(stores.len()) as u16;
            if found.is_none() {
                stores.push(name);
            }
        }
        Self { stores, of }
    }
}

impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = 0;
        for range in self.of.chunk_by(|one, other| one == other) {
            let (last, store) = (first + range.len() - 1, &self.stores[usize::from(range[0])]);
            let space = if first == 0 { "" } else { " " };
            match range.len() {
                1 => write!(f, "{space}{first}={store}")?,
                _ => write!(f, "{space}{first}-{last}={store}")?,
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
            let (range, store) = part.split_once('=').ok_or_else(unread)?;
            check(store)?;
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let number = |text: &str| text.parse::<usize>().map_err(|_| unread());
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(unread());
            }
            for name in names.get_mut(first..=last).ok_or_else(unread)? {
                if name.replace(store.to_owned()).is_some() {
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
            map.put(Place::new(place).unwrap(), store).unwrap();
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
