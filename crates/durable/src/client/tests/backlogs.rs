//! Schedules that stop after no node has looked at them for long.

use std::time::Duration;

use pollster::block_on;
use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;

use super::{Gate, Scene};
use crate::client::Client;
use crate::record::{Outcome, Reason};
use crate::schedule::Schedule;
use crate::store::{Memory, RecordQuery, ScheduleRow};

const HOUR: Duration = Duration::from_secs(3_600);

/// Occurrences that are due when the schedule stops: two full transactions, and a part of a third.
const LENGTH: u32 = 1_200;

fn schedule(scene: &Scene) -> Option<ScheduleRow> {
    block_on(scene.client.named("t")).unwrap().1.schedule
}

type Stop = fn(&Client) -> crate::store::Result<()>;

#[test]
fn a_schedule_that_stops_records_all_that_was_due_in_several_transactions() {
    let disable: Stop = |client| block_on(client.disable("t")).map(drop);
    let remove: Stop = |client| block_on(client.remove("t")).map(drop);
    let pause: Stop = |client| {
        let until = block_on(client.now())? + HOUR;
        block_on(client.pause("t", until)).map(drop)
    };
    for (stop, reason) in
        [(disable, Reason::Disabled), (remove, Reason::Removed), (pause, Reason::Paused)]
    {
        let clock = VirtualClock::new();
        let timer = Timer::builder().virtual_clock(&clock).build().unwrap();
        let scene = Scene::on(Memory::new(&timer), Gate::default(), 1);
        block_on(scene.client.every("t", Schedule::every(HOUR)).upsert()).unwrap();
        let first = schedule(&scene).unwrap().next.unwrap();
        clock.advance(HOUR * LENGTH);
        scene.gate.hold(0..0);
        stop(&scene.client).unwrap();
        let changes = scene.gate.seen().iter().filter(|name| **name == "change").count();
        assert_eq!(changes, 3, "{reason:?}");

        let records = block_on(scene.client.records(RecordQuery::new().limit(2_000))).unwrap();
        let mut times: Vec<_> = records.iter().map(|record| record.scheduled_for).collect();
        times.sort_unstable();
        assert!(times.into_iter().eq((0..LENGTH).map(|hour| first + HOUR * hour)), "{reason:?}");
        let cancelled = (Outcome::Cancelled, Some(reason));
        assert!(records.iter().all(|record| (record.outcome, record.reason) == cancelled));
        let left = schedule(&scene);
        let now = block_on(scene.client.now()).unwrap();
        assert!(left.is_none_or(|row| row.next.is_none_or(|next| next > now)), "{reason:?}");
    }
}
