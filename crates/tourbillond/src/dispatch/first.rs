//! First connections. A receiver may speak HTTP/2, and then all callbacks share one connection. So
//! those that come while one is being made wait for it a little, instead of making one each.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tourbillon::{timeout, timeout_at};

/// Most origins that are remembered.
const KNOWN_MAX: usize = 4_096;

/// Age up to which a connection that is being made is waited for. One that takes longer may hang,
/// and then another may not.
const WAIT: Duration = Duration::from_millis(500);

/// Loss of a shared connection that was waited for. No request was sent by who waited.
#[derive(Debug)]
pub(super) struct SharedLost;

impl fmt::Display for SharedLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a connection that was to be shared is gone")
    }
}

impl Error for SharedLost {}

/// Connections that others wait for, by origin: a host and a port.
#[derive(Debug, Default)]
pub(super) struct Firsts(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Connections that are being made.
    under_way: HashMap<String, UnderWay>,
    /// Origins whose last connection was by HTTP/1.1, where each needs its own.
    single: HashSet<String>,
}

/// Connection that is being made.
#[derive(Clone, Debug)]
struct UnderWay {
    since: Instant,
    /// Closed once the connection is no longer made, or ended without being shared.
    stage: watch::Receiver<Stage>,
}

/// Stage of a first connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Making,
    Made,
    /// It was shared, and has ended.
    Ended,
}

/// Connection that others wait for. If it is dropped before it is [shared](Self::shared), each of
/// them makes its own.
#[derive(Debug)]
pub(super) struct First {
    firsts: Arc<Firsts>,
    origin: String,
    stage: watch::Sender<Stage>,
    is_shared: bool,
}

impl Firsts {
    /// Returns the first connection to an origin, which the caller makes. `None` if it makes one of
    /// its own: at once, or after the one that was being made, or once that is [old](WAIT).
    ///
    /// # Errors
    ///
    /// If that one was made and the caller, to whom the client's pool gives it, is still here.
    pub(super) async fn wait(self: &Arc<Self>, origin: &str) -> io::Result<Option<First>> {
        let UnderWay { since, mut stage } = {
            let mut known = self.lock();
            if known.single.contains(origin) {
                return Ok(None);
            }
            match known.under_way.get(origin) {
                Some(under_way) => under_way.clone(),
                None => {
                    let (stage, receiver) = watch::channel(Stage::Making);
                    let under_way = UnderWay { since: Instant::now(), stage: receiver };
                    known.under_way.insert(origin.to_owned(), under_way);
                    let (firsts, origin) = (self.clone(), origin.to_owned());
                    return Ok(Some(First { firsts, origin, stage, is_shared: false }));
                }
            }
        };
        let made = stage.wait_for(|stage| *stage != Stage::Making);
        if !matches!(timeout_at(since + WAIT, made).await, Ok(Ok(_))) {
            return Ok(None);
        }
        // A connection by HTTP/2 comes from the client's pool to those who wait. The client lets
        // this run all the same, for nobody, and a connection of its own would be one too many. The
        // pool may also have lost it by now; then the request is sent anew.
        let ended = timeout(WAIT, stage.wait_for(|stage| *stage == Stage::Ended)).await;
        if matches!(ended, Ok(Err(_))) { Ok(None) } else { Err(io::Error::other(SharedLost)) }
    }

    /// Notes which protocol an origin speaks.
    pub(super) fn note(&self, origin: &str, is_http2: bool) {
        let mut known = self.lock();
        if is_http2 {
            known.single.remove(origin);
            return;
        }
        if known.single.len() >= KNOWN_MAX {
            known.single.clear();
        }
        known.single.insert(origin.to_owned());
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl First {
    /// The connection is made. No more callbacks wait for it: by HTTP/2 they have it from the
    /// client's pool.
    pub(super) fn made(&self) {
        if *self.stage.borrow() == Stage::Making {
            self.firsts.lock().under_way.remove(&self.origin);
            self.stage.send_replace(Stage::Made);
        }
    }

    /// The receiver has answered on the connection by HTTP/2.
    pub(super) fn shared(&mut self) {
        self.is_shared = true;
    }
}

impl Drop for First {
    fn drop(&mut self) {
        self.made();
        if self.is_shared {
            self.stage.send_replace(Stage::Ended);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const ORIGIN: &str = "a.example:443";

    fn first(firsts: &Arc<Firsts>) -> First {
        firsts.wait(ORIGIN).now_or_never().unwrap().unwrap().unwrap()
    }

    #[tokio::test]
    async fn who_waits_makes_its_own_connection_if_the_first_is_not_shared() {
        let firsts = Arc::<Firsts>::default();
        let leader = first(&firsts);
        let mut waits = Box::pin(firsts.wait(ORIGIN));
        assert!(waits.as_mut().now_or_never().is_none());
        assert!(firsts.wait("b.example:443").await.unwrap().is_some());
        drop(leader);
        assert!(waits.await.unwrap().is_none());
        // Whatever made the first fail, the next one is first again.
        drop(first(&firsts));
        firsts.note(ORIGIN, false);
        assert!(firsts.wait(ORIGIN).await.unwrap().is_none());
        firsts.note(ORIGIN, true);
        drop(first(&firsts));
    }

    #[tokio::test]
    async fn who_waits_too_long_makes_its_own_connection() {
        let firsts = Arc::<Firsts>::default();
        let hangs = first(&firsts);
        assert!(firsts.wait(ORIGIN).await.unwrap().is_none());
        drop(hangs);
        drop(first(&firsts));
    }

    #[tokio::test]
    async fn who_waits_for_a_shared_connection_makes_none() {
        let firsts = Arc::<Firsts>::default();
        let mut leader = first(&firsts);
        let mut waits = Box::pin(firsts.wait(ORIGIN));
        assert!(waits.as_mut().now_or_never().is_none());
        leader.made();
        leader.shared();
        assert!(waits.as_mut().now_or_never().is_none());
        // One that the pool does not share any more leaves place for another.
        let second = first(&firsts);
        drop(leader);
        let error = waits.await.unwrap_err();
        assert!(error.get_ref().unwrap().is::<SharedLost>(), "{error}");
        let waits = firsts.wait(ORIGIN);
        assert!(waits.now_or_never().is_none(), "the second is being made");
        drop(second);
    }

    #[test]
    fn no_more_origins_are_remembered_than_the_limit() {
        let firsts = Firsts::default();
        for number in 0..2 * KNOWN_MAX {
            firsts.note(&number.to_string(), false);
        }
        assert!(firsts.lock().single.len() <= KNOWN_MAX);
    }
}
