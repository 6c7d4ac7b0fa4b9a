//! The functions of the tables, for other programs: they act like the crate.

use std::thread;
use std::time::Duration;

use pollster::block_on;
use tokio_postgres::{Client, Error, Transaction};
use tourbillon_durable::store::postgres::Tables;
use tourbillon_durable::store::{Inserted, NewTimer, RecordQuery, Store, TimerQuery, TimerUpdate};
use tourbillon_durable::{Lease, Outcome, Retry, StoreErrorKind, Time, TimerId};

use crate::cluster::Database;
use crate::{running, timer};

const ONCE: &str = "
    SELECT timer::text, created FROM tourbillon.once(
        $1, 'epoch'::timestamptz + $2::float8 * interval '1 microsecond', name => $3, payload => $4,
        id => $5::text::uuid, retry_attempts => $6,
        retry_first => $7::float8 * interval '1 microsecond',
        retry_longest => $8::float8 * interval '1 microsecond', lane => $9
    )";

fn micros(span: Duration) -> f64 {
    span.as_micros() as f64
}

fn once(transaction: &Transaction<'_>, timer: &NewTimer) -> Result<Inserted, Error> {
    let row = block_on(transaction.query_one(
        ONCE,
        &[
            &timer.kind,
            &(timer.scheduled_for.as_micros() as f64),
            &timer.name,
            &timer.payload,
            &timer.id.to_string(),
            &i32::try_from(timer.retry.attempts).unwrap(),
            &micros(timer.retry.first),
            &micros(timer.retry.longest),
            &timer.lane,
        ],
    ))?;
    let id = row.get::<_, String>(0).parse().unwrap();
    Ok(if row.get(1) { Inserted::Created } else { Inserted::Exists(id) })
}

/// All columns of all timers.
fn rows(transaction: &Transaction<'_>) -> Vec<String> {
    let sql = "SELECT to_jsonb(t)::text FROM tourbillon.timer AS t ORDER BY id";
    block_on(transaction.query(sql, &[])).unwrap().iter().map(|row| row.get(0)).collect()
}

/// Makes `timer` by the crate and by the function, in the same transaction, and undoes both.
/// Returns the answer: both give the same answers and rows.
fn both(client: &mut Client, timer: &NewTimer) -> Inserted {
    let mut transaction = block_on(client.transaction()).unwrap();
    let by_crate = block_on(transaction.transaction()).unwrap();
    let tables = Tables::default();
    let answer = block_on(tables.insert(&by_crate, std::slice::from_ref(timer))).unwrap()[0];
    let expected = rows(&by_crate);
    block_on(by_crate.rollback()).unwrap();
    let by_function = block_on(transaction.transaction()).unwrap();
    assert_eq!(once(&by_function, timer).unwrap(), answer, "{timer:?}");
    assert_eq!(rows(&by_function), expected, "{timer:?}");
    answer
}

#[test]
fn a_timer_by_the_function_is_the_row_that_the_crate_inserts() {
    let database = Database::new();
    let mut store = database.connect();
    let mut client = database.async_client();
    let now = store.now().unwrap();
    let ahead = |hours: u64| now + Duration::from_secs(hours * 3_600);
    let plain = |due: Time| NewTimer::new(TimerId::new(due), "mail", due);
    let mut named = timer(ahead(1));
    named.name = Some("inv-42".to_owned());
    let mut odd = timer(ahead(2));
    odd.retry = Retry::new(0, Duration::from_micros(1), Duration::from_secs(40 * 86_400));
    let mut waiting = plain(now);
    waiting.lane = Some("customer-7".to_owned());
    let all = [plain(ahead(1)), plain(now - Duration::from_secs(60)), named.clone(), odd, waiting];
    for timer in all {
        assert_eq!(both(&mut client, &timer), Inserted::Created);
    }
    // The shard of each id, over all shards.
    for bits in 0..64 {
        let timer = NewTimer::new(TimerId::from_bits(0x1234 << 64 | 0xff80 | bits), "mail", now);
        assert_eq!(both(&mut client, &timer), Inserted::Created);
    }
    // Existing timers: under the name, under the id, under both, and recorded.
    store.insert(std::slice::from_ref(&named)).unwrap();
    let mut rival = timer(now);
    rival.name = named.name.clone();
    assert_eq!(both(&mut client, &rival), Inserted::Exists(named.id));
    let mut again = timer(now);
    again.id = named.id;
    assert_eq!(both(&mut client, &again), Inserted::Exists(named.id));
    assert_eq!(both(&mut client, &named), Inserted::Exists(named.id));
    assert_eq!(store.cancel(named.id).unwrap(), TimerUpdate::Done);
    assert_eq!(both(&mut client, &named), Inserted::Exists(named.id));
    assert_eq!(both(&mut client, &rival), Inserted::Created);
}

