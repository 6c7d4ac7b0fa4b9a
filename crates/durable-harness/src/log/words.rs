//! Fields of a line as words.

use std::fmt;

use tourbillon_durable::{NodeId, ScheduleId, Time, TimerId};

use super::{Label, Stamp};

/// A field of a [`Line`](super::Line), as one word.
pub(super) trait Word: Sized {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
    fn read(word: &str) -> Option<Self>;
}

macro_rules! words {
    ($($type:ty),*) => { $(
        impl Word for $type {
            fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }

            fn read(word: &str) -> Option<Self> {
                word.parse().ok()
            }
        }
    )* };
}

words!(u32, u64, i64, bool, String, NodeId, ScheduleId, TimerId);

impl Word for Stamp {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }

    fn read(word: &str) -> Option<Self> {
        word.parse().ok().map(Self)
    }
}

impl Word for Time {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_micros())
    }

    fn read(word: &str) -> Option<Self> {
        word.parse().ok().map(Self::from_micros)
    }
}

impl Word for Label {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.node, self.start)
    }

    fn read(word: &str) -> Option<Self> {
        let (node, start) = word.split_once('.')?;
        Some(Self { node: node.parse().ok()?, start: start.parse().ok()? })
    }
}

impl<T: Word> Word for Option<T> {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(value) = self { value.write(f) } else { f.write_str("-") }
    }

    fn read(word: &str) -> Option<Self> {
        if word == "-" { Some(None) } else { T::read(word).map(Some) }
    }
}

impl<T: Word> Word for Vec<T> {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (place, value) in self.iter().enumerate() {
            f.write_str(if place == 0 { "" } else { "," })?;
            value.write(f)?;
        }
        f.write_str("]")
    }

    fn read(word: &str) -> Option<Self> {
        let inner = word.strip_prefix('[')?.strip_suffix(']')?;
        inner.split_terminator(',').map(T::read).collect()
    }
}

macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident {
        $($(#[$each:meta])* $variant:ident = $text:literal,)*
    })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$each])* $variant,)*
        }

        impl Word for $name {
            fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $text,)* })
            }

            fn read(word: &str) -> Option<Self> {
                match word { $($text => Some(Self::$variant),)* _ => None }
            }
        }
    )* };
}

pub(super) use choices;
