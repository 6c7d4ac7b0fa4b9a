//! A beat, and looks for work, that go along with a scan in one statement.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::answer::Answer;
use super::floor::Floor;
use super::values::{Id, Span, Stamp, big, mask};
use crate::id::{Lease, NodeId};
use crate::store::{Beat, Pulse, Pulsed};
use crate::time::Time;

/// Renews the lease of `$7` and `$8`, for `$9`.
macro_rules! beat {
    () => {
        "WITH life AS (
             UPDATE tourbillon.node SET expires = now() + $9::interval, beat = now()
             WHERE id = $7 AND epoch = $8
             RETURNING id, beat
         ),
         alive AS (
             SELECT id, beat FROM life
             UNION ALL
             SELECT id, beat FROM tourbillon.node WHERE id <> $7 AND EXISTS (SELECT 1 FROM life)
         ) "
    };
}

/// The living nodes; whether a schedule of the shards `$10` comes within `$11`; and whether there
/// is work, where due timers are read from `$12` on.
///
/// The looks for work are the beginnings of the statements of [`maintain`](super::nodes::maintain)
/// and [`held`](super::nodes::held). Each look reads the first entry of one index, in the order of
/// that: so the server has no choice of another one.
macro_rules! answers {
    () => {
        ", ARRAY(SELECT id FROM alive ORDER BY id), ARRAY(SELECT beat FROM alive ORDER BY id),
         EXISTS (
             SELECT 1 FROM generate_series(0, 63) AS k (shard), LATERAL (
                 SELECT s.id FROM tourbillon.schedule AS s
                 WHERE s.enabled AND s.shard = k.shard::int2 AND s.next <= now() + $11::interval
                 ORDER BY s.next, s.id LIMIT 1
             ) AS first
             WHERE ($10::int8 >> k.shard) & 1 = 1
         ),
         CASE WHEN $12::timestamptz IS NULL THEN true ELSE
             EXISTS (SELECT 1 FROM tourbillon.node WHERE expires < now() AND id <> $7)
             OR (
                 SELECT id FROM tourbillon.timer
                 WHERE due <= now() AND due >= $12 AND shard >= 0 ORDER BY due, id LIMIT 1
             ) IS NOT NULL
             OR EXISTS (SELECT 1 FROM tourbillon.timer WHERE stopped IS NOT NULL)
             OR (
                 SELECT schedule FROM tourbillon.timer
                 WHERE due = 'infinity' AND schedule IS NOT NULL AND lane IS NULL
                 ORDER BY schedule LIMIT 1
             ) IS NOT NULL
             OR (
                 SELECT lane FROM tourbillon.timer
                 WHERE lane > '' AND lane IS NOT NULL AND due = 'infinity'
                 ORDER BY lane LIMIT 1
             ) IS NOT NULL
         END "
    };
}
pub(super) use {answers, beat};

/// Parameters from `$7` on.
pub(super) struct Values {
    node: Id,
    epoch: i64,
    span: Span,
    shards: i64,
    ahead: Span,
    /// None if there is work, as far as the connection knows, or nobody asks.
    from: Option<Stamp>,
}

impl Values {
    pub(super) fn new(pulse: &Pulse, floor: &Floor) -> Self {
        let Pulse { lease, span, shards, ahead, asks_for_work } = *pulse;
        Self {
            node: lease.node.into(),
            epoch: big(lease.epoch),
            span: Span(span),
            shards: mask(shards),
            ahead: Span(ahead),
            from: floor.from.filter(|_| asks_for_work && floor.behind.is_empty()).map(Stamp),
        }
    }

    pub(super) fn params(&self) -> [&(dyn ToSql + Sync); 6] {
        [&self.node, &self.epoch, &self.span, &self.shards, &self.ahead, &self.from]
    }
}

/// Reads the columns that follow the scan's.
pub(super) fn pulsed(row: &Row, lease: Lease, now: Time) -> Answer<Pulsed> {
    let (ids, beats): (Vec<Id>, Vec<Stamp>) = (row.try_get(4)?, row.try_get(5)?);
    let beats = beats.into_iter().map(|Stamp(beat)| beat);
    let nodes: Vec<_> = ids.into_iter().map(NodeId::from).zip(beats).collect();
    let beat = (!nodes.is_empty()).then_some(Beat { lease, now, nodes });
    Ok(Pulsed { beat, is_upcoming: row.try_get(6)?, has_work: row.try_get(7)? })
}