#[test]
fn what_the_function_is_not_given_is_as_in_the_crate() {
    let database = Database::new();
    let mut store = database.connect();
    let mut client = database.client();
    let sql = "SELECT tourbillon.once('mail', 'infinity')";
    client.batch_execute(sql).unwrap();
    let made = store.timers(&TimerQuery::new()).unwrap().remove(0).new;
    assert_eq!(made, NewTimer::new(made.id, "mail", Time::NEVER));
}

#[test]
fn a_drawn_id_is_of_its_time_and_in_its_shard() {
    let database = Database::new();
    let mut store = database.connect();
    let mut client = database.client();
    let before = store.now().unwrap();
    let sql = "SELECT tourbillon.once('mail', now()) FROM generate_series(1, 200)";
    client.batch_execute(sql).unwrap();
    let after = store.now().unwrap();
    let millis = |time: Time| u128::try_from(time.as_micros() / 1_000).unwrap();
    let rows = client.query("SELECT id::text, shard FROM tourbillon.timer", &[]).unwrap();
    assert_eq!(rows.len(), 200);
    for row in rows {
        let id: TimerId = row.get::<_, String>(0).parse().unwrap();
        assert_eq!(row.get::<_, i16>(1), i16::from(id.shard()), "{id}");
        let bits = id.bits();
        assert!((millis(before)..=millis(after)).contains(&(bits >> 80)), "{id}");
        assert_eq!((bits >> 76 & 0xf, bits >> 62 & 3), (7, 2), "{id}");
    }
}

#[test]
fn the_function_takes_what_a_client_takes() {
    let database = Database::new();
    let client = tourbillon_durable::Client::new(Box::new(database.connect())).unwrap();
    let mut own = database.async_client();
    let limit = "é".repeat(100);
    let long = format!("{limit}x");
    let payload = vec![7; 65_536];
    let more = vec![7; 65_537];
    for (kind, name, payload, is_good) in [
        ("mail", None, &payload, true),
        (&*limit, Some(&*limit), &payload, true),
        ("", None, &payload, false),
        (&*long, None, &payload, false),
        ("mail", Some(""), &payload, false),
        ("mail", Some(&*long), &payload, false),
        ("mail", None, &more, false),
    ] {
        let mut by_client = client.once(kind, Time::NEVER).payload(payload.clone());
        if let Some(name) = name {
            by_client = by_client.name(name);
        }
        let mut by_function = NewTimer::new(TimerId::new(Time::default()), kind, Time::default());
        (by_function.payload, by_function.name) = (payload.clone(), name.map(str::to_owned));
        let transaction = block_on(own.transaction()).unwrap();
        match (block_on(by_client.create()), once(&transaction, &by_function)) {
            (Ok(_), Ok(_)) => assert!(is_good),
            (Err(refused), Err(error)) => {
                assert!(!is_good);
                assert_eq!(refused.kind(), StoreErrorKind::Invalid);
                assert_eq!(error.code().unwrap().code(), "22023", "{error}");
            }
            (one, other) => panic!("{one:?}, and {other:?}"),
        }
    }
}

/// An attempt that is no longer its node's, and an empty table of bills.
fn taken_over(store: &mut dyn Store, client: &mut postgres::Client) -> (Lease, TimerId) {
    let (lease, id) = running(store);
    store.leave(lease).unwrap();
    client.batch_execute("CREATE TABLE bill (number integer)").unwrap();
    (lease, id)
}

/// As a program does that has the fence as texts and numbers.
fn complete(
    client: &mut impl postgres::GenericClient,
    lease: Lease,
    id: TimerId,
) -> Result<(), String> {
    let sql = "SELECT tourbillon.complete($1::text::uuid, 1, $2::text::uuid, $3, 'by hand')";
    let epoch = i64::try_from(lease.epoch).unwrap();
    match client.query_one(sql, &[&id.to_string(), &lease.node.to_string(), &epoch]) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.code().unwrap().code().to_owned()),
    }
}

#[test]
fn an_attempt_completes_by_the_function_once_and_as_by_the_crate() {
    let database = Database::new();
    let mut store = database.connect();
    let (lease, id) = running(&mut store);
    let (_, other) = running(&mut store);
    let mut client = database.client();
    assert_eq!(complete(&mut client, lease, id), Ok(()));
    assert_eq!(complete(&mut client, lease, id), Err("TB001".to_owned()));
    // That one is of another node.
    assert_eq!(complete(&mut client, lease, other), Err("TB001".to_owned()));
    let records = store.records(&RecordQuery::new()).unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!((records[0].timer, records[0].outcome), (id, Outcome::Succeeded));
    assert_eq!((records[0].node, records[0].attempts), (Some(lease.node), 1));
    assert_eq!((records[0].failures, &*records[0].detail), (0, "by hand"));
    assert_eq!(records[0].payload, None);
}

