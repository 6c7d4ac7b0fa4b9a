//! Bursts of more items than an adapter takes in one poll, and consumers that are slow.

use futures::stream::BoxStream;

use super::*;

/// Items that come at once. More than three polls take.
const BURST: usize = 100;

/// Milliseconds from one burst to the next.
const EVERY: u64 = 10;

const BURSTS: u64 = 30;

/// Yields the numbers of items. `kept` says which of a burst there are, by their place in it.
fn bursts(timer: &Timer, kept: fn(usize) -> bool) -> BoxStream<'static, usize> {
    let (timer, start) = (timer.clone(), timer.now());
    let numbers = (0..BURSTS as usize * BURST).filter(move |number| kept(number % BURST));
    let come = move |number| {
        let sleep = timer.sleep_until(start + ms((number / BURST) as u64 * EVERY));
        async move {
            sleep.await;
            number
        }
    };
    stream::iter(numbers).then(come).boxed()
}

/// Items of a burst that an adapter delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivers {
    Every,
    Last,
    /// The first, to a consumer that takes less time than this; to others every item.
    First(u64),
}

/// All adapters over `source`, with the numbers that each of their items has.
fn adapters(
    timer: &Timer,
    source: impl Fn() -> BoxStream<'static, usize>,
) -> Vec<(Delivers, BoxStream<'static, Vec<usize>>)> {
    let over = |period: u64| (source().on_timer(timer), ms(period));
    let mut all = Vec::new();
    for period in [1, 7, EVERY, 25, 1_000] {
        let (source, limit) = over(period);
        let numbers = source.timeout(limit).into_stream().map(|item| Vec::from_iter(item.ok()));
        all.push((Delivers::Every, numbers.boxed()));
        let (source, limit) = over(period);
        let numbers = source.into_stream().timeout_repeating(timer.interval(limit));
        // Of a burst of errors too: there is one for each tick.
        all.push((Delivers::Every, numbers.map(|item| Vec::from_iter(item.ok())).boxed()));
        let (source, span) = over(period);
        let numbers = source.throttle(span).into_stream().map(|number| vec![number]);
        all.push((Delivers::Every, numbers.boxed()));
        let (source, span) = over(period);
        let numbers = source.delay(span).into_stream().map(|number| vec![number]);
        all.push((Delivers::Every, numbers.boxed()));
        for max in [1, 32, 40, BURST, 1_000] {
            let (source, limit) = over(period);
            all.push((Delivers::Every, source.chunks_timeout(max, limit).into_stream().boxed()));
        }
        let (source, span) = over(period);
        let numbers = source.throttle_first(span).into_stream().map(|number| vec![number]);
        all.push((Delivers::First(period), numbers.boxed()));
        let (source, quiet) = over(period);
        let numbers = source.debounce(quiet).into_stream().map(|number| vec![number]);
        all.push((Delivers::Last, numbers.boxed()));
        let (source, span) = over(period);
        let numbers = source.sample(span).into_stream().map(|number| vec![number]);
        all.push((Delivers::Last, numbers.boxed()));
    }
    all
}

/// Items, each with the milliseconds that it took from the start.
type Seen<T> = Vec<(u128, T)>;

/// Takes all items, with so many milliseconds between them.
fn consume<T>(clock: &VirtualClock, mut stream: BoxStream<'_, T>, pause: u64) -> Seen<T> {
    let start = clock.now();
    let mut seen = Vec::new();
    while let Some(item) = clock.block_on(stream.next()) {
        seen.push(((clock.now() - start).as_millis(), item));
        clock.advance(ms(pause));
    }
    seen
}

/// The module's docs describe the state after a poll that has taken as many items as it may. The
/// polls after it take that as if there were no such number.
#[test]
fn what_an_adapter_makes_of_a_burst_does_not_depend_on_how_many_items_a_poll_takes() {
    /// Runs the adapter at `place` over bursts of the items that are `kept`.
    fn run(
        place: usize,
        pause: u64,
        kept: fn(usize) -> bool,
    ) -> Option<(Delivers, Seen<Vec<usize>>)> {
        let (timer, clock) = virtual_timer();
        let source = || bursts(&timer, kept);
        let (delivers, stream) = adapters(&timer, source).into_iter().nth(place)?;
        Some((delivers, consume(&clock, stream, pause)))
    }

    for pause in [0, 3, EVERY, 25] {
        let all = (0..).map_while(|place| Some((place, run(place, pause, |_| true)?)));
        for (place, (delivers, seen)) in all {
            let alone = |kept| run(place, pause, kept).expect("there is one").1;
            let expected = match delivers {
                Delivers::Last => alone(|place| place == BURST - 1),
                Delivers::First(period) if pause < period => alone(|place| place == 0),
                Delivers::First(_) | Delivers::Every => {
                    let numbers = seen.iter().flat_map(|(_, numbers)| numbers);
                    assert!(
                        numbers.copied().eq(0..BURSTS as usize * BURST),
                        "{place} {delivers:?}"
                    );
                    continue;
                }
            };
            assert_eq!(seen, expected, "adapter {place}, which delivers {delivers:?}, at {pause}");
        }
    }
}

