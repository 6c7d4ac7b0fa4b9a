//! Nodes, clients and faults on one thread and a virtual clock, against a naive model.
//!
//! Each run is decided by its seed. `DURABLE_SEEDS=FIRST..END` runs others, with `cargo test -p
//! tourbillon-durable --lib simulation`. `ci/durable-canaries.sh`, in the repository, shows it
//! seeded bugs.

mod faulty;
mod model;
mod world;

pub(crate) use world::random;

use model::Model;
use world::World;

/// Steps of one run.
const STEPS: usize = 3_000;

/// Runs the world of one seed. Returns how many attempts started, and how many of them were of
/// timers that another node was to claim.
fn run(seed: u64, faults: u32) -> [usize; 2] {
    struct Seed(u64);
    impl Drop for Seed {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("DURABLE_SEEDS={}..{}", self.0, self.0 + 1);
            }
            World::end();
        }
    }
    let _seed = Seed(seed);
    let world = World::begin(seed, faults);
    (0..STEPS).for_each(|_| world.step());
    world.calm_down();
    Model::stop_all(&world);
    world.calm_down();
    let model = world.model.borrow();
    model.check_end(&world);
    [model.events(), world.strays.get()]
}

fn seeds(default: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("DURABLE_SEEDS") else { return default };
    let ends = text.split_once("..").map(|(first, end)| (first.parse(), end.parse()));
    let Some((Ok(first), Ok(end))) = ends else { panic!("DURABLE_SEEDS={text}") };
    first..end
}

/// Runs the worlds of these seeds, and adds up their results.
fn sum(seeds: std::ops::Range<u64>, faults: u32) -> [usize; 2] {
    let add = |sum: [usize; 2], run: [usize; 2]| [0, 1].map(|of| sum[of] + run[of]);
    seeds.map(|seed| run(seed, faults)).fold([0; 2], add)
}

#[test]
fn a_world_without_faults_loses_nothing() {
    let [events, strays] = sum(seeds(0..10), 0);
    assert!(events > 1_000, "{events} attempts started");
    // A world begins with nodes that do not know of each other.
    assert!(strays * 100 < events, "{strays} of {events} attempts were for other nodes");
}

#[test]
fn a_world_with_faults_loses_nothing() {
    let [events, ..] = sum(seeds(100..120), 30);
    assert!(events > 1_000, "{events} attempts started");
}

#[test]
fn a_world_with_many_faults_loses_nothing() {
    let [events, ..] = sum(seeds(200..220), 150);
    assert!(events > 300, "{events} attempts started");
}
