//! One field of an expression, read and written out in the plainest form.

use std::fmt::Write;

use crate::error::{Field, ParseError, ParseErrorKind};

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const DAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// A field that was understood.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    /// Begins with `*` or is `?`. Two rules depend on this: whether times are fixed (cron(8)), and
    /// whether a day has to suit either of its two fields or both (crontab(5)).
    pub(crate) is_starred: bool,
    /// Values with a bit each. Sunday is 0.
    plain: u64,
    /// `L`, `LW`, `15W`, `5#L`, `5#3`, as croner spells them.
    special: Vec<String>,
    /// The offsets of `L-3`, with a bit each. croner does not know them.
    before_last: u64,
    all: u64,
}

impl Values {
    /// Returns whether any value suits, and the field begins with `*`.
    pub(crate) fn is_any(&self) -> bool {
        self.is_starred && self.plain == self.all
    }

    /// Returns whether there is an `L-3`, and it makes a difference.
    pub(crate) fn counts_from_last(&self) -> bool {
        self.before_last != 0 && !self.is_any()
    }

    /// A day of month for the months with so many days, including the days of `L-3` there.
    pub(crate) fn of_months_with(mut self, days: u8) -> Self {
        let counted = (1..days).filter(|offset| self.before_last >> offset & 1 == 1);
        self.plain |= counted.fold(0, |bits, offset| bits | 1 << (days - offset));
        if self.plain == 0 && self.special.is_empty() {
            // These months lack the day: only months of 31 days have a day for each offset.
            self.plain = 1 << 31;
        }
        self
    }

    /// These values, as far as they are among `wanted`.
    pub(crate) fn within(mut self, wanted: &[u8]) -> Option<Self> {
        self.plain &= wanted.iter().fold(0, |bits, value| bits | 1 << value);
        (self.plain != 0).then_some(self)
    }

    /// The field for croner: a list without names, ranges or steps.
    pub(crate) fn write(&self, to: &mut String) {
        if self.is_any() {
            to.push('*');
            return;
        }
        let start = to.len();
        for value in (0..64).filter(|value| self.plain >> value & 1 == 1) {
            // Writing to a string does not fail.
            let _ = write!(to, "{value},");
        }
        for special in &self.special {
            to.push_str(special);
            to.push(',');
        }
        debug_assert!(to.len() > start, "a field without values");
        to.pop();
    }
}

/// Reader of one field, with the values that it may hold.
struct Reader {
    field: Field,
    min: u8,
    max: u8,
    names: &'static [&'static str],
}

/// Reads `text`, which begins `start` bytes into the expression.
pub(crate) fn parse(field: Field, text: &str, start: usize) -> Result<Values, ParseError> {
    let (min, max, names): (_, _, &[_]) = match field {
        Field::Second | Field::Minute => (0, 59, &[]),
        Field::Hour => (0, 23, &[]),
        Field::DayOfMonth => (1, 31, &[]),
        Field::Month => (1, 12, &MONTHS),
        Field::DayOfWeek => (0, 7, &DAYS),
        Field::Zone => unreachable!("a zone has no values"),
    };
    let reader = Reader { field, min, max, names };
    let last = if field == Field::DayOfWeek { 6 } else { max };
    let mut values = Values {
        is_starred: text.starts_with('*') || reader.is_any(text),
        plain: 0,
        special: Vec::new(),
        before_last: 0,
        all: bits(min, last, 1),
    };
    let mut at = start;
    for item in text.split(',') {
        reader.item(item, at, &mut values)?;
        at += item.len() + 1;
    }
    if field == Field::DayOfWeek && values.plain >> 7 & 1 == 1 {
        values.plain = values.plain & !(1 << 7) | 1;
    }
    let has = |word| values.special.iter().any(|special| special == word);
    if has("L") && has("LW") {
        // croner would forget the `L`.
        return Err(ParseError::new(ParseErrorKind::TwoLastDays, field, text, start));
    }
    Ok(values)
}

fn bits(from: u8, to: u8, step: usize) -> u64 {
    (from..=to).step_by(step).fold(0, |bits, value| bits | 1 << value)
}

impl Reader {
    fn error(&self, kind: ParseErrorKind, found: &str, at: usize) -> ParseError {
        ParseError::new(kind, self.field, found, at)
    }

    fn is_any(&self, text: &str) -> bool {
        text == "*" || text == "?" && matches!(self.field, Field::DayOfMonth | Field::DayOfWeek)
    }

