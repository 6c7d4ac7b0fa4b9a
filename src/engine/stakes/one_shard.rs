//! References of sleeps to an engine, where it has one shard.

use crate::engine::Engine;
use crate::sync::Arc;

/// An engine, and a stake in it: the same, as nobody else counts.
#[derive(Debug)]
pub(crate) struct Stakes {
    engine: Arc<Engine>,
}

/// A counted reference to an engine.
#[derive(Clone, Debug)]
pub(crate) struct Stake(Arc<Engine>);

impl Stakes {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    pub(crate) fn take(&self) -> Stake {
        Stake(Arc::clone(&self.engine))
    }
}

impl Stake {
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.0
    }
}
