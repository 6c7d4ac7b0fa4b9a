//! Loom models: every interleaving of a few operations, up to a number of
//! preemptions.
//!
//! The bound of each is two, or what `LOOM_MAX_PREEMPTIONS` says, or none (`ci/loom.sh`, in the
//! repository); of those with two drivers one less, and of some in which a driver ends, or an
//! engine goes, one more.
//! The clock of a model is moved by the model; a driver thread sleeps on it (`parker.rs`), so a
//! deadline slept through is a deadlock, which loom reports. So is a driver that does not end: an
//! execution is over only when all its threads are. Wakers are counted references of loom's, so a
//! waker leaked, dropped twice or used after its drop is reported too, as is any unordered access
//! to the cell it lies in. These are the oracles of every model; each names the oracles that it
//! relies on, or has besides.
//!
//! Loom does not switch threads as a lock is released. So no model finds a shard's lock taken by a
//! thread that waits for nothing under it, and `try_lock` never fails, unless the model holds the
//! lock itself (`Harness::hold`). To give way to waiting threads is therefore without effect, and
//! is counted (`a_turn_in_parts_gives_way`).
//!
//! Which model has which two operations meet. Operations of a sleep, and its drivers:
//!
//! - **arm**
//!   - a turn fires: `slot_reuse_wakes_the_new_tenant_only`,
//!     `a_batch_is_woken_while_its_entries_are_reused`, `a_turn_in_parts_races_drop_and_arm`,
//!     `a_turn_that_files_again_in_parts_races_drop_and_arm`
//!   - the driver parks: `insert_races_park`, `a_rearm_from_another_shard_races_park`,
//!     `insert_races_park_beside_a_far_shard`, `an_insert_into_an_idle_shard_races_park`,
//!     `an_insert_races_the_last_fire_of_its_shard`,
//!     `an_insert_relies_on_a_shard_left_by_a_cancel`,
//!     `an_insert_that_finds_its_shard_taken_goes_to_the_neighbour`
//!   - it starts: `first_inserts_start_the_driver`, `first_inserts_of_two_shards_start_the_driver`
//!   - the last handle goes, it ends: `arm_races_close`, `arm_races_close_on_two_shards`,
//!     `rearm_after_cancel_races_close`, `rearm_after_cancel_races_close_on_two_shards`,
//!     `rearm_after_cancel_beside_a_close`,
//!     `rearm_after_cancel_and_a_close_in_the_middle_of_a_scan`,
//!     `an_insert_beside_one_that_cannot_start_the_driver_races_its_end`
//!   - a turn by hand: `turn_races_remote_insert`, `turn_races_an_earlier_remote_insert`,
//!     `turn_races_an_earlier_remote_insert_on_two_shards`, `turns_cut_short_race_remote_insert`,
//!     `turns_cut_short_begin_with_another_shard`,
//!     `a_turn_that_sets_the_timerfd_races_remote_insert`
//!   - a virtual clock moves: `advance_races_arm`, `advance_races_arm_on_two_shards`,
//!     `advance_races_two_arms`, `advance_races_rearm_from_another_shard`, `advances_race_arm`,
//!     `jump_races_arm_and_turn`, `advance_races_turn`
//! - **poll again**
//!   - a turn fires: `new_waker_races_fire`, `second_poll_races_fire`,
//!     `chunks_are_freed_beside_a_sleep_that_is_polled`
//!   - the driver parks: the same
//!   - it starts: `a_driver_that_could_not_be_started_is_tried_for_again`
//!   - the last handle goes, it ends: (1)
//!   - a turn by hand: (2)
//!   - a virtual clock moves: `advance_races_new_waker`
//! - **reset to later**
//!   - a turn fires: `fire_races_reset_to_later`, `the_driver_heeds_a_later_deadline`,
//!     `an_open_window_races_reset_to_later`, `a_smaller_share_opens_no_window_before_the_deadline`
//!   - the driver parks: (3)
//!   - it starts: (1)
//!   - the last handle goes, it ends: (1)
//!   - a turn by hand: (2)
//!   - a virtual clock moves: `advance_races_reset_to_later`
//! - **reset to earlier**
//!   - a turn fires: `fire_races_reset_to_earlier`
//!   - the driver parks: `reset_to_earlier_races_park`,
//!     `reset_to_earlier_races_park_beside_a_far_shard`, `less_tolerance_races_park`,
//!     `a_smaller_share_races_park`, `a_reset_from_never_races_park`
//!   - it starts: (1), `a_reset_from_never_that_cannot_start_the_driver_wakes_its_task`
//!   - the last handle goes, it ends: `reset_to_earlier_races_close`,
//!     `a_reset_from_never_races_close`
//!   - a turn by hand: `turn_races_a_remote_reset_to_earlier`
//!   - a virtual clock moves: `advance_races_reset`
//! - **drop**
//!   - a turn fires: `fire_races_drop`, `fire_races_cancel`, `a_turn_in_parts_races_drop_and_arm`,
//!     `a_turn_in_parts_races_the_end_of_a_block`
//!   - the driver parks: (3), except for the last
//!   - it starts: (3)
//!   - the last handle goes, it ends: `last_cancel_races_close`,
//!     `last_cancel_calls_the_hook_beside_a_close`
//!   - a turn by hand: (2)
//!   - a virtual clock moves: `advance_races_drop`
//!
//! 1. Unless the deadline was never, an entry is queued all the while, so the driver runs and does
//!    not end; what closing and starting touch, this does not. That it is so for a reset,
//!    `reset_to_earlier_races_close` has.
//! 2. A turn by hand fires by the same code as the driver's thread, and differs from it only in the
//!    thing it waits for. These never end its wait.
//! 3. Wakes nobody, and the driver waits for nothing that it changes.
//!
//! Sleeps among themselves meet in a shard's lock and in the alarm:
//!
//! - arm and arm: `inserts_race_park_on_one_shard`, `inserts_race_park_on_two_shards`,
//!   `inserts_that_meet_go_to_the_neighbour`, `an_insert_after_a_move_races_park`, and where they
//!   start the driver;
//! - arm and drop: `insert_relies_on_one_that_is_cancelled`;
//! - a reset to earlier does to shard and alarm what an arm does; a reset to later, and a poll
//!   again, touch no other sleep's and nothing that is shared.
//!
//! Drives among themselves: starts meet in `first_inserts_start_the_driver`; a start and an end in
//! `rearm_after_cancel_races_close`; moves of a clock in `advances_add_up`,
//! `three_advances_add_up`, `advance_to_next_races_advances` and `advances_race_arm`, and of two
//! clocks by each other's wakers in `wakers_of_two_clocks_advance_each_other`; a jump and a turn in
//! `jump_races_arm_and_turn`, a jump and an advance in `jump_races_advance`; a turn and a clock
//! that moves, which fires as well, in `advance_races_turn`. The wall goes with the clock:
//! `suspends_add_up`. What moves a clock by itself, and what holds it, is in
//! `interleavings/hold.rs`; no wait there has a limit, so loom has all of it. Other turns do
//! not meet: a driver thread is one, and a [`Driver`](crate::driver::Driver) is borrowed for it.
//!
//! A handle that asks the driver to end meets an arm in `an_end_that_is_asked_for_races_arm` and
//! `an_end_that_is_asked_for_races_arm_on_two_shards`, a cancel in
//! `an_end_that_is_asked_for_races_the_last_cancel`, what is armed in
//! `a_driver_does_not_end_while_a_sleep_is_armed`, and another such handle in
//! `two_ends_that_are_asked_for_meet`. It does not meet the end by itself: the handle is there. A
//! driver that is a task may be dropped by its runtime: `arm_races_the_end_of_a_task`, and with the
//! task that takes its place `a_task_races_the_end_of_the_one_before`.
//!
//! A driver that is a runtime's reactor meets an arm in `an_insert_races_a_turn_in_the_reactor`,
//! where it takes the thread's place in `an_insert_races_a_reactor_that_takes_the_threads_place`,
//! where its runtime ends in `an_insert_races_the_end_of_the_runtime`, and where the last handle
//! goes in `an_insert_races_a_reactor_that_is_left`.
//!
//! What keeps an engine: `the_last_sleep_races_the_last_handle`.
//!
//! A driver does more than scan and park: it cuts long passes short
//! (`a_pass_cut_short_is_followed_by_another`), naps where passes crowd
//! (`a_driver_whose_passes_crowd_naps`), and has itself called at a resume (`resumes_race_park`).
//! Of a wall clock's steps, and their waiters: `a_step_races_a_new_waiter`,
//! `the_end_of_notices_races_a_new_waiter`, `notices_end_while_a_waker_is_cloned`.
//!
//! A callback is a sleep whose waker calls a function. A cancel meets the call in
//! `cancel_races_call`, `two_cancels_race_call`, `drop_races_call` and
//! `cancel_races_a_call_that_repeats`; a reset meets it in `reset_races_call`,
//! `reset_races_a_call_that_repeats` and `advance_races_reset_of_a_callback`, the driver that parks
//! in `reset_of_a_callback_to_earlier_races_park`, and another reset in
//! `resets_from_never_arm_once` and `a_reset_that_cannot_start_the_driver_races_another`, and both
//! that and a driver that ends in `a_reset_that_saw_a_driver_races_two_that_cannot_start_one`; what
//! makes the callback meets it in `call_races_its_making` and `advance_races_call`.
//!
//! A poll that follows on other changes of the same sleep races nobody, but relies on the state
//! that the entry carries from one to the next: `interleavings/polls.rs`, and
//! `a_loop_that_does_not_turn_is_not_trusted`.
//!
//! Two timers share wakers and threads, and nothing of the engine:
//! `a_waker_is_shared_by_two_timers`, `the_end_of_one_timer_races_arm_on_another`. The process-wide
//! timer is a static, and a model cannot have one; its engine is as any other, and is never closed.
//! Nor can a model fork: a child has one thread, and leaves the engines it inherited alone
//! (`fork.rs`). A waker or a hook that comes back into the engine: `waker_arms_another_timer`,
//! `a_hook_arms_another_timer`.

