//! Fields of a line as words.

use std::fmt;

use tourbillon_durable::{NodeId, ScheduleId, Time, TimerId};

use super::{Label, Op, Stamp};

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

impl Word for Op {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Once(at) => write!(f, "once@{}", at.as_micros()),
            Self::Cancel => f.write_str("cancel"),
            Self::Reschedule(to) => write!(f, "reschedule@{}", to.as_micros()),
            Self::Every(period, slack) => {
                write!(f, "every@{period}@")?;
                slack.write(f)
            }
            Self::Enable(on) => write!(f, "enable@{on}"),
        }
    }

    fn read(word: &str) -> Option<Self> {
        let (tag, value) = word.split_once('@').unwrap_or((word, ""));
        Some(match tag {
            "once" => Self::Once(Word::read(value)?),
            "cancel" => Self::Cancel,
            "reschedule" => Self::Reschedule(Word::read(value)?),
            "every" => {
                let (period, slack) = value.split_once('@')?;
                Self::Every(Word::read(period)?, Word::read(slack)?)
            }
            "enable" => Self::Enable(Word::read(value)?),
            _ => return None,
        })
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
