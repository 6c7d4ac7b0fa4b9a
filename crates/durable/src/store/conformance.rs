//! Conformance: tests that every store has to pass.
//!
//! A test file of a store has one line, [`conformance!`](crate::conformance), which makes a test of
//! each case. The rig that it is given makes an empty database for each.

mod lanes;
mod lists;
mod nodes;
mod rivals;
mod schedules;
mod timers;
mod views;
mod zones;

use std::slice::from_ref;
use std::time::Duration;

use super::{
    Advance, Advanced, Batch, Beat, Change, Changed, Claimed, End, Finished, How, Inserted,
    NewTimer, RecordQuery, Reschedule, Scan, ScheduleRow, Store, Timer, TimerQuery, TimerUpdate,
    Window,
};
use crate::error::StoreErrorKind;
use crate::id::{Lease, NodeId, ScheduleId, Shards, TimerId};
use crate::policy::{Policies, Retry};
use crate::record::{Outcome, Record};
use crate::rule::Rule;
use crate::schedule::Schedule;
use crate::time::Time;

/// An empty database for one case, and its time.
pub trait Rig {
    /// A connection to it. All of a rig's are to the same database.
    fn store(&self) -> Box<dyn Store>;

    /// Lets `span` pass by the database's clock: moves a virtual one, or sleeps.
    fn pass(&self, span: Duration);
}

/// A case: panics if the store does not pass.
pub type Case = fn(&dyn Rig);

macro_rules! cases {
    ($($module:ident: $($name:ident)*;)*) => {
        /// Every case, with its name.
        pub const CASES: &[(&str, Case)] = &[$($((stringify!($name), $module::$name),)*)*];

        /// Makes a test of every case, given an expression for a new rig.
        #[macro_export]
        macro_rules! conformance {
            ($rig:expr) => {
                $($(
                    #[test]
                    fn $name() {
                        $crate::store::conformance::run(stringify!($name), &$rig);
                    }
                )*)*
            };
        }
    };
}