mod advance;
mod callback;
mod close;
mod fire;
mod hold;
mod insert;
mod polls;
mod reactor;
mod task;
mod turn;
mod watch;

use std::sync::atomic::{AtomicUsize, Ordering};

use loom::sync::Arc;
use loom::thread;

use crate::models::harness::{Harness, Signal, at, block_on};
use crate::sync::set_thread_index;

/// Explores a model, to the bound that the environment says, and says how many executions it took.
fn check(model: impl Fn() + Send + Sync + 'static) {
    check_with(0, model);
}

/// The same, with so many preemptions more, or less.
fn check_with(more: isize, model: impl Fn() + Send + Sync + 'static) {
    let executions = std::sync::Arc::new(AtomicUsize::new(0));
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 5_000;
    if std::env::var_os("TOURBILLON_UNBOUNDED").is_none() {
        let bound = builder.preemption_bound.unwrap_or(2);
        builder.preemption_bound = Some(bound.saturating_add_signed(more));
    }
    let counted = std::sync::Arc::clone(&executions);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed); // ORDERING: outside the model
        model();
    });
    println!("{executions:?} executions");
}

/// Sleeps in another thread, in the shard `index`; it must end, and not before its deadline.
fn sleeper(harness: &Harness, index: usize, nanos: u64) -> thread::JoinHandle<()> {
    let (sleep, time) = (harness.sleep(nanos), Arc::clone(&harness.time));
    thread::spawn(move || {
        set_thread_index(index);
        block_on(sleep, &Signal::new());
        assert!(time.now() >= at(nanos), "early");
    })
}

/// Moves the clock in another thread, to each of these times in turn.
fn clock<const N: usize>(harness: &Harness, times: [u64; N]) -> thread::JoinHandle<()> {
    let mover = harness.clock_mover();
    thread::spawn(move || times.into_iter().for_each(|nanos| mover.advance(nanos)))
}
