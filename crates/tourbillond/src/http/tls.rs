//! TLS of the listener: its certificate and key. Both can be reloaded while it serves.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ServerConfig, crypto, version};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tourbillon::Timer;
use tourbillon_http_limits::Standing;

use super::room::Seat;
use crate::config::{TlsFiles, TlsVersion};
use crate::pem;
use crate::private::{self, OTHERS};

/// Time for a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// TLS of a listener.
pub struct Tls {
    files: TlsFiles,
    config: watch::Sender<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads the certificate and the key. The log says so if others than its owner and group can
    /// read the key.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, has nothing of its kind, or the key is of another certificate.
    pub fn open(files: &TlsFiles) -> Result<Self, String> {
        if let Some(warning) = private::exposed(&files.key, OTHERS) {
            tracing::warn!("{warning}");
        }
        let config = watch::Sender::new(read(files)?);
        Ok(Self { files: files.clone(), config })
    }

    /// Reads both again. The returned function puts them in force, for connections from then on.
    ///
    /// # Errors
    ///
    /// Like [`Tls::open`]; those in use stay in use.
    pub fn reload(&self) -> Result<impl FnOnce() + '_, String> {
        let config = read(&self.files)?;
        Ok(|| {
            self.config.send_replace(config);
        })
    }

    /// Makes a client's connection one by TLS. `None` if the client does not within
    /// [`HANDSHAKE`], is cut to make room, or the service stops.
    pub(super) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        timer: &Timer,
        seat: &mut Seat,
        stopped: &mut watch::Receiver<bool>,
    ) -> Option<TlsStream<S>> {
        let acceptor = TlsAcceptor::from(self.config.borrow().clone());
        seat.stands(Some((Standing::Silent, timer.now())), 0);
        let cut = seat.cut();
        let accepted = tokio::select! {
            accepted = timer.timeout(HANDSHAKE, acceptor.accept(stream)) => accepted,
            () = cut.notified() => {
                tracing::debug!("a client was cut to make room");
                return None;
            }
            _ = stopped.wait_for(|is| *is) => return None,
        };
        match accepted {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a client began no TLS");
                None
            }
            Err(_) => {
                tracing::debug!("a client was cut: its TLS handshake took too long");
                None
            }
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

fn read(files: &TlsFiles) -> Result<Arc<ServerConfig>, String> {
    let TlsFiles { certificate, key, minimum } = files;
    let wrong = |error| format!("{}: {error}", certificate.display());
    let chain = pem::certificates(certificate)?;
    let private = pem::key(key)?;
    let versions: &[_] = match minimum {
        TlsVersion::V12 => &[&version::TLS13, &version::TLS12],
        TlsVersion::V13 => &[&version::TLS13],
    };
    let provider = Arc::new(crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .map_err(wrong)?;
    let mut config =
        config.with_no_client_auth().with_single_cert(chain, private).map_err(wrong)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::answers::Answers;
    use crate::authority::Authority;
    use crate::http::room::Room;

    fn tls() -> Tls {
        let folder = tempfile::tempdir().unwrap();
        Authority::new().issue(folder.path());
        let [certificate, key] = ["chain.pem", "key.pem"].map(|name| folder.path().join(name));
        Tls::open(&TlsFiles { certificate, key, minimum: TlsVersion::V12 }).unwrap()
    }

    #[tokio::test]
    async fn a_handshake_ends_at_its_limit_for_room_and_when_the_service_stops() {
        let (clock, timer) = crate::watched::clocked();
        let (tls, room) = (tls(), Room::new(1, Answers::new(1 << 20)));
        let (stops, stopped) = watch::channel(false);
        // A client that connects, and sends nothing.
        let (_client, stream) = tokio::io::duplex(1024);
        let (mut seat, mut stopped_too) = (room.seat().await, stopped.clone());
        let accepts = async {
            assert!(tls.accept(stream, &timer, &mut seat, &mut stopped_too).await.is_none());
        };
        let passes = async {
            clock.advance(HANDSHAKE - Duration::from_nanos(1));
            tokio::task::yield_now().await;
            assert_eq!(clock.advance(Duration::from_nanos(1)), 1, "it waits for its limit alone");
        };
        tokio::join!(accepts, passes);

        let (_client, stream) = tokio::io::duplex(1024);
        let cut = async {
            assert!(tls.accept(stream, &timer, &mut seat, &mut stopped_too).await.is_none());
        };
        tokio::join!(cut, async { room.make_room() });
        drop(seat);

        let (_client, stream) = tokio::io::duplex(1024);
        let (mut seat, mut stopped) = (room.seat().await, stopped);
        let ends = async {
            assert!(tls.accept(stream, &timer, &mut seat, &mut stopped).await.is_none());
        };
        tokio::join!(ends, async { stops.send_replace(true) });
    }
}
