//! The store in SQLite passes what every store has to, on a virtual clock and on the host's.

mod file;
mod folder;
#[cfg(unix)]
mod gone;
mod processes;

use std::time::Duration;

use folder::Folder;
use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;
use tourbillon_durable::Store;
use tourbillon_durable::store::Sqlite;
use tourbillon_durable::store::conformance::Rig;

struct OnVirtualTime {
    clock: VirtualClock,
    store: Sqlite,
    _folder: Folder,
}

impl OnVirtualTime {
    fn new() -> Self {
        let clock = VirtualClock::new();
        let timer = Timer::builder().virtual_clock(&clock).build().unwrap();
        let folder = Folder::new();
        let store = Sqlite::with_clock(folder.file(), &timer).unwrap();
        Self { clock, store, _folder: folder }
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

/// Each connection might belong to another process: it shares nothing but the file.
struct OnRealTime(Folder);

impl Rig for OnRealTime {
    fn store(&self) -> Box<dyn Store> {
        Box::new(Sqlite::open(self.0.file()).unwrap())
    }

    fn pass(&self, span: Duration) {
        std::thread::sleep(span);
    }
}

mod on_virtual_time {
    tourbillon_durable::conformance!(super::OnVirtualTime::new());
}

mod on_real_time {
    tourbillon_durable::conformance!(super::OnRealTime(super::Folder::new()));
}
