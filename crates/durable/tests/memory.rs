//! The store in memory passes what every store has to.

use std::time::Duration;

use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;
use tourbillon_durable::Store;
use tourbillon_durable::store::Memory;
use tourbillon_durable::store::conformance::Rig;

struct OnVirtualTime {
    clock: VirtualClock,
    store: Memory,
}

impl OnVirtualTime {
    fn new() -> Self {
        let clock = VirtualClock::new();
        let timer = Timer::builder().virtual_clock(&clock).build().unwrap();
        Self { clock, store: Memory::new(&timer) }
    }
}

impl Rig for OnVirtualTime {
    fn store(&self) -> Box<dyn Store> {
        self.store.connect().unwrap()
    }

    fn pass(&self, span: Duration) {
        self.clock.advance(span);
    }
}

tourbillon_durable::conformance!(OnVirtualTime::new());
