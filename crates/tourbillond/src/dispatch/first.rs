//! First connections. A receiver may speak HTTP/2, and then all callbacks share one connection. So
//! those that come while one is being made wait for it, instead of making one each.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::connect::Steps;

/// Most origins that are remembered.
const KNOWN_MAX: usize = 4_096;

/// End of a shared connection that was waited for. No request was sent by who waited.
#[derive(Debug)]
pub(super) struct SharedEnded;

impl fmt::Display for SharedEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a connection that was to be shared has ended")
    }
}

impl Error for SharedEnded {}

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
    /// True once it was shared and has ended; closed if it is not shared.
    ended: watch::Receiver<bool>,
    steps: Arc<Steps>,
}

/// Connection that others wait for. If it is dropped before it is [shared](Self::shared), each of
/// them makes its own.
#[derive(Debug)]
pub(super) struct First {
    firsts: Arc<Firsts>,
    origin: String,
    ended: watch::Sender<bool>,
    is_made: bool,
    is_shared: bool,
}

impl Firsts {
    /// Returns the first connection to an origin, which the caller makes. `None` if each makes its
    /// own; known after the one that was being made, if there was any.
    ///
    /// # Errors
    ///
    /// If that one was shared and has ended.
    pub(super) async fn wait(
        self: &Arc<Self>,
        origin: &str,
        steps: &Arc<Steps>,
    ) -> io::Result<Option<First>> {
        let mut under_way = {
            let mut known = self.lock();
            if known.single.contains(origin) {
                return Ok(None);
            }
            match known.under_way.get(origin) {
                Some(under_way) => under_way.clone(),
                None => {
                    let (ended, receiver) = watch::channel(false);
                    let under_way = UnderWay { ended: receiver, steps: steps.clone() };
                    known.under_way.insert(origin.to_owned(), under_way);
                    let (firsts, origin) = (self.clone(), origin.to_owned());
                    let (is_made, is_shared) = (false, false);
                    return Ok(Some(First { firsts, origin, ended, is_made, is_shared }));
                }
            }
        };
        steps.set_leader(Some(under_way.steps));
        // A connection by HTTP/2 comes from the client's pool to those who wait. The client lets
        // this run all the same, for nobody, until that connection ends.
        let has_ended = under_way.ended.wait_for(|has_ended| *has_ended).await.is_ok();
        steps.set_leader(None);
        if has_ended { Err(io::Error::other(SharedEnded)) } else { Ok(None) }
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
    pub(super) fn made(&mut self) {
        if !self.is_made {
            self.is_made = true;
            self.firsts.lock().under_way.remove(&self.origin);
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
            self.ended.send_replace(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const ORIGIN: &str = "a.example:443";

    fn first(firsts: &Arc<Firsts>) -> First {
        let first = firsts.wait(ORIGIN, &Arc::default()).now_or_never();
        first.unwrap().unwrap().unwrap()
    }

    #[tokio::test]
    async fn who_waits_makes_its_own_connection_if_the_first_is_not_shared() {
        let firsts = Arc::<Firsts>::default();
        let leader = first(&firsts);
        let steps = Arc::default();
        let mut waits = Box::pin(firsts.wait(ORIGIN, &steps));
        assert!(waits.as_mut().now_or_never().is_none());
        assert!(firsts.wait("b.example:443", &steps).await.unwrap().is_some());
        drop(leader);
        assert!(waits.await.unwrap().is_none());
        // Whatever made the first fail, the next one is first again.
        drop(first(&firsts));
        firsts.note(ORIGIN, false);
        assert!(firsts.wait(ORIGIN, &steps).await.unwrap().is_none());
        firsts.note(ORIGIN, true);
        drop(first(&firsts));
    }

    #[tokio::test]
    async fn who_waits_for_a_shared_connection_makes_none() {
        let firsts = Arc::<Firsts>::default();
        let mut leader = first(&firsts);
        let steps = Arc::default();
        let mut waits = Box::pin(firsts.wait(ORIGIN, &steps));
        assert!(waits.as_mut().now_or_never().is_none());
        leader.made();
        leader.shared();
        assert!(waits.as_mut().now_or_never().is_none());
        // One that the pool does not share any more leaves place for another.
        let second = first(&firsts);
        drop(leader);
        let error = waits.await.unwrap_err();
        assert!(error.get_ref().unwrap().is::<SharedEnded>(), "{error}");
        let waits = firsts.wait(ORIGIN, &steps);
        assert!(waits.now_or_never().is_none(), "the second is being made");
        drop(second);
    }

    #[tokio::test]
    async fn who_waits_for_a_connection_by_a_proxy_is_before_the_proxy_too() {
        let firsts = Arc::<Firsts>::default();
        let [leading, waiting] = [(); 2].map(|()| Arc::<Steps>::default());
        let leader = firsts.wait(ORIGIN, &leading).await.unwrap().unwrap();
        let mut waits = Box::pin(firsts.wait(ORIGIN, &waiting));
        assert!(waits.as_mut().now_or_never().is_none());
        for is in [true, false, true] {
            leading.set_before_proxy(is);
            assert_eq!(waiting.are_before_proxy(), is);
        }
        drop(leader);
        assert!(waits.await.unwrap().is_none());
        assert!(!waiting.are_before_proxy());
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
