//! Spans as text, exactly: `90s`, `1500ms`, `1us`.

use std::time::Duration;

/// Units, the largest first, each with its nanoseconds.
const UNITS: [(&str, u128); 4] =
    [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// Writes a span in the largest unit that has a whole number of it.
pub(crate) fn write(span: Duration) -> String {
    let nanos = span.as_nanos();
    let whole = UNITS.iter().find(|(_, unit)| nanos % unit == 0);
    whole.map_or_else(String::new, |(name, unit)| format!("{}{name}", nanos / unit))
}

/// Reads a span; `None` if the text is not a span, or exceeds a [`Duration`].
pub(crate) fn read(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|char: char| !char.is_ascii_digit());
    let (_, unit) = UNITS.iter().find(|(name, _)| *name == &text[digits.len()..])?;
    let nanos = digits.parse::<u128>().ok()?.checked_mul(*unit)?;
    let second = UNITS[0].1;
    Some(Duration::new(u64::try_from(nanos / second).ok()?, (nanos % second) as u32))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{read, write};

    #[test]
    fn every_span_is_read_as_it_was_written() {
        let mut random = fastrand::Rng::with_seed(9);
        let spans = (0..10_000).map(|_| {
            let seconds = random.u64(..) >> random.u32(0..64);
            let nanos = [0, 1, 1_000, 1_000_000][random.usize(0..4)] * random.u32(0..1_000);
            Duration::new(seconds, nanos)
        });
        for span in spans.chain([Duration::ZERO, Duration::MAX]) {
            assert_eq!(read(&write(span)), Some(span));
        }
        let written = [0, 1, 1_500, 90_000].map(|millis| write(Duration::from_millis(millis)));
        assert_eq!(written, ["0s", "1ms", "1500ms", "90s"]);
    }

    #[test]
    fn what_is_no_span_is_refused() {
        for text in ["", "s", "1", "1m", "-1s", "1.5s", "1 s", "18446744073709551616s", "é"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