#[test]
fn an_attempt_that_was_taken_over_commits_what_was_written_before_a_savepoint_and_no_more() {
    for has_savepoint in [false, true] {
        let database = Database::new();
        let (mut store, mut client) = (database.connect(), database.client());
        let (lease, id) = taken_over(&mut store, &mut client);
        let mut transaction = client.transaction().unwrap();
        transaction.execute("INSERT INTO bill VALUES (42)", &[]).unwrap();
        if has_savepoint {
            let mut savepoint = transaction.transaction().unwrap();
            assert_eq!(complete(&mut savepoint, lease, id), Err("TB001".to_owned()));
            savepoint.rollback().unwrap();
        } else {
            assert_eq!(complete(&mut transaction, lease, id), Err("TB001".to_owned()));
        }
        // PostgreSQL makes a rollback of it, unless that was rolled back.
        transaction.commit().unwrap();
        let written = client.query("SELECT FROM bill", &[]).unwrap().len();
        assert_eq!(written, usize::from(has_savepoint));
        assert_eq!(store.timers(&TimerQuery::new()).unwrap().len(), 1);
    }
}

#[test]
fn a_repeat_that_waits_for_the_end_of_its_timer_makes_no_second() {
    let database = Database::new();
    let mut store = database.connect();
    let (lease, id) = running(&mut store);
    let mut client = database.client();
    let mut ending = client.transaction().unwrap();
    assert_eq!(complete(&mut ending, lease, id), Ok(()));
    let repeat = thread::scope(|scope| {
        let repeat = scope.spawn(|| {
            let mut client = database.async_client();
            let transaction = block_on(client.transaction()).unwrap();
            let answer = once(&transaction, &NewTimer::new(id, "mail", Time::default())).unwrap();
            block_on(transaction.commit()).unwrap();
            answer
        });
        let waits = "SELECT FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'";
        // In a transaction it would be as at first.
        let mut other = database.client();
        while !repeat.is_finished() && other.query(waits, &[]).unwrap().is_empty() {
            thread::sleep(Duration::from_millis(10));
        }
        ending.commit().unwrap();
        repeat.join().unwrap()
    });
    assert_eq!(repeat, Inserted::Exists(id));
    assert_eq!(store.timers(&TimerQuery::new()).unwrap(), []);
    assert_eq!(store.records(&RecordQuery::new()).unwrap().len(), 1);
}

/// Functions that a caller's path finds before those of PostgreSQL.
const EVIL: &str = "
    CREATE SCHEMA evil;
    CREATE FUNCTION evil.set_bit(bytea, integer, integer) RETURNS bytea LANGUAGE plpgsql
        AS $$ BEGIN RAISE 'called'; END $$;
    CREATE FUNCTION evil.now() RETURNS timestamptz LANGUAGE plpgsql
        AS $$ BEGIN RAISE 'called'; END $$;
    SET search_path = evil, pg_catalog";

#[test]
fn the_functions_call_nothing_of_the_callers_path() {
    let database = Database::new();
    let mut store = database.connect();
    let (lease, id) = running(&mut store);
    let mut client = database.client();
    client.batch_execute(EVIL).unwrap();
    for sql in ["SELECT now()", "SELECT set_bit(''::bytea, 0, 0)"] {
        assert_eq!(client.batch_execute(sql).unwrap_err().code().unwrap().code(), "P0001");
    }
    for call in [
        "once('mail', 'infinity', name => 'bill')",
        "reschedule('bill', 'infinity')",
        "cancel('bill')",
        "cancel('bill')",
    ] {
        client.batch_execute(&format!("SELECT tourbillon.{call}")).unwrap();
    }
    assert_eq!(complete(&mut client, lease, id), Ok(()));
}

#[test]
fn what_no_row_can_have_is_refused_as_invalid() {
    let database = Database::new();
    drop(database.connect());
    let mut client = database.client();
    let attempt = "gen_random_uuid(), 1, gen_random_uuid(), 1";
    for (call, code) in [
        ("once('mail', NULL)", "22023"),
        ("once('mail', 'infinity', payload => NULL)", "22023"),
        ("once('mail', 'infinity', lane => '')", "22023"),
        ("once('mail', 'infinity', retry_attempts => -1)", "22023"),
        ("once('mail', 'infinity', retry_attempts => NULL)", "22023"),
        ("once('mail', 'infinity', retry_first => '-1 s')", "22023"),
        ("once('mail', 'infinity', retry_longest => '-1 s')", "22023"),
        ("reschedule('bill', NULL)", "22023"),
        (&*format!("complete({attempt}, NULL)"), "22023"),
        (&*format!("complete({attempt}, repeat('x', 8193))"), "22023"),
        (&*format!("complete({attempt}, repeat('x', 8192))"), "TB001"),
    ] {
        let refused = client.batch_execute(&format!("SELECT tourbillon.{call}")).unwrap_err();
        assert_eq!(refused.code().unwrap().code(), code, "{call}");
    }
}
