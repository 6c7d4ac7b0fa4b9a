//! The shards whose timers a node claims when they are due: each living node has different ones.

use std::time::Duration;

use crate::id::{NodeId, SHARDS, Shards, mix};
use crate::time::Time;

/// Returns the shards of `node` among `nodes`, each given with its last beat: the shards for which
/// it draws the highest number. A node without a beat for `patience` does not draw, so that the
/// others read its shards.
///
/// The nodes draw whatever kinds they serve, so the node of a shard may not serve all kinds in it;
/// and two nodes that see the beats differently may both read a shard, or neither. A timer missed
/// in this way is read by every node once it is late.
pub(crate) fn of(node: NodeId, nodes: &[(NodeId, Time)], now: Time, patience: Duration) -> Shards {
    let drawing = nodes.iter().filter(|(id, beat)| *id != node && now.since(*beat) <= patience);
    let others: Vec<NodeId> = drawing.map(|(id, _)| *id).collect();
    let draws = |id: NodeId, shard: u8| {
        let bits = id.bits();
        (mix(mix(bits as u64 ^ u64::from(shard)) ^ (bits >> 64) as u64), id)
    };
    let is_mine =
        |shard: &u8| others.iter().all(|other| draws(*other, *shard) < draws(node, *shard));
    Shards::from_mask((0..SHARDS).filter(is_mine).fold(0, |mask, shard| mask | 1 << shard))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::of;
    use crate::id::{NodeId, Shards};
    use crate::time::Time;

    const PATIENCE: Duration = Duration::from_secs(2);

    fn nodes(count: u128) -> Vec<(NodeId, Time)> {
        (1..=count).map(|n| (NodeId::from_bits(n), Time::from_micros(0))).collect()
    }

    #[test]
    fn every_shard_has_one_node() {
        for count in 1..6 {
            let nodes = nodes(count);
            let now = Time::from_micros(1);
            let shards: Vec<u64> =
                nodes.iter().map(|(id, _)| of(*id, &nodes, now, PATIENCE).mask()).collect();
            assert_eq!(shards.iter().fold(0, |all, mask| all | mask), Shards::ALL.mask());
            let sum: u32 = shards.iter().map(|mask| mask.count_ones()).sum();
            assert_eq!(sum, 64);
            assert!(shards.iter().all(|mask| *mask != 0), "{shards:?}");
        }
    }

    #[test]
    fn a_node_that_joins_moves_no_shard_between_others() {
        for count in 1..6 {
            let (before, after) = (nodes(count), nodes(count + 1));
            let now = Time::from_micros(1);
            for (id, _) in &before {
                let had = of(*id, &before, now, PATIENCE).mask();
                let has = of(*id, &after, now, PATIENCE).mask();
                assert_eq!(has & !had, 0, "node {id} of {count}");
            }
        }
    }

    #[test]
    fn a_suspects_shards_are_read_by_others() {
        let mut nodes = nodes(2);
        let now = Time::from_micros(0) + PATIENCE * 2;
        nodes[1].1 = now;
        assert_eq!(of(nodes[1].0, &nodes, now, PATIENCE), Shards::ALL);
        assert_ne!(of(nodes[0].0, &nodes, now, PATIENCE), Shards::ALL);
    }
}
