//! The store on PostgreSQL, on a real cluster: `ci/durable-postgres.sh` makes one.

mod cluster;

use std::time::Duration;

use cluster::Database;
use tourbillon_durable::Store;
use tourbillon_durable::store::conformance::Rig;

impl Rig for Database {
    fn store(&self) -> Box<dyn Store> {
        Box::new(self.connect())
    }

    fn pass(&self, span: Duration) {
        std::thread::sleep(span);
    }
}

mod conformance {
    use super::cluster::Database;

    tourbillon_durable::conformance!(Database::new());
}
