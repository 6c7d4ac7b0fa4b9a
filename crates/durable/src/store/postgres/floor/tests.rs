//! Floors by themselves.

use std::collections::BTreeSet;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn at(seconds: u64) -> Time {
    Time::default() + SECOND * u32::try_from(seconds).unwrap()
}

#[test]
fn a_floor_is_behind_now_and_at_what_is_too_much() {
    let mut floor = Floor::default();
    let found = |count: u64| (0..count).map(|n| (at(n / 2), Id(n.into()))).collect::<Vec<_>>();
    floor.set(at(20), found(30).into_iter());
    assert_eq!(floor.from, Some(at(10)));
    // Timers due from then on are found by the index.
    assert_eq!(floor.behind, (0..20).map(Id).collect::<Vec<_>>());
    floor.set(at(9_000), found(1_000).into_iter());
    assert_eq!((floor.from, floor.behind.len()), (Some(at(8_990)), MOST));
    // Timers due together with the one too many are not known.
    floor.set(at(9_000), found(1_002).into_iter());
    assert_eq!((floor.from, floor.behind.len()), (Some(at(500)), MOST));
    floor.set(at(9_000), found(1_000).into_iter().map(|(due, id)| (due.min(at(499)), id)));
    floor.set(at(9_000), (0..1_001).map(|n| (at(7), Id(n))).collect::<Vec<_>>().into_iter());
    assert_eq!((floor.from, floor.behind.len()), (Some(at(7)), 0));
}

#[test]
fn looks_walk_for_a_hundredth_of_the_time() {
    let mut floor = Floor::default();
    let start = Instant::now();
    assert!(floor.walks(start));
    floor.set(at(20), [].into_iter());
    floor.note_walk(start, SECOND / 20, false);
    assert!(!floor.walks(start + SECOND * 4));
    assert!(floor.walks(start + SECOND * 5));
    floor.note_walk(start, SECOND * 4, false);
    assert!(!floor.walks(start + SECOND * 399));
    assert!(floor.walks(start + SECOND * 400));
}

#[test]
fn looks_without_a_floor_walk_on_and_rest_after_an_error() {
    let mut floor = Floor::default();
    let start = Instant::now();
    floor.note_walk(start, SECOND, false);
    assert!(floor.walks(start));
    floor.note_walk(start, SECOND * 4, true);
    assert!(!floor.walks(start + SECOND * 7));
    assert!(floor.walks(start + SECOND * 8));
}

/// A part that ends at `end` and took so many milliseconds, with timers that are due at `due`.
fn part(end: u64, took: u32, due: &[u64]) -> Part {
    let found = due.iter().map(|due| (at(*due), Id((*due).into()))).collect();
    Part { end: at(end), took: SECOND / 1_000 * took, found }
}

#[test]
fn a_walk_goes_down_from_the_floor_and_sets_one_where_there_is_none() {
    let mut floor = Floor::default();
    let mut end = 1_000_000_000;
    let mut parts = 1;
    while !floor.take(part(end, 1, &[end - 1])) {
        assert_eq!(floor.from, None);
        let below = floor.walk.below.unwrap();
        assert!(below < at(end) - SECOND * 9);
        end = below.as_micros().unsigned_abs() / 1_000_000;
        parts += 1;
    }
    assert_eq!(floor.from, Some(at(1_000_000_000)));
    assert_eq!((floor.behind.len(), floor.behind[0]), (parts, Id(999_999_999)));
    assert!((5..15).contains(&parts), "{parts}");
    // It was quick: the next has one part. Its timers are known besides, wherever they are due.
    floor.set(at(1_000_000_020), [(at(7), Id(7))].into_iter());
    assert!(floor.take(part(1_000_000_010, 1, &[5])));
    assert_eq!((floor.behind.clone(), floor.from), (vec![Id(7), Id(5)], Some(at(1_000_000_010))));
    // A slow part is followed by short ones.
    assert!(floor.take(part(1_000_000_010, 60, &[])));
    assert_eq!(floor.walk.span, Some(SECOND * 10));
}

#[test]
fn a_part_with_too_many_timers_lowers_the_floor() {
    let many: Vec<u64> = (3_000..4_001).collect();
    let mut floor = Floor::default();
    assert!(!floor.take(part(9_000, 1, &[8_995])));
    assert!(!floor.take(part(5_000, 1, &many)));
    floor.walk.span = None;
    assert!(floor.take(part(2_000, 1, &[1_000])));
    // The timers known before are due later.
    assert_eq!(floor.from, Some(at(2_000)));
    assert_eq!((floor.behind.len(), floor.behind[0]), (1, Id(1_000)));
    // Where there is a floor, known timers are not forgotten.
    let mut floor = Floor::default();
    floor.set(at(9_010), [(at(8_995), Id(8_995))].into_iter());
    assert!(!floor.take(part(9_000, 1, &many)));
    assert_eq!((floor.from, floor.behind[0]), (Some(at(4_000)), Id(8_995)));
}

