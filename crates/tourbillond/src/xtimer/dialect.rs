//! XTimer's timers as definitions, and back: expressions, methods, headers and bodies.

use std::collections::BTreeMap;

use super::{NotifyHttpParam, TimerDef};
use crate::api::Problem;
use crate::model::{
    Bounds, Callback, CronWhen, Definition, Header, MASK, When, XTimer, is_sensitive,
};

const DAYS: [&str; 7] =
    ["SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY"];

const MONTHS: [&str; 12] = [
    "JANUARY",
    "FEBRUARY",
    "MARCH",
    "APRIL",
    "MAY",
    "JUNE",
    "JULY",
    "AUGUST",
    "SEPTEMBER",
    "OCTOBER",
    "NOVEMBER",
    "DECEMBER",
];

/// Lowest and highest value of each field, the seconds first.
const RANGES: [(u32, u32); 6] = [(0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];

/// Place of the day of the week in [`RANGES`].
const WEEKDAY: usize = 5;

/// Place of the day of the month, and of the day of the week.
const STARRED: [usize; 2] = [3, WEEKDAY];

/// Converts an expression of XTimer's parser, `cronexpr`, to our syntax.
///
/// A year comes last, with six fields or seven; further fields are ignored. `a/b` is `a-MAX/b`,
/// names may be written out, `*/b` restricts a day as any list does, and a 7 among the days of the
/// week is a 0 wherever it stands: `0-7` is Sundays alone.
///
/// # Errors
///
/// The field `cron`, if it has a year other than `*`, or a range of days of the week that ends
/// before it starts, such as `5-7`: XTimer takes it, and never runs it.
pub(super) fn translate(cron: &str) -> Result<String, Problem> {
    let cron = cron.trim();
    if cron == "@minutely" {
        return Ok("* * * * *".to_owned());
    }
    if cron.starts_with('@') {
        return Ok(cron.to_owned());
    }
    let mut fields: Vec<&str> = cron.split_whitespace().take(7).collect();
    if fields.len() >= 6 && !matches!(fields.pop(), Some("*" | "?" | "*/1")) {
        return Err(Problem::field("cron", "a year other than `*` cannot be given"));
    }
    let first = RANGES.len().saturating_sub(fields.len());
    let field = |(place, field): (usize, &&str)| {
        let part = |part: &str| translate_part(place + first, part);
        Ok(field.split(',').map(part).collect::<Result<Vec<_>, _>>()?.join(","))
    };
    Ok(fields.iter().enumerate().map(field).collect::<Result<Vec<_>, Problem>>()?.join(" "))
}

fn translate_part(place: usize, part: &str) -> Result<String, Problem> {
    let mut text = part.to_ascii_uppercase();
    for name in DAYS.iter().chain(&MONTHS) {
        text = text.replace(name, &name[..3]);
    }
    let Some((least, most)) = RANGES.get(place) else { return Ok(text) };
    if place == WEEKDAY {
        text = with_sunday_first(text)?;
    }
    Ok(match text.split_once('/') {
        None if text == "?" => "*".to_owned(),
        Some(("*", step)) if STARRED.contains(&place) => format!("{least}-{most}/{step}"),
        Some((first, step)) if first.parse::<u32>().is_ok() => format!("{first}-{most}/{step}"),
        _ => text,
    })
}

/// Writes 7 as 0 in an item of the days of the week.
fn with_sunday_first(item: String) -> Result<String, Problem> {
    let (range, step) = item.split_at(item.find('/').unwrap_or(item.len()));
    let place = |day: &str| DAYS.iter().position(|name| name[..3] == *day);
    let number = |day: &str| day.parse::<usize>().ok().or_else(|| place(day)).map(|day| day % 7);
    let Some((from, to)) = range.split_once('-') else {
        return Ok(if range == "7" { format!("0{step}") } else { item });
    };
    match (number(from), number(to)) {
        (Some(first), Some(last)) if first > last => {
            let why = format!("`{item}`: it ends before it starts, as Sunday is the first day");
            Err(Problem::field("cron", why))
        }
        (Some(first), Some(last)) if [from, to].contains(&"7") => {
            Ok(format!("{first}-{last}{step}"))
        }
        _ => Ok(item),
    }
}

/// Writes when a definition happens as an expression of XTimer's.
fn cron_of(when: &When) -> String {
    match when {
        // With the seconds, the year has to be there too.
        When::Cron(when) if when.cron.split_whitespace().count() == 6 => {
            format!("{} *", when.cron)
        }
        When::Cron(when) => when.cron.clone(),
        When::Every(when) => format!("@every {}", when.every),
        When::At(when) => when.at.clone(),
        When::After(when) => when.after.clone(),
    }
}

/// Writes a body as XTimer sends it, in the form of a template: a JSON string, and `null` by GET.
fn encode(method: &str, body: &str) -> String {
    if method == "GET" {
        return "null".to_owned();
    }
    let text = serde_json::to_string(body).expect("a text is written as JSON");
    text.replace("{{", "{{{{")
}

/// Reads the body that [`encode`] wrote; any other is shown as it is.
fn decode(method: &str, body: &str) -> String {
    let text = serde_json::from_str::<String>(&body.replace("{{{{", "{{"));
    text.ok().filter(|text| encode(method, text) == body).unwrap_or_else(|| body.to_owned())
}

impl TimerDef {
    /// Replaces a definition's fields by the given ones.
    ///
    /// # Errors
    ///
    /// The field `cron`.
    pub(super) fn apply(
        self,
        definition: &mut Definition,
        xtimer: &mut XTimer,
        zone: &str,
    ) -> Result<(), Problem> {
        let put = |new: &String, old: &mut String| {
            if !new.is_empty() {
                old.clone_from(new);
            }
        };
        put(&self.name, &mut xtimer.name);
        put(&self.creator, &mut xtimer.creator);
        if !self.cron.is_empty() {
            let zone = match &definition.when {
                When::Cron(when) => when.zone.clone(),
                _ => zone.to_owned(),
            };
            // XTimer has no bounds, so that it changes none.
            let bounds = definition.when.bounds().cloned().unwrap_or_default();
            definition.when = When::Cron(CronWhen { cron: translate(&self.cron)?, zone, bounds });
            xtimer.cron = self.cron;
        }
        if let Some(notify) = self.notify_http_param {
            let method = notify.method.to_ascii_uppercase();
            let mut header = notify.header.unwrap_or_default();
            let lines = header.iter().filter(|(_, values)| !values.is_empty());
            definition.callback.headers =
                lines.map(|(name, values)| (name.clone(), values.join(", ").into())).collect();
            // Hidden lines stay; lines that no longer count are passed over.
            for (name, lines) in header.iter_mut().filter(|(_, lines)| **lines == [MASK]) {
                *lines = xtimer.header.remove(name).unwrap_or_default();
            }
            definition.callback.url = notify.url;
            definition.callback.body = encode(&method, &notify.body);
            xtimer.body = if method == "GET" { notify.body } else { String::new() };
            definition.callback.method = method;
            (xtimer.method, xtimer.header) = (notify.method, header);
        }
        if self.status != 0 {
            definition.enabled = self.status == 2;
        }
        Ok(())
    }

    /// Returns a timer as XTimer shows it.
    pub(super) fn of(
        (app, id): (&str, u64),
        is_enabled: bool,
        definition: &Definition,
        xtimer: &XTimer,
    ) -> Self {
        let is_same = match &definition.when {
            When::Cron(when) => translate(&xtimer.cron).is_ok_and(|cron| cron == when.cron),
            _ => false,
        };
        Self {
            id,
            app: xtimer.app.clone().unwrap_or_else(|| app.to_owned()),
            name: xtimer.name.clone(),
            creator: xtimer.creator.clone(),
            status: if is_enabled { 2 } else { 1 },
            cron: if is_same { xtimer.cron.clone() } else { cron_of(&definition.when) },
            notify_http_param: Some(notify(&definition.callback, xtimer)),
        }
    }
}

fn notify(callback: &Callback, xtimer: &XTimer) -> NotifyHttpParam {
    let method = match &xtimer.method {
        method if method.eq_ignore_ascii_case(&callback.method) => method,
        _ => &callback.method,
    };
    let none = xtimer.header.iter().filter(|(_, lines)| lines.is_empty());
    let mut header: BTreeMap<_, _> = none.map(|(name, _)| (name.clone(), Vec::new())).collect();
    for (name, value) in &callback.headers {
        let lines = match value {
            Header::Value(value) if !is_sensitive(name) => xtimer.lines(name, value),
            // Its JSON has no other way to say that a value is not shown.
            _ => vec![MASK],
        };
        header.insert(name.clone(), lines.into_iter().map(str::to_owned).collect());
    }
    let body = match &*callback.method {
        "GET" if callback.body == encode("GET", "") => xtimer.body.clone(),
        method => decode(method, &callback.body),
    };
    NotifyHttpParam {
        method: method.clone(),
        url: callback.url.clone(),
        header: Some(header).filter(|header| !header.is_empty()),
        body,
    }
}

/// Reads a new timer: its definition, and the original texts to keep.
pub(super) fn new(def: TimerDef, zone: &str) -> Result<(Definition, XTimer), Problem> {
    let required = [
        ("app", def.app.is_empty()),
        ("name", def.name.is_empty()),
        ("creator", def.creator.is_empty()),
        ("cron", def.cron.is_empty()),
        ("notifyHTTPParam", def.notify_http_param.is_none()),
    ];
    let missing = required.iter().filter(|(_, is_missing)| *is_missing);
    let missing: Vec<_> =
        missing.map(|(field, _)| ((*field).to_owned(), "it is missing".to_owned())).collect();
    if !missing.is_empty() {
        return Err(Problem::fields(missing));
    }
    let when = CronWhen { cron: String::new(), zone: zone.to_owned(), bounds: Bounds::default() };
    let definition = Definition::new(When::Cron(when), Callback::new(String::new()));
    let mut definition = Definition { enabled: false, ..definition };
    let mut xtimer = XTimer::default();
    def.apply(&mut definition, &mut xtimer, zone)?;
    Ok((definition, xtimer))
}

#[cfg(test)]
mod tests {
    use super::{decode, encode, translate};

    #[test]
    fn expressions_of_its_dialect_are_ours() {
        let ours = |cron: &str| translate(cron).unwrap();
        assert_eq!(ours("15,45 */2 * * *"), "15,45 */2 * * *");
        assert_eq!(ours("30 9 * * MON *"), "30 9 * * MON");
        assert_eq!(ours("*/5 * * * * * *"), "*/5 * * * * *");
        assert_eq!(ours("3/15 * L * ?"), "3-59/15 * L * *");
        assert_eq!(ours("1/20,7 0 0 1/10 * * *"), "1-59/20,7 0 0 1-31/10 * *");
        assert_eq!(ours("@minutely"), "* * * * *");
        assert_eq!(ours("@daily"), "@daily");
        assert!(translate("0 0 1 1 * 2030").is_err());
    }

    #[test]
    fn names_are_written_out_or_not_and_any_field_has_a_question_mark() {
        let ours = |cron: &str| translate(cron).unwrap();
        assert_eq!(ours("0 0 * january,mar sunday"), "0 0 * JAN,MAR SUN");
        assert_eq!(ours("0 0 LW December-may Monday-friday"), "0 0 LW DEC-MAY MON-FRI");
        assert_eq!(ours("0 0 15w ? fridayl"), "0 0 15W * FRIL");
        assert_eq!(ours("? ? * * wednesday#2"), "* * * * WED#2");
        assert_eq!(ours("0 0 0 1 1 * ? beyond"), "0 0 0 1 1 *");
    }

    #[test]
    fn a_step_restricts_days_as_a_list_does() {
        let ours = |cron: &str| translate(cron).unwrap();
        // By cronexpr, on odd days and on Mondays; in crontab(5), on Mondays with odd days.
        assert_eq!(ours("0 0 */2 * 1"), "0 0 1-31/2 * 1");
        assert_eq!(ours("0 0 1 */2 */3"), "0 0 1 */2 0-6/3");
    }

    /// As cronexpr 88b0669 was seen to run each.
    #[test]
    fn a_seven_is_a_zero_wherever_it_stands() {
        let ours = |cron: &str| translate(cron).unwrap();
        assert_eq!(ours("0 0 * * 7"), "0 0 * * 0");
        assert_eq!(ours("0 0 * * 5-6,7"), "0 0 * * 5-6,0");
        assert_eq!(ours("0 0 * * 0-7"), "0 0 * * 0-0");
        assert_eq!(ours("0 0 * * sun-7/2 *"), "0 0 * * 0-0/2");
        assert_eq!(ours("0 0 * * 7-2"), "0 0 * * 0-2");
        assert_eq!(ours("0 0 * * 7/2"), "0 0 * * 0-6/2");
        assert_eq!(ours("0 0 * * 7#2"), "0 0 * * 7#2");
        for cron in ["0 0 * * 5-7", "0 0 * * 1-7 *", "0 0 * * fri-sunday", "0 0 * * 2,6-1/2"] {
            assert!(translate(cron).is_err(), "{cron}");
        }
        assert_eq!(ours("0-7 0 1-7 1-7 *"), "0-7 0 1-7 1-7 *");
    }

    #[test]
    fn a_body_is_sent_as_a_string_of_json_and_shown_as_it_came() {
        for body in ["", "{\"a\": \"{{x}}\"}", "{{key}} {{{ }}", "{{{{", "\n\u{1}\"\\", "é<>&"] {
            let sent = encode("POST", body);
            assert_eq!(decode("POST", &sent), body);
            let plain = sent.replace("{{{{", "{{");
            assert_eq!(serde_json::from_str::<String>(&plain).unwrap(), body);
        }
        assert_eq!(encode("GET", "a"), "null");
        // Bodies that another route has put there.
        for body in ["{\"n\": {{attempt}}}", "\"{{key}}\"", "plain"] {
            assert_eq!(decode("POST", body), body);
        }
    }
}