/// Bursts end no chunk: only its limit and the end of the source do.
#[test]
fn a_chunk_is_full_or_old_however_many_polls_its_items_take() {
    for (max, pause) in [(40, 0), (40, EVERY), (BURST, 3), (1_000, 25)] {
        let (timer, clock) = virtual_timer();
        let chunks = bursts(&timer, |_| true).on_timer(&timer).chunks_timeout(max, 3 * ms(EVERY));
        let seen = consume(&clock, chunks.into_stream().boxed(), pause);
        let short = seen.iter().filter(|(_, chunk)| chunk.len() < max).count();
        // The bursts that the time or the source ends.
        let ended = if max == 1_000 { seen.len() } else { 1 };
        assert!(short <= ended, "{short} of {} chunks of {max} are not full", seen.len());
    }
}

#[test]
fn a_source_that_is_always_ready_is_sampled_once_a_period() {
    for (pause, every) in [(ms(0), 10), (ms(4), 14), (ms(10), 20), (ms(15), 25)] {
        let (timer, clock) = virtual_timer();
        let start = timer.now();
        let passing = clock.clone();
        let (source, _) = endless();
        // Each item takes a tenth of a millisecond.
        let source = source.inspect(move |_| passing.jump(Duration::from_micros(100)));
        let mut samples = source.on_timer(&timer).sample(ms(10)).into_stream();
        let mut times = Vec::new();
        while times.len() < 20 {
            clock.block_on(samples.next()).expect("it has no end");
            times.push((clock.now() - start).as_millis() as u64);
            clock.advance(pause);
        }
        // The last poll takes 32 items.
        let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(longest <= Some(every + 4), "{times:?}");
    }
}

/// As many items as take longer than a period, for a consumer that comes at the ends of periods.
#[test]
fn a_sample_is_behind_with_no_more_than_a_period_has_no_room_for() {
    let (timer, clock) = virtual_timer();
    let (start, passing) = (timer.now(), clock.clone());
    let take = move |number: &u32| {
        if number % 32 == 31 {
            passing.jump(ms(3));
        }
    };
    let source = stream::iter(0..32 * 100).inspect(take);
    let mut samples = source.on_timer(&timer).sample(ms(10)).into_stream();
    let mut seen = Vec::new();
    while let Some(sample) = clock.block_on(samples.next()) {
        seen.push(sample);
        let since = (clock.now() - start).as_millis() as u64;
        clock.advance(ms(10 - since % 10));
    }
    // Four polls take a period, or a little longer.
    assert!(seen.windows(2).rev().skip(1).all(|pair| pair[1] - pair[0] == 4 * 32), "{seen:?}");
}

#[test]
fn an_error_is_an_item_like_others_and_may_be_dropped() {
    let (timer, clock) = virtual_timer();
    let results = || stream::iter([Ok(1), Err("dropped"), Ok(2)]).on_timer(&timer);
    let calm = results().debounce(ms(1)).into_stream();
    assert_eq!(trace_to_end(&clock, calm).0, [(0, Ok(2))]);
    let samples = results().sample(ms(1)).into_stream();
    assert_eq!(trace_to_end(&clock, samples).0, [(0, Ok(2))]);
    let first = results().throttle_first(ms(1)).into_stream();
    let started = clock.now();
    assert_eq!(trace_to_end(&clock, first).0, [(0, Ok(1))]);
    assert_eq!(clock.now(), started);
    let chunks = results().chunks_timeout(9, ms(1)).into_stream();
    let whole = vec![Ok(1), Err("dropped"), Ok(2)];
    assert_eq!(trace_to_end(&clock, chunks).0, [(0, whole)], "which drops nothing");
}