#[test]
fn a_first_walk_knows_no_more_than_a_floor_does() {
    let mut floor = Floor::default();
    let parts = (0..20).map(|n| 10_000 - n * 400);
    let parts: Vec<Vec<u64>> = parts.map(|from| (from..from + 150).collect()).collect();
    for due in &parts {
        assert!(!floor.take(part(due[0] + 200, 25, due)));
        assert!(floor.behind.len() <= MOST, "{}", floor.behind.len());
    }
    floor.walk.span = None;
    assert!(floor.take(part(1, 1, &[])));
    let from = floor.from.unwrap();
    let before = parts.into_iter().flatten().filter(|due| at(*due) < from);
    let before: BTreeSet<u128> = before.map(u128::from).collect();
    assert_eq!(floor.behind.iter().map(|id| id.0).collect::<BTreeSet<_>>(), before);
}

#[test]
fn parts_get_shorter_where_they_are_slow_and_longer_again() {
    let milli = SECOND / 1_000;
    let first = |span, took| next(None, (span, took));
    assert_eq!(first(SECOND * 8, PART), Some(SECOND * 8));
    assert_eq!(first(SECOND * 8, PART * 2), Some(SECOND * 4));
    assert_eq!(first(SECOND * 8, SECOND), Some(SECOND * 2));
    assert_eq!(first(SECOND * 8, milli), Some(SECOND * 32));
    assert_eq!(first(SPANS[1], PART), Some(SPANS[1]));
    assert_eq!(first(SPANS[1], milli), None);
    let shortest = Duration::from_micros(1);
    assert_eq!(first(shortest, SECOND), Some(shortest));
    assert_eq!(first(shortest, milli), Some(shortest * 4));
    // A part as slow though it is shorter, or longer; and a part as much quicker.
    assert_eq!(next(Some((SECOND * 8, PART * 3)), (SECOND * 2, PART * 3)), Some(SECOND * 8));
    assert_eq!(next(Some((SECOND * 2, PART * 3)), (SECOND * 8, PART * 3)), Some(SECOND * 32));
    assert_eq!(next(Some((SECOND * 8, PART * 8)), (SECOND * 2, PART * 2)), Some(SECOND));
    // The same span again says nothing more.
    assert_eq!(next(Some((SECOND, PART)), (SECOND, PART * 2)), Some(SECOND / 2));
    // A part that the server has ended.
    let mut floor = Floor::default();
    floor.walk.span = None;
    floor.narrow();
    assert_eq!(floor.walk.span, Some(SECOND * 10));
    floor.narrow();
    assert_eq!(floor.walk.span, Some(SECOND * 10 / 16));
}

/// Walks to the end through `dense` seconds. The dead rows of each take the server `each`, and a
/// part takes `least` besides. Returns the number of parts, and the time of the longest.
fn walked(least: Duration, dense: u64, each: Duration) -> (u32, Duration) {
    const START: u64 = 1_000_000_000;
    let mut floor = Floor::default();
    let (mut parts, mut longest) = (0, Duration::ZERO);
    loop {
        let end = floor.walk.below.unwrap_or(at(START));
        let below = floor.walk.span.map_or(at(0), |span| end - span);
        let dense = end.since(below.max(at(START - dense)));
        let took = least + each.mul_f64(dense.as_secs_f64());
        (parts, longest) = (parts + 1, longest.max(took));
        assert!(parts < 2_000, "it does not end");
        if floor.take(Part { end, took, found: Vec::new() }) {
            return (parts, longest);
        }
    }
}

#[test]
fn a_server_that_is_slow_at_anything_has_a_walk_of_few_parts() {
    let milli = SECOND / 1_000;
    for least in [0, 1, 20, 26, 60, 1_000] {
        let (parts, _) = walked(least * milli, 0, SECOND);
        assert!((5..15).contains(&parts), "{least} ms: {parts}");
    }
    // Half an hour of a thousand timers in each second, which the server reads in four.
    for least in [1, 60] {
        let (parts, longest) = walked(least * milli, 1_800, SECOND / 450);
        assert!((50..250).contains(&parts), "{least} ms: {parts}");
        assert!(longest <= least * milli + PART * 8, "{least} ms: {longest:?}");
    }
}
