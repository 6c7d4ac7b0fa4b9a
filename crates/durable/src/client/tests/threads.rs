//! Threads of a client that have ended, as their store has panicked.

use std::pin::pin;
use std::time::Duration;

use pollster::block_on;

use super::{Gate, Scene, begin, kind};
use crate::error::StoreErrorKind;
use crate::id::TimerId;
use crate::store::Memory;
use crate::time::Time;

/// A client with so many threads, whose store panics after calls whose name begins so.
fn breaking(name: &'static str, threads: usize) -> Scene {
    let gate = Gate::with(move |call| assert!(!call.starts_with(name), "a store that panics"));
    let scene = Scene::on(Memory::new(&tourbillon::Timer::global()), gate, threads);
    Scene { client: scene.client.with_deadline(Duration::MAX), ..scene }
}

#[test]
fn after_the_thread_that_writes_has_ended_writes_are_refused_at_once() {
    let Scene { client, gate, .. } = breaking("insert", 2);
    gate.close();
    let mut first = pin!(client.once("mail", Time::NEVER).create());
    begin(first.as_mut());
    gate.wait();
    let mut waiting = pin!(client.once("mail", Time::NEVER).create());
    begin(waiting.as_mut());
    gate.open();
    assert_eq!(kind(block_on(first)), StoreErrorKind::Unavailable);
    assert_eq!(kind(block_on(waiting)), StoreErrorKind::Unavailable);
    // What that thread sent may be carried out still.
    assert_eq!(
        kind(block_on(client.cancel(TimerId::new(Time::NEVER)))),
        StoreErrorKind::Unavailable
    );
    block_on(client.now()).unwrap();
}

#[test]
fn after_the_threads_that_read_have_ended_the_other_reads() {
    let Scene { client, gate, .. } = breaking("nodes", 2);
    gate.close();
    let mut first = pin!(client.nodes());
    begin(first.as_mut());
    gate.wait();
    let mut waiting = pin!(client.now());
    begin(waiting.as_mut());
    gate.open();
    assert_eq!(kind(block_on(first)), StoreErrorKind::Unavailable);
    block_on(waiting).unwrap();
    block_on(client.once("mail", Time::NEVER).create()).unwrap();
}

#[test]
fn a_client_whose_threads_have_ended_says_so_at_once() {
    let client = breaking("", 1).client;
    for _ in 0..2 {
        assert_eq!(kind(block_on(client.now())), StoreErrorKind::Unavailable);
    }
}
