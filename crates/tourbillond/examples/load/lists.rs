//! Pages of lists: how long the first and the last of each list takes.

use std::net::SocketAddr;
use std::time::Instant;

use serde::Deserialize;
use serde::de::IgnoredAny;
use tourbillon_durable::{Client, Schedule, Time};
use tourbillond::config::StoreAt;
use tourbillond::model::{Bounds, CronWhen, When, kind, name, time};
use tourbillond::open;

use crate::connection::Connection;
use crate::{APP, FAR, Options, Result, definition, stored};

/// Items of a page.
const PAGE: usize = 100;

/// About how many numbers are disabled.
const DISABLED: usize = 1_000;

/// Times that each page is read.
const TIMES: usize = 51;

/// One-shots that are on their way to the database at a time; many go in one transaction.
const ONCE: usize = 20_000;

/// Schedules that are on their way at a time; each is a transaction of its own.
const REPEATED: usize = 1_000;

/// Connections that make schedules on a server.
const WRITERS: usize = 8;

/// Daily time of a repeated schedule, and its zone.
const DAILY: (&str, &str) = ("30 3 * * *", "Europe/Berlin");

/// A list: what asks for it, and the rows that a number has there if it is disabled or not.
type List = (&'static str, fn(bool) -> usize);

const LISTS: [List; 7] = [
    ("", |_| 2),
    ("&kind=repeated", |_| 1),
    ("&kind=once", |_| 1),
    ("&state=enabled", |is_disabled| usize::from(!is_disabled)),
    ("&state=pending", |is_disabled| usize::from(!is_disabled)),
    ("&state=disabled", |is_disabled| 2 * usize::from(is_disabled)),
    ("&state=running", |_| 0),
];

/// Parts of a page that are looked at.
#[derive(Deserialize)]
struct Page {
    items: Vec<IgnoredAny>,
    next: Option<String>,
}

/// Inserts a one-shot and a repeated schedule for each number, disables some of both, and reads the
/// first and the last page of each list.
///
/// # Errors
///
/// A page that is not full although there are rows for it, or a last page that others follow.
pub(crate) async fn measure(
    options: &Options,
    api: SocketAddr,
    receiver: SocketAddr,
) -> Result<()> {
    let start = Instant::now();
    insert_once(options, receiver).await?;
    insert_repeated(options, receiver).await?;
    let rows = options.rows;
    println!("{rows} one-shots and {rows} schedules inserted in {:.0?}", start.elapsed());
    let mut connection = Connection::open(api).await?;
    for (filter, of) in LISTS {
        let of = |number| of(is_disabled(rows, number));
        let there: usize = (0..rows).map(of).sum();
        let (mut page, mut begin) = (0, rows);
        while page < PAGE && begin > 0 {
            begin -= 1;
            page += of(begin);
        }
        // The schedule of a number comes after its one-shot, and before this.
        let cursor = begin.checked_sub(1).map(|before| format!("&cursor={}~", key(before)));
        let path = format!("?limit={PAGE}&prefix=row-{filter}");
        let expected = (PAGE.min(there), there > PAGE);
        let first = median(&mut connection, &path, expected).await?;
        let path = path + cursor.as_deref().unwrap_or_default();
        let last = median(&mut connection, &path, (expected.0, false)).await?;
        let list = if filter.is_empty() { "all" } else { &filter[1..] };
        println!("page of {there}, {list}: first {first:.2} ms, last {last:.2} ms");
    }
    Ok(())
}

/// Reads a page again and again, and returns how many milliseconds that takes at the median.
///
/// # Errors
///
/// The page, if it has another number of items or others follow, unless that is expected.
async fn median(
    connection: &mut Connection,
    path: &str,
    (items, is_followed): (usize, bool),
) -> Result<f64> {
    let mut took = Vec::new();
    for _ in 0..TIMES {
        let start = Instant::now();
        let answer = connection.ask("GET", path, "").await?;
        took.push(start.elapsed());
        let page: Page = serde_json::from_slice(answer)?;
        if (page.items.len(), page.next.is_some()) != (items, is_followed) {
            return Err(format!("{path}: {} items, then {:?}", page.items.len(), page.next).into());
        }
    }
    took.sort_unstable();
    Ok(took[TIMES / 2].as_secs_f64() * 1e3)
}

/// The key of a one-shot; that of the schedule with the same number follows it.
fn key(number: usize) -> String {
    format!("row-{number:08}")
}

/// Returns whether the rows of a number are disabled.
fn is_disabled(rows: usize, number: usize) -> bool {
    number % (rows / DISABLED).max(1) == 0
}

async fn insert_once(options: &Options, receiver: SocketAddr) -> Result<()> {
    let due = time(FAR)?;
    let client = Client::new(open(&options.store)?)?;
    let mut calls = Vec::new();
    for number in 0..options.rows {
        let key = key(number);
        let mut definition = definition(receiver, FAR);
        definition.enabled = !is_disabled(options.rows, number);
        let due = if definition.enabled { due } else { Time::NEVER };
        let payload = serde_json::to_vec(&stored(&key, definition, Some(time(FAR)?)))?;
        let once = client.once(&kind(APP), due).name(name(APP, &key)).payload(payload);
        calls.push(tokio::spawn(async move { once.create().await }));
        if calls.len() == ONCE || number + 1 == options.rows {
            for call in calls.drain(..) {
                call.await??;
            }
        }
    }
    Ok(())
}

async fn insert_repeated(options: &Options, receiver: SocketAddr) -> Result<()> {
    let writers = match options.store {
        StoreAt::File(_) => 1,
        StoreAt::Postgres(_) => WRITERS,
    };
    let mut clients = Vec::new();
    for _ in 0..writers {
        clients.push(Client::new(open(&options.store)?)?);
    }
    let (cron, zone) = DAILY;
    let schedule = Schedule::cron(cron, zone)?.starting_at(time(FAR)?);
    let mut calls = Vec::new();
    for number in 0..options.rows {
        let key = format!("{}-daily", key(number));
        let mut definition = definition(receiver, FAR);
        definition.enabled = !is_disabled(options.rows, number);
        let bounds = Bounds { start: Some(FAR.to_owned()), ..Bounds::default() };
        let (cron, zone) = (cron.to_owned(), zone.to_owned());
        definition.when = When::Cron(CronWhen { cron, zone, bounds });
        let enabled = definition.enabled;
        let payload = serde_json::to_vec(&stored(&key, definition, None))?;
        let every = clients[number % writers].every(&name(APP, &key), schedule.clone());
        let every = every.kind(kind(APP)).payload(payload).enabled(enabled);
        calls.push(tokio::spawn(async move { every.upsert().await }));
        if calls.len() == REPEATED || number + 1 == options.rows {
            for call in calls.drain(..) {
                call.await??;
            }
        }
    }
    Ok(())
}
