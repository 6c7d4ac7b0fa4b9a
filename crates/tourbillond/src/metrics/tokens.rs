//! Last uses of tokens. They are kept in memory, because a write for each request would cost more
//! than the request; Prometheus keeps them for longer.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use metrics::{Unit, describe_gauge, gauge};

const LAST_USE: &str = "tourbillond_token_last_use_timestamp_seconds";

/// Last use of each token by its name, in microseconds since the Unix epoch.
static LAST_USES: Mutex<BTreeMap<String, i64>> = Mutex::new(BTreeMap::new());

pub(super) fn describe() {
    describe_gauge!(
        LAST_USE,
        Unit::Seconds,
        "Last request with a token, by its name, since the Unix epoch; 0 without one."
    );
}

/// Takes note of a request with the token of this name, at a time in microseconds since the Unix
/// epoch.
pub(crate) fn used(name: &str, at_us: i64) {
    let mut all = LAST_USES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(last) = all.get_mut(name) {
        *last = at_us.max(*last);
    } else {
        all.insert(name.to_owned(), at_us);
    }
}

/// Has the metrics show the last use of each of these tokens.
pub(crate) fn show_uses(names: impl Iterator<Item = String>) {
    let all = LAST_USES.lock().unwrap_or_else(PoisonError::into_inner);
    for name in names {
        let last = all.get(&name).copied().unwrap_or_default();
        gauge!(LAST_USE, "token" => name).set(last as f64 / 1e6);
    }
}
