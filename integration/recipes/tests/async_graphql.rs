//! async-graphql's timer, by which its data loader waits for more keys.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_graphql::dataloader::{DataLoader, Loader};
use async_graphql::runtime;
use futures::executor::ThreadPool;
use futures::future::{BoxFuture, FutureExt, join};
use futures::task::{FutureObj, Spawn, SpawnError, SpawnExt};
use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;

/// A timer, for a trait of another crate.
struct Ours(Timer);

impl runtime::Timer for Ours {
    fn delay(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep(duration).boxed()
    }
}

/// Starts tasks that hold a virtual clock while they can run.
struct Tracked(VirtualClock, ThreadPool);

impl Spawn for Tracked {
    fn spawn_obj(&self, future: FutureObj<'static, ()>) -> Result<(), SpawnError> {
        self.1.spawn(self.0.track(future))
    }
}

/// Counts how often it is called.
struct Doubles(Arc<AtomicUsize>);

impl Loader<u32> for Doubles {
    type Value = u32;
    type Error = Infallible;

    async fn load(&self, keys: &[u32]) -> Result<HashMap<u32, u32>, Infallible> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(keys.iter().map(|key| (*key, 2 * key)).collect())
    }
}

#[test]
fn a_loader_waits_for_more_keys_in_virtual_time() {
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().expect("the options are valid");
    let pool = ThreadPool::builder().pool_size(1).create().expect("a thread starts");
    let calls = Arc::new(AtomicUsize::new(0));
    let spawner = Tracked(clock.clone(), pool);
    let delay = Duration::from_secs(3600);
    let loader = DataLoader::new(Doubles(Arc::clone(&calls)), spawner, Ours(timer)).delay(delay);
    let start = clock.now();
    let both = clock.block_on(join(loader.load_one(3), loader.load_one(4)));
    assert_eq!(both, (Ok(Some(6)), Ok(Some(8))));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!(clock.now() - start, delay);
}
