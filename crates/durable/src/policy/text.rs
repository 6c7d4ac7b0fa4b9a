//! [`Policies`] as text: `missed=coalesce on_time=60s overlap=allow jitter=0s attempts=10 first=1s
//! longest=300s`.

use std::fmt;
use std::str::FromStr;

use super::{Missed, Overlap, Policies, Retry};
use crate::span::{read, write};

impl fmt::Display for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.missed {
            Missed::Skip => f.write_str("missed=skip")?,
            Missed::Coalesce => f.write_str("missed=coalesce")?,
            Missed::CatchUp { max_count, max_age } => {
                write!(f, "missed=catch-up:{max_count}:{}", write(max_age))?;
            }
        }
        write!(f, " on_time={}", write(self.on_time_within))?;
        match self.overlap {
            Overlap::Allow => f.write_str(" overlap=allow")?,
            Overlap::Skip => f.write_str(" overlap=skip")?,
            Overlap::Queue { at_most } => write!(f, " overlap=queue:{at_most}")?,
        }
        let Retry { attempts, first, longest } = self.retry;
        let [jitter, first, longest] = [self.jitter, first, longest].map(write);
        write!(f, " jitter={jitter} attempts={attempts} first={first} longest={longest}")
    }
}

impl FromStr for Policies {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = Words { text, words: text.split(' ') };
        let policies = Self {
            missed: words.next("missed", missed)?,
            on_time_within: words.next("on_time", read)?,
            overlap: words.next("overlap", overlap)?,
            jitter: words.next("jitter", read)?,
            retry: Retry {
                attempts: words.next("attempts", number)?,
                first: words.next("first", read)?,
                longest: words.next("longest", read)?,
            },
        };
        match words.words.next() {
            None => Ok(policies),
            Some(word) => Err(PolicyError::new(text, word)),
        }
    }
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn missed(text: &str) -> Option<Missed> {
    match text.split_once(':') {
        None if text == "skip" => Some(Missed::Skip),
        None if text == "coalesce" => Some(Missed::Coalesce),
        Some(("catch-up", rest)) => {
            let (count, age) = rest.split_once(':')?;
            Some(Missed::CatchUp { max_count: number(count)?, max_age: read(age)? })
        }
        _ => None,
    }
}

fn overlap(text: &str) -> Option<Overlap> {
    match text.split_once(':') {
        None if text == "allow" => Some(Overlap::Allow),
        None if text == "skip" => Some(Overlap::Skip),
        Some(("queue", at_most)) => Some(Overlap::Queue { at_most: number(at_most)? }),
        _ => None,
    }
}

/// Words `key=value` of a text, in their order.
struct Words<'a> {
    text: &'a str,
    words: std::str::Split<'a, char>,
}

impl Words<'_> {
    fn next<T>(
        &mut self,
        key: &'static str,
        value: impl Fn(&str) -> Option<T>,
    ) -> Result<T, PolicyError> {
        let word = self.words.next().and_then(|word| word.strip_prefix(key)?.strip_prefix('='));
        word.and_then(value).ok_or_else(|| PolicyError::new(self.text, key))
    }
}

/// Error for a text that is no [`Policies`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    text: String,
    at: String,
}

impl PolicyError {
    fn new(text: &str, at: &str) -> Self {
        Self { text: text.to_owned(), at: at.to_owned() }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` are not valid policies: cannot read `{}`", self.text, self.at)
    }
}

impl std::error::Error for PolicyError {}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Missed, Overlap, Policies, Retry};

    fn any(random: &mut fastrand::Rng) -> Policies {
        let mut span =
            || Duration::new(random.u64(..) >> random.u32(0..64), random.u32(0..9) * 999);
        let [max_age, on_time_within, jitter, first, longest] = [(); 5].map(|()| span());
        let missed = match random.u8(0..3) {
            0 => Missed::Skip,
            1 => Missed::Coalesce,
            _ => Missed::CatchUp { max_count: random.u64(..), max_age },
        };
        let overlap = match random.u8(0..3) {
            0 => Overlap::Allow,
            1 => Overlap::Skip,
            _ => Overlap::Queue { at_most: random.u32(..) },
        };
        let retry = Retry::new(random.u32(..), first, longest);
        Policies { missed, on_time_within, overlap, jitter, retry }
    }

    #[test]
    fn policies_are_read_as_they_were_written() {
        let mut random = fastrand::Rng::with_seed(4);
        for _ in 0..10_000 {
            let policies = any(&mut random);
            assert_eq!(policies.to_string().parse(), Ok(policies));
        }
        assert_eq!(
            Policies::default().to_string(),
            "missed=coalesce on_time=60s overlap=allow jitter=0s attempts=10 first=1s longest=300s"
        );
    }

    #[test]
    fn an_error_names_the_word_that_cannot_be_read() {
        let text = Policies::default().to_string();
        for (old, new, at) in [
            ("coalesce", "sometimes", "missed"),
            ("coalesce", "catch-up:1", "missed"),
            ("overlap=allow", "overlap=queue:-1", "overlap"),
            ("jitter=0s", "jitter=0", "jitter"),
            ("attempts=10 ", "", "attempts"),
            ("300s", "300s more=1", "more=1"),
        ] {
            let error = text.replace(old, new).parse::<Policies>().unwrap_err();
            let expected = format!(": cannot read `{at}`");
            assert!(error.to_string().ends_with(&expected), "{error}");
        }
    }

    #[test]
    fn a_text_with_one_byte_changed_is_refused_or_reads_back() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..10_000 {
            let mut bytes = any(&mut random).to_string().into_bytes();
            let place = random.usize(0..bytes.len());
            bytes[place] = random.u8(b' '..=b'~');
            let text = String::from_utf8(bytes).unwrap();
            if let Ok(policies) = text.parse::<Policies>() {
                assert_eq!(policies.to_string().parse(), Ok(policies), "{text}");
            }
        }
    }
}
