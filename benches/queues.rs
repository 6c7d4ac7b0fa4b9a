//! Cost of an entry that does not expire, among ten thousand others, beside tokio-util's queue.

use std::hint::black_box;
use std::time::Duration;

use criterion::Criterion;
use tourbillon::queue::{DelayQueue, TimeoutQueue};

type Theirs = tokio_util::time::DelayQueue<()>;

const FAR: Duration = Duration::from_secs(1_000);
const OTHERS: usize = 10_000;

/// Measures what is done with a queue and the keys of the others.
fn measure<Q, K>(
    (criterion, name): (&mut Criterion, &str),
    mut queue: Q,
    insert: fn(&mut Q) -> K,
    remove: fn(&mut Q, &K),
    put_off: fn(&mut Q, &K),
) {
    let keys: Vec<_> = (0..OTHERS).map(|_| insert(&mut queue)).collect();
    criterion.bench_function(&format!("insert and remove/{name}"), |bencher| {
        bencher.iter(|| {
            let key = insert(&mut queue);
            remove(&mut queue, black_box(&key));
        });
    });
    let mut at = 0;
    criterion.bench_function(&format!("put off/{name}"), |bencher| {
        bencher.iter(|| {
            at = (at + 7_919) % OTHERS;
            put_off(&mut queue, black_box(&keys[at]));
        });
    });
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("the system has what a runtime needs");
    let _entered = runtime.enter();
    let mut criterion = Criterion::default().configure_from_args();
    measure(
        (&mut criterion, "TimeoutQueue"),
        TimeoutQueue::new(FAR),
        |queue| queue.push(()),
        |queue, key| _ = queue.remove(key),
        TimeoutQueue::refresh,
    );
    measure(
        (&mut criterion, "DelayQueue"),
        DelayQueue::new(),
        |queue| queue.insert((), FAR),
        |queue, key| _ = queue.remove(key),
        |queue, key| queue.reset(key, FAR),
    );
    measure(
        (&mut criterion, "tokio-util's DelayQueue"),
        Theirs::new(),
        |queue| queue.insert((), FAR),
        |queue, key| _ = queue.remove(key),
        |queue, key| queue.reset(key, FAR),
    );
    criterion.final_summary();
}
