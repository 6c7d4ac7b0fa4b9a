//! Nodes of a virtual clock: clocks that drift, and that one clock moves.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::executor::LocalPool;
use futures::future::{join, join_all};
use futures::task::LocalSpawnExt;
use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;

const DRIFTS: [i32; 9] = [-999_999, -500_000, -333_333, -100, 0, 1, 100, 1_000_000, i32::MAX];
const SECOND: Duration = Duration::from_secs(1);

fn on(clock: &VirtualClock) -> Timer {
    Timer::builder().virtual_clock(clock).build().expect("the options are valid")
}

/// Numbers of up to 2^40, which grow in size.
fn numbers() -> impl Iterator<Item = u64> {
    let mut state = 88_172_645_463_325_252_u64;
    (0..400_u32).map(move |n| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> (63 - n / 10)
    })
}

/// Returns the nanoseconds that a node shows after so many of its clock's, by exact arithmetic.
fn shown(nanos: u128, drift: i32) -> u128 {
    nanos * u128::try_from(1_000_000 + i64::from(drift)).expect("it runs forward") / 1_000_000
}

#[test]
fn a_timer_fires_as_its_own_clock_comes_to_the_deadline_and_not_a_nanosecond_before() {
    for drift in DRIFTS {
        let world = VirtualClock::new();
        world.advance(Duration::from_nanos(12_345));
        let node = world.node(drift);
        let (timer, made) = (on(&node), world.now());
        assert_eq!(node.now(), made);
        // The slowest takes a million times as long.
        for delay in numbers().take(if drift < -900_000 { 200 } else { 400 }) {
            let start = node.now();
            let mut sleep = timer.sleep(Duration::from_nanos(delay));
            if (&mut sleep).now_or_never().is_none() {
                let ahead = world.next_deadline().expect("it is armed") - world.now();
                assert_eq!(world.advance(ahead - Duration::from_nanos(1)), 0, "{drift} {delay}");
                assert!(node.now() < sleep.deadline());
                assert!((&mut sleep).now_or_never().is_none());
                assert_eq!(world.advance(Duration::from_nanos(1)), 1, "{drift} {delay}");
                assert!((&mut sleep).now_or_never().is_some());
            }
            assert!(node.now() - start >= Duration::from_nanos(delay));
            let exact = shown((world.now() - made).as_nanos(), drift);
            assert_eq!((node.now() - made).as_nanos(), exact, "{drift} {delay}");
        }
    }
}

#[test]
fn clocks_come_to_their_deadlines_in_the_order_of_the_one_that_moves_them() {
    let world = VirtualClock::new();
    let drifts = [-500_000, 0, 1_000_000];
    let timers = drifts.map(|drift| on(&world.node(drift)));
    let (own, seen) = (on(&world), Arc::new(Mutex::new(Vec::new())));
    let mut pool = LocalPool::new();
    let start = world.now();
    for (name, timer) in ["slow", "even", "fast"].into_iter().zip(timers).chain([("own", own)]) {
        let (world, seen) = (world.clone(), Arc::clone(&seen));
        let task = async move {
            for _ in 0..2 {
                timer.sleep(SECOND * 2).await;
                seen.lock().unwrap().push((name, (world.now() - start).as_secs()));
            }
        };
        pool.spawner().spawn_local(task).expect("the pool is there");
    }
    assert_eq!(world.advance_with(SECOND * 10, || pool.run_until_stalled()), 8);
    let expected = [
        ("fast", 1),
        ("own", 2),
        ("even", 2),
        ("fast", 2),
        ("slow", 4),
        ("own", 4),
        ("even", 4),
        ("slow", 8),
    ];
    let mut seen = Arc::into_inner(seen).expect("the tasks are over").into_inner().unwrap();
    // Those of one instant run in the order in which the pool polls them.
    seen.sort_by_key(|(name, at)| (*at, expected.iter().position(|it| it == &(*name, *at))));
    assert_eq!(seen, expected);
}

/// The order in which callbacks of five clocks are called that are due at once.
fn order(world: &VirtualClock) -> Vec<usize> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let clocks = [0, 1_000_000, -500_000, 0].map(|drift| world.node(drift));
    let timers = clocks.iter().map(on).chain([on(world)]).collect::<Vec<_>>();
    for (place, timer) in timers.iter().enumerate() {
        let seen = Arc::clone(&seen);
        let factor = [10, 20, 5, 10, 10][place];
        timer.sleep(SECOND * factor).call(move || seen.lock().unwrap().push(place)).detach();
    }
    assert_eq!(world.advance(SECOND * 10), 5);
    Arc::into_inner(seen).expect("all were called").into_inner().unwrap()
}

#[test]
fn equal_deadlines_of_several_clocks_fire_clock_by_clock() {
    assert_eq!(order(&VirtualClock::new()), [4, 0, 1, 2, 3]);
}

#[test]
fn a_seed_orders_equal_deadlines_of_several_clocks() {
    // The clocks of one test are made at different instants, and the order is the same.
    assert_eq!(order(&VirtualClock::seeded(3)), order(&VirtualClock::seeded(3)));
    let orders = (0..20).map(|seed| order(&VirtualClock::seeded(seed)));
    let mut orders = orders.collect::<Vec<_>>();
    orders.sort();
    orders.dedup();
    assert!(orders.len() > 10, "{orders:?}");
}