cases! {
    timers:
        a_claim_is_never_early
        a_timer_is_claimed_once
        a_claim_returns_what_was_inserted
        a_due_time_in_the_past_becomes_now
        an_insert_that_is_repeated_makes_no_second_timer
        a_recorded_timer_is_not_inserted_again
        a_name_is_taken_while_its_timer_is_there
        a_look_after_an_insert_sees_it
        a_scan_finds_what_is_due_in_order
        a_scan_keeps_to_kinds_shards_and_limit
        a_scan_reads_what_is_late_in_other_shards
        a_scan_with_a_floor_leaves_out_what_is_long_due
        a_scan_leaves_out_what_runs
        a_finish_ends_the_timer_with_one_record
        a_finish_is_fenced_by_its_attempt
        a_finish_is_fenced_by_its_epoch
        a_repeated_finish_is_accepted_again
        another_attempt_is_due_after_its_pause
        a_handed_back_timer_is_due_at_once
        a_finish_and_a_claim_go_together
        a_cancelled_timer_is_never_claimed
        a_running_timer_is_not_cancelled
        a_rescheduled_timer_keeps_to_its_new_time
        a_replaced_timer_has_its_new_payload
        a_reschedule_needs_the_version_it_was_made_for
        a_timer_is_held_until_it_is_given_a_time
        a_failed_attempt_leaves_its_detail
        a_postponed_timer_is_amended_once_and_due_as_that_says
        an_amended_timer_is_not_due_before_it_is_scheduled_for
        a_timer_that_is_postponed_for_ever_is_given_another_time
        what_waits_in_a_queue_or_a_lane_keeps_waiting_when_it_is_amended
        what_runs_or_was_claimed_since_is_not_amended
        a_cancelled_timer_records_what_its_attempts_left
        the_dead_keep_what_it_takes_to_run_them_again
        a_timer_keeps_how_it_is_retried;
    lists:
        timers_come_in_pages
        timers_are_found_by_what_they_are
        timers_are_found_by_how_their_names_start
        timers_are_found_by_the_name_of_their_schedule
        timers_that_run_or_are_held_come_in_the_order_of_names
        names_are_looked_up_together
        schedules_come_in_pages
        schedules_are_found_by_what_they_are
        records_come_newest_first
        records_are_found_by_how_they_ended_and_when
        pruned_records_are_gone
        an_overview_counts_what_there_is
        an_overview_says_where_it_stopped
        nodes_says_who_lives_and_how_long;
    views:
        the_newest_records_of_each_name_are_read_together
        names_are_found_by_a_text_and_a_state
        a_search_stops_and_continues
        records_are_counted_in_parts_of_time
        a_tally_says_since_when_all_are_counted;
    nodes:
        a_node_without_a_life_claims_nothing
        a_beat_keeps_a_node_alive
        a_dead_node_does_not_come_back_by_a_beat
        a_node_joins_again_under_a_later_epoch
        a_node_does_not_join_under_an_epoch_that_it_had
        orphans_of_a_dead_node_are_pending_again
        orphans_of_a_lost_epoch_are_pending_again
        a_node_that_leaves_gives_its_timers_back
        held_names_what_a_lease_runs
        held_names_all_in_parts
        a_beat_names_the_living
        a_scan_beats_as_a_beat_does
        a_scan_says_no_to_none_who_has_work;
    schedules:
        a_change_needs_the_version_it_was_made_for
        new_schedules_are_made_together
        an_advance_needs_the_schedule_as_it_was_read
        an_advance_inserts_and_records
        an_advance_makes_no_occurrence_twice
        a_batch_of_advances_is_answered_in_its_order
        an_advance_waits_for_what_is_unfinished
        a_disabled_schedule_does_not_advance
        a_change_renews_what_was_never_claimed
        a_withdrawal_takes_back_what_is_pending
        a_withdrawal_names_what_runs
        a_withdrawal_records_what_was_attempted
        what_runs_when_its_schedule_stops_does_not_run_again
        an_orphan_of_a_stopped_schedule_does_not_run_again
        an_occurrence_of_now_is_made_once
        an_occurrence_of_now_needs_the_schedule_as_it_was_read
        an_occurrence_of_now_waits_or_is_refused
        an_occurrence_of_now_is_taken_back
        a_backfill_makes_what_is_missing_once
        a_backfill_needs_the_schedule_as_it_was_read
        a_backfilled_occurrence_waits_for_those_before_it
        a_schedule_keeps_until_when_it_is_paused
        upcoming_keeps_to_time_shards_and_limit
        upcoming_counts_what_occupies_a_schedule
        a_queued_timer_is_claimed_after_those_before_it
        a_queued_timer_can_be_cancelled
        a_removed_schedule_is_gone
        a_schedule_keeps_its_rule
        a_rule_that_cannot_be_read_stops_no_other;
    lanes:
        a_lane_runs_its_timers_one_after_another
        a_front_that_was_claimed_keeps_its_place
        maintenance_sees_all_lanes_in_one_round
        a_front_that_was_not_claimed_lets_an_earlier_timer_pass
        a_lane_continues_after_a_cancel
        a_held_timer_lets_its_lane_pass
        a_front_of_a_dead_node_keeps_its_place
        schedules_share_a_lane
        a_schedule_is_busy_while_one_of_it_waits_in_a_lane
        many_that_wait_in_a_lane_hide_nothing
        a_lane_is_kept;
    rivals:
        rivals_claim_each_timer_once
        rivals_advance_a_schedule_once
        rivals_advance_schedules_together
        rivals_make_one_occurrence_of_now
        a_cancel_and_a_claim_do_not_both_win
        rivals_insert_a_name_once
        rivals_of_both_kinds_see_each_other
        rivals_reschedule_a_version_once
        rivals_promote_one_front
        a_listener_hears_what_another_connection_tells;
    zones:
        a_schedule_keeps_the_rules_that_made_its_next_time
        a_next_time_moves_with_the_rules_of_its_zone
        what_is_to_come_moves_along_and_what_has_come_stays
        schedules_of_zones_come_in_pages
        upcoming_goes_on_after_a_schedule
        a_schedule_that_cannot_be_read_can_be_stopped;
}

/// Runs the case of that name.
///
/// # Panics
///
/// If there is none, or if the store does not pass it.
pub fn run(name: &str, rig: &dyn Rig) {
    let case = CASES.iter().find(|(case, _)| *case == name);
    let (_, case) = case.unwrap_or_else(|| panic!("there is no case {name}"));
    case(rig);
}