    /// Reads an item of a list.
    fn item(&self, item: &str, at: usize, values: &mut Values) -> Result<(), ParseError> {
        let (base, step) = match item.split_once('/') {
            None => (item, None),
            Some((base, step)) => (base, Some(self.step(step, at + base.len() + 1)?)),
        };
        let before_last = self.before_last(base, at)?;
        let from_to = if before_last.is_some() {
            None
        } else if self.is_any(base) {
            Some((self.min, self.max))
        } else if let Some((from, to)) = base.split_once('-') {
            Some(self.range(base, from, to, at)?)
        } else {
            None
        };
        if let Some((from, to)) = from_to {
            values.plain |= bits(from, to, step.unwrap_or(1));
        } else if let Some(offset) = before_last {
            values.before_last |= 1 << offset;
        } else if let Some(special) = self.special(base, at)? {
            values.special.push(special);
        } else {
            values.plain |= 1 << self.value(base, at)?;
        }
        if from_to.is_none() && step.is_some() {
            return Err(self.error(ParseErrorKind::StepWithoutRange, item, at));
        }
        Ok(())
    }

    fn range(&self, base: &str, from: &str, to: &str, at: usize) -> Result<(u8, u8), ParseError> {
        let start = self.value(from, at)?;
        let mut end = self.value(to, at + from.len() + 1)?;
        if self.field == Field::DayOfWeek && end == 0 && start > 0 {
            end = 7;
        }
        if start > end {
            return Err(self.error(ParseErrorKind::Reversed, base, at));
        }
        Ok((start, end))
    }

    fn step(&self, text: &str, at: usize) -> Result<usize, ParseError> {
        if is_number(text) && text.bytes().any(|digit| digit != b'0') {
            // A step past the end leaves the first value, however large it is.
            return Ok(text.parse().unwrap_or(usize::MAX));
        }
        Err(self.error(ParseErrorKind::BadStep, text, at))
    }

    /// The 3 of `L-3`.
    fn before_last(&self, text: &str, at: usize) -> Result<Option<u8>, ParseError> {
        match text.split_once('-') {
            Some((last, offset))
                if self.field == Field::DayOfMonth && last.eq_ignore_ascii_case("L") =>
            {
                let offsets = Self { field: self.field, min: 1, max: 30, names: &[] };
                offsets.value(offset, at + last.len() + 1).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// `L`, `LW` and `15W`, or `5L` and `5#3`.
    fn special(&self, text: &str, at: usize) -> Result<Option<String>, ParseError> {
        let upper = text.to_ascii_uppercase();
        if self.field == Field::DayOfMonth {
            if upper == "L" || upper == "LW" {
                return Ok(Some(upper));
            }
            if upper.ends_with('W') {
                let day = self.value(&text[..text.len() - 1], at)?;
                return Ok(Some(format!("{day}W")));
            }
        }
        if self.field == Field::DayOfWeek {
            if let Some((day, nth)) = text.split_once('#') {
                let (day, at) = (self.value(day, at)? % 7, at + day.len() + 1);
                if nth.eq_ignore_ascii_case("L") {
                    return Ok(Some(format!("{day}#L")));
                }
                let weeks = Self { field: self.field, min: 1, max: 5, names: &[] };
                return weeks.value(nth, at).map(|nth| Some(format!("{day}#{nth}")));
            }
            if upper.len() > 1 && upper.ends_with('L') {
                let day = self.value(&text[..text.len() - 1], at)? % 7;
                return Ok(Some(format!("{day}#L")));
            }
        }
        Ok(None)
    }

    fn value(&self, text: &str, at: usize) -> Result<u8, ParseError> {
        if text.is_empty() {
            return Err(self.error(ParseErrorKind::Empty, text, at));
        }
        if let Some(place) = self.names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
            // A field with names has them from its first value on; there are twelve at most.
            return Ok(self.min + u8::try_from(place).unwrap_or(u8::MAX));
        }
        if !is_number(text) {
            return Err(self.error(ParseErrorKind::NotAValue, text, at));
        }
        let (min, max) = (self.min, self.max);
        text.parse()
            .ok()
            .filter(|value| (min..=max).contains(value))
            .ok_or_else(|| self.error(ParseErrorKind::OutOfRange { min, max }, text, at))
    }
}

/// Digits alone: the standard library also parses a sign.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
