//! Costs of timers for the server: its processors' time, and its log.

use std::thread;
use std::time::Duration;

use tourbillon_durable::Time;

use super::{Run, now};
use crate::Result;
use crate::cluster::Cluster;

/// Bytes of the log between two positions, and how many of them are images of whole pages.
const LOG: &str = "\
    SELECT sum(record_size)::int8, sum(fpi_size)::int8 \
    FROM (SELECT * FROM pg_get_wal_stats($1::text::pg_lsn, $2::text::pg_lsn)) AS kinds";

/// Costs of a server up to a moment. SQLite has none.
pub(super) struct Costs(Option<Server>);

struct Server {
    processor: Duration,
    /// Position of the log.
    position: String,
}

impl Run {
    /// Writes every page that has changed to the disk, if that is wanted: of each the log then has
    /// an image when it is next changed.
    pub(super) fn checkpoint(&self) -> Result<()> {
        if self.options.checkpoint && self.address.is_postgres() {
            self.address.client()?.batch_execute("CHECKPOINT")?;
        }
        Ok(())
    }

    /// Returns the server's costs so far.
    pub(super) fn costs(&self) -> Result<Costs> {
        if !self.address.is_postgres() {
            return Ok(Costs(None));
        }
        let position = "SELECT pg_current_wal_flush_lsn()::text";
        let row = self.address.client()?.query_one(position, &[])?;
        let processor = Cluster::from_environment()?.processor()?;
        Ok(Costs(Some(Server { processor, position: row.get(0) })))
    }

    /// Waits until `moment`, and returns the server's costs by then.
    pub(super) fn costs_at(&self, moment: Time) -> Result<Costs> {
        thread::sleep(moment.since(now()));
        self.costs()
    }

    /// Describes the costs of `count` timers between two moments.
    pub(super) fn between(&self, before: &Costs, after: &Costs, count: usize) -> Result<String> {
        let (Some(before), Some(after)) = (&before.0, &after.0) else { return Ok(String::new()) };
        let mut client = self.address.client()?;
        client.batch_execute("CREATE EXTENSION IF NOT EXISTS pg_walinspect")?;
        let row = client.query_one(LOG, &[&before.position, &after.position])?;
        let each = |sum: f64| sum / count as f64;
        let processor = each((after.processor - before.processor).as_micros() as f64);
        let (bytes, images) = (row.get::<_, i64>(0) as f64, row.get::<_, i64>(1) as f64);
        Ok(format!(
            ", server {processor:.1} us and WAL {:.0} B a timer ({:.0} B images of pages)",
            each(bytes + images),
            each(images),
        ))
    }
}