/// Short, as real clocks are slept by.
const MOMENT: Duration = Duration::from_millis(30);

/// Long enough for no case to see its end.
const LONG: Duration = Duration::from_secs(600);

/// A store, a living node, and shorthands.
struct Bench<'a> {
    rig: &'a dyn Rig,
    store: Box<dyn Store>,
    lease: Lease,
}

fn kinds() -> Vec<String> {
    vec!["mail".to_owned(), "bill".to_owned()]
}

impl<'a> Bench<'a> {
    fn new(rig: &'a dyn Rig) -> Self {
        let mut store = rig.store();
        let lease = join(&mut *store, LONG).lease;
        Self { rig, store, lease }
    }

    fn now(&mut self) -> Time {
        self.store.now().unwrap()
    }

    /// A timer that is due `ahead` from now.
    fn timer(&mut self, ahead: Duration) -> NewTimer {
        let now = self.now();
        let retry = Retry::new(3, Duration::from_millis(1), Duration::from_millis(2));
        let payload = vec![0, 1, 255];
        NewTimer { payload, retry, ..NewTimer::new(TimerId::new(now), "mail", now + ahead) }
    }

    /// Inserts a timer that is due `ahead` from now.
    fn insert(&mut self, ahead: Duration) -> TimerId {
        let timer = self.timer(ahead);
        assert_eq!(self.store.insert(from_ref(&timer)).unwrap(), [Inserted::Created]);
        timer.id
    }

    fn claim(&mut self, id: TimerId) -> Option<Timer> {
        let Claimed { timers, .. } = self.store.claim(self.lease, &[id]).unwrap();
        assert!(timers.len() <= 1);
        timers.into_iter().next()
    }

    /// Ends a timer, each at a different time. Returns that time.
    fn ended(&mut self, kind: &str, name: Option<&str>, how: How) -> (Time, TimerId) {
        let (kind, name) = (kind.to_owned(), name.map(str::to_owned));
        let timer = NewTimer { kind, name, ..self.timer(Duration::ZERO) };
        self.store.insert(from_ref(&timer)).unwrap();
        self.claim(timer.id).unwrap();
        self.finish(timer.id, 1, how);
        self.pass(MOMENT);
        let records = self.store.records(&RecordQuery::new().timer(timer.id)).unwrap();
        (records[0].recorded, timer.id)
    }

    /// Reads all records of the query, two at a time.
    fn records_in_pages(&mut self, query: RecordQuery) -> Vec<Record> {
        let mut query = query.limit(2);
        let mut found = Vec::new();
        loop {
            let page = self.store.records(&query).unwrap();
            let Some(last) = page.last() else { return found };
            assert!(page.len() <= 2);
            query = query.after(last.recorded, last.timer);
            found.extend(page);
        }
    }

    /// Inserts and claims a timer.
    fn running(&mut self) -> TimerId {
        let id = self.insert(Duration::ZERO);
        assert_eq!(self.claim(id).map(|timer| timer.attempt), Some(1));
        id
    }

    fn finish(&mut self, timer: TimerId, attempt: u32, how: How) -> Finished {
        let finished = self.store.finish(self.lease, &[End { timer, attempt, how }]).unwrap();
        assert_eq!(finished.len(), 1);
        finished[0]
    }

    fn reschedule(&mut self, timer: TimerId, to: Time) -> TimerUpdate {
        self.replace(Reschedule::new(timer, to))
    }

    fn replace(&mut self, reschedule: Reschedule<'_>) -> TimerUpdate {
        self.store.reschedule(&reschedule).unwrap()
    }

    fn finish_and_claim(&mut self, ends: &[End], timers: &[TimerId]) -> (Vec<Finished>, Claimed) {
        self.store.finish_and_claim(&Batch { lease: self.lease, ends, timers }).unwrap()
    }

    /// Moves a schedule on as it was read, and makes these occurrences of it.
    fn advance(&mut self, row: &ScheduleRow, next: Time, timers: &[NewTimer]) {
        let advance = Advance { timers, ..advance(row, next) };
        assert_eq!(self.store.advance(&advance).unwrap(), Advanced::Done);
    }

    fn scan(&mut self, ahead: Duration, back: Option<Duration>) -> Window {
        self.store.scan(&Scan { ahead, back, ..scan(&kinds(), 100) }).unwrap()
    }

