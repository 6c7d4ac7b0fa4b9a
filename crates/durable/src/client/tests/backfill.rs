//! Backfills beside changes of their schedule.

use std::time::Duration;

use pollster::block_on;

use super::{Gate, Scene};
use crate::client::schedules::stop;
use crate::client::{Backfilled, Client, Upsert};
use crate::record::Reason;
use crate::schedule::Schedule;
use crate::store::{Memory, TimerQuery};
use crate::time::Time;

const SECOND: Duration = Duration::from_secs(1);

/// Makes the schedule `report`, each second.
fn schedule_report(client: &Client) {
    assert_eq!(
        block_on(client.every("report", Schedule::every(SECOND)).upsert()).unwrap(),
        Upsert::Created
    );
}

#[test]
fn a_backfill_during_which_the_schedule_is_stopped_says_what_it_made() {
    fn disable(tables: &mut Memory) {
        stop(tables, "report", Reason::Disabled).unwrap();
    }
    fn remove(tables: &mut Memory) {
        stop(tables, "report", Reason::Removed).unwrap();
    }
    fn make_again(tables: &mut Memory) {
        remove(tables);
        schedule_report(&Client::new(Box::new(tables.clone())).unwrap());
    }
    for meddle in [disable, remove, make_again] {
        let tables = Memory::new(&tourbillon::Timer::global());
        // Somebody else changes the tables after each part.
        let others = tables.clone();
        let gate = Gate::with(move |call| {
            if call == "backfill" {
                meddle(&mut others.clone());
            }
        });
        let client = Scene::on(tables, gate, 1).client;
        schedule_report(&client);
        let now = block_on(client.now()).unwrap();
        let range = now - 700 * SECOND..now - 10 * SECOND;
        let filled = block_on(client.backfill("report", range.clone()).limit(600).create());
        let Ok(Backfilled::Done { made: 500, existed: 0, rest: Some(rest) }) = filled else {
            panic!("{filled:?}");
        };
        // After the 500th, and not after the next.
        let looked_at = rest.since(range.start);
        assert!(499 * SECOND < looked_at && looked_at <= 501 * SECOND, "{looked_at:?}");
    }
}

#[test]
fn a_backfill_is_made_again_after_a_prune_and_in_a_schedule_that_was_made_again() {
    let client = Client::new(Box::new(Memory::new(&tourbillon::Timer::global()))).unwrap();
    schedule_report(&client);
    let start = Time::from_micros(1_000_000_000_000_000);
    let fill = || block_on(client.backfill("report", start..start + 3 * SECOND).create()).unwrap();
    let filled = |made, existed| Backfilled::Done { made, existed, rest: None };
    assert_eq!(fill(), filled(3, 0));
    for timer in block_on(client.timers(TimerQuery::new().name("report"))).unwrap() {
        block_on(client.cancel(timer.new.id)).unwrap();
    }
    assert_eq!(fill(), filled(0, 3));
    block_on(client.prune(Time::NEVER)).unwrap();
    assert_eq!(fill(), filled(3, 0));
    block_on(client.remove("report")).unwrap();
    schedule_report(&client);
    assert_eq!(fill(), filled(3, 0));
}