#[test]
fn to_move_a_node_moves_all() {
    let world = VirtualClock::new();
    let (slow, fast) = (world.node(-500_000), world.node(1_000_000));
    let timers = [&world, &slow, &fast].map(on);
    let naps = timers.map(|timer| timer.sleep(SECOND * 4));
    let mut naps = naps.map(Box::pin);
    assert!(naps.iter_mut().all(|nap| nap.as_mut().now_or_never().is_none()));
    let start = world.now();
    assert_eq!((world.pending(), slow.pending(), fast.pending()), (3, 1, 1));
    assert_eq!(world.next_deadline(), Some(start + SECOND * 2));
    assert_eq!(fast.next_deadline(), Some(start + SECOND * 4));
    assert_eq!(slow.advance(SECOND), 1);
    assert_eq!((world.now(), fast.now()), (start + SECOND * 2, start + SECOND * 4));
    assert_eq!(fast.advance_with(SECOND * 4, || {}), 1);
    assert_eq!(slow.now(), start + SECOND * 2);
    assert_eq!(slow.advance_to_next(), Some(start + SECOND * 4));
    assert_eq!(world.now(), start + SECOND * 8);
    assert_eq!(fast.advance_to_next(), None);
    fast.jump(SECOND * 2);
    assert_eq!((world.now(), slow.now()), (start + SECOND * 9, start + SECOND * 9 / 2));
    // Halves are not rounded away.
    slow.advance(Duration::ZERO);
    for _ in 0..3 {
        world.advance(Duration::from_nanos(1));
    }
    slow.advance(Duration::ZERO);
    assert_eq!(world.now(), start + SECOND * 9 + Duration::from_nanos(3));
    assert_eq!(slow.now(), start + SECOND * 9 / 2 + Duration::from_nanos(1));
}

#[test]
fn a_future_that_waits_for_several_clocks_is_run_by_any_of_them() {
    let world = VirtualClock::new();
    let nodes = [-100, 0, 100].map(|drift| world.node(drift));
    let start = world.now();
    let naps = nodes.each_ref().map(|node| on(node).sleep(SECOND * 3600));
    nodes[0].block_on(join_all(naps));
    // The slow one has lost 360 ms, and a nanosecond of its own lasts a little longer.
    let ahead = world.now() - start - SECOND * 3600;
    assert_eq!(ahead, Duration::from_nanos(360_036_004));
}

#[test]
fn a_nodes_wall_is_its_own_and_drifts() {
    let world = VirtualClock::new();
    world.advance(SECOND);
    let node = world.node(1_000);
    let (timer, start) = (on(&node), world.wall_now());
    assert_eq!(node.wall_now(), start);
    node.set_wall(start - SECOND * 3);
    assert_eq!(world.wall_now(), start);
    let at = start + SECOND * 7;
    world.block_on(timer.sleep_until_wall(at));
    assert_eq!(node.wall_now(), at);
    // Ten seconds of its own.
    assert_eq!(world.wall_now(), start + Duration::from_nanos(9_990_009_991));
}

#[test]
fn a_waker_of_one_clock_may_move_and_arm_another() {
    let world = VirtualClock::new();
    let nodes = [-250_000, 250_000].map(|drift| world.node(drift));
    let timers = nodes.each_ref().map(on);
    let called = Arc::new(Mutex::new(Vec::new()));
    let (clock, other, seen) = (nodes[0].clone(), timers[1].clone(), Arc::clone(&called));
    let first = timers[0].sleep(SECOND * 3).call(move || {
        seen.lock().unwrap().push("first");
        // Left to the move that is made.
        assert_eq!(clock.advance(SECOND * 3), 0);
        let seen = Arc::clone(&seen);
        other.sleep(SECOND).call(move || seen.lock().unwrap().push("second")).detach();
    });
    assert_eq!(world.advance(SECOND * 4), 2);
    assert_eq!(*called.lock().unwrap(), ["first", "second"]);
    assert!(!first.cancel());
}

#[test]
fn threads_that_arm_while_nodes_move_lose_no_timer() {
    let world = VirtualClock::new();
    let nodes = [-400_000, 0, 700_000].map(|drift| world.node(drift));
    let timers = nodes.each_ref().map(on);
    let done = timers.map(|timer| {
        world.spawn(|task| std::thread::spawn(|| pollster::block_on(task)), async move {
            for nanos in numbers().take(200) {
                let start = timer.now();
                timer.sleep(Duration::from_nanos(nanos)).await;
                assert!(timer.now() - start >= Duration::from_nanos(nanos));
            }
        })
    });
    world.block_on(join_all(done));
    assert_eq!(world.pending(), 0);
}

#[test]
fn the_timer_of_a_node_is_moved_though_nobody_has_its_clock() {
    let world = VirtualClock::new();
    let timers = [world.node(0), world.node(0).node(0)].map(|node| on(&node));
    let naps = join(timers[0].sleep(SECOND), timers[1].sleep(SECOND));
    drop(timers);
    let start = world.now();
    world.block_on(naps);
    assert_eq!(world.now() - start, SECOND);
}

#[test]
fn a_long_list_of_nodes_is_dropped_on_a_small_stack() {
    let world = VirtualClock::new();
    (0..2_000).for_each(|_| drop(on(&world.node(0))));
    let small = std::thread::Builder::new().stack_size(64 << 10);
    small.spawn(|| drop(world)).expect("it starts").join().expect("it does not overflow");
}

#[test]
#[should_panic(expected = "a drift is more than")]
fn a_clock_that_would_stand_still_is_none() {
    VirtualClock::new().node(-1_000_000);
}