    fn pending(&mut self) -> Vec<TimerId> {
        self.scan(LONG, None).timers.iter().map(|waiting| waiting.id).collect()
    }

    fn row(&mut self, id: TimerId) -> Option<Timer> {
        self.store.timers(&TimerQuery::new().timer(id)).unwrap().into_iter().next()
    }

    fn records(&mut self) -> Vec<Record> {
        self.store.records(&RecordQuery::new()).unwrap()
    }

    fn pass(&self, span: Duration) {
        self.rig.pass(span);
    }

    /// A schedule that is next due `ahead` from now, not yet in the database.
    fn schedule(&mut self, name: &str, ahead: Duration) -> ScheduleRow {
        let now = self.now();
        let id = ScheduleId::new(now);
        let every = Schedule::every(Duration::from_secs(1));
        let rule = Ok(Rule::new(every, Policies { retry: Retry::NEVER, ..Policies::default() }));
        let row = ScheduleRow::new(id, name, "bill", rule, Some(now + ahead));
        ScheduleRow { payload: vec![7], ..row }
    }

    /// Makes a schedule that is next due `ahead` from now.
    fn scheduled(&mut self, name: &str, ahead: Duration) -> ScheduleRow {
        let row = self.schedule(name, ahead);
        self.put(&row);
        row
    }

    /// Makes a schedule of this row.
    fn put(&mut self, row: &ScheduleRow) {
        let made = self.store.change(&Change { expect: None, ..change(row) }).unwrap();
        assert_eq!(made, Changed::Done { claimed: Vec::new() });
    }

    /// Makes a schedule; unless it is enabled, the second version of it is not.
    fn switched(&mut self, name: &str, enabled: bool) {
        let row = ScheduleRow { enabled, ..self.scheduled(name, LONG) };
        if !enabled {
            self.store.change(&change(&row)).unwrap();
        }
    }

    /// An occurrence of `row`, to be inserted.
    fn occurrence(&mut self, row: &ScheduleRow, scheduled_for: Time, due: Time) -> NewTimer {
        let policies = &row.rule().unwrap().policies;
        let id = TimerId::new(scheduled_for);
        NewTimer { id, due, ..NewTimer::occurrence(row, policies, scheduled_for) }
    }
}

/// Calls until no concurrent transaction gets in the way, also for longer than a store waits.
fn insist<T>(mut call: impl FnMut() -> crate::store::Result<T>) -> T {
    use StoreErrorKind::{Conflict, Unavailable};

    loop {
        match call() {
            Err(error) if matches!(error.kind(), Conflict | Unavailable) => {}
            answer => return answer.unwrap(),
        }
    }
}

/// A new node's life.
fn join(store: &mut dyn Store, span: Duration) -> Beat {
    let lease = Lease { node: NodeId::new(), epoch: 1 };
    insist(|| store.join(lease, span)).unwrap()
}

/// The node's next life after that under `lease`.
fn join_again(store: &mut dyn Store, lease: Lease, span: Duration) -> Lease {
    let next = Lease { epoch: lease.epoch + 1, ..lease };
    assert_eq!(store.join(next, span).unwrap().unwrap().lease, next);
    next
}

fn retry(pause: Duration) -> How {
    How::Retry(pause, String::new())
}

/// Scans all shards for what is due, however long, and at most so many of each kind.
pub fn scan(kinds: &[String], kind_limit: u32) -> Scan<'_> {
    let (ahead, back, shards) = (Duration::ZERO, None, Shards::ALL);
    Scan { ahead, back, shards, grace: None, kinds, kind_limit, pulse: None }
}

/// Success.
pub fn done() -> How {
    How::Done(Outcome::Succeeded, None, String::new())
}

/// Moves a schedule on as it was read, and makes nothing of it.
pub fn advance<'a>(row: &ScheduleRow, next: Time) -> Advance<'a> {
    Advance {
        schedule: row.id,
        version: row.version,
        from: row.next.unwrap(),
        next: Some(next),
        wall: None,
        timers: &[],
        skipped: &[],
        only_idle: false,
    }
}

fn change(row: &ScheduleRow) -> Change<'_> {
    let expect = Some(row.version);
    Change { name: &row.name, expect, row: Some(row), withdraw: None, skipped: &[] }
}
