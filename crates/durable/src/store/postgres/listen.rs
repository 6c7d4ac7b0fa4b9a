//! [`Listening`]: a connection that hears what other connections tell.

use std::future::poll_fn;
use std::time::Duration;

use async_channel::{Receiver, Sender};
use tokio::time::timeout;
use tokio_postgres::AsyncMessage;

use super::link::{Answer, CONNECT, Driver, Failure, Query, Server, Session};
use crate::id::Shards;
use crate::store::{Heard, Result};
use crate::threads::spawn;
use crate::trace;

/// Pause before it connects anew.
const PAUSE: Duration = Duration::from_secs(5);

const LISTEN: &str = "LISTEN tourbillon";

/// Notice of shards, as a hexadecimal mask; anything else stands for all of them.
const NOTIFY: &str = "SELECT pg_notify('tourbillon', $1)";

/// A thread that listens until this is dropped.
pub(super) struct Listening {
    /// Never written to.
    _stop: Sender<()>,
}

impl Listening {
    pub(super) fn start(server: &Server, heard: Heard) -> Result<Self> {
        let (stop, stopped) = async_channel::bounded(1);
        let (server, runtime) = (server.clone(), Driver::new()?);
        spawn("listen", move || runtime.run(listen(server, heard), &stopped))?;
        Ok(Self { _stop: stop })
    }
}

impl Driver {
    /// Runs `work` beside, until the sender has gone.
    fn run(self, work: impl Future<Output = ()> + Send + 'static, stopped: &Receiver<()>) {
        self.block_on(async {
            tokio::spawn(work);
            // Closed, and never written to.
            let _ = stopped.recv().await;
        });
    }
}

/// Tells those who listen.
pub(super) async fn notify(session: &mut Session, shards: Shards) -> Answer<()> {
    session.read(NOTIFY, &[&format!("{:016x}", shards.mask())]).await.map(drop)
}

/// Listens, and connects anew when the connection is lost; not if the server refuses.
async fn listen(server: Server, heard: Heard) {
    loop {
        if let Err(Failure::Postgres(error)) = hear(&server, &heard).await {
            if error.as_db_error().is_some_and(|error| !error.code().code().starts_with("57P")) {
                trace::deaf(&error);
                return;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Listens for as long as the connection lasts.
async fn hear(server: &Server, heard: &Heard) -> Answer<()> {
    let begun = timeout(CONNECT, server.begin()).await;
    let (client, mut connection) = begun.map_err(|_| Failure::Late)??;
    // The connection ends with the client, which is kept with the answer.
    let listening = tokio::spawn(async move {
        client.batch_execute(LISTEN).await?;
        Ok(client)
    });
    while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
        if let AsyncMessage::Notification(notice) = message {
            heard(shards(notice.payload()));
        }
    }
    match listening.await {
        Ok(Err(error)) => Err(Failure::Postgres(error)),
        _ => Ok(()),
    }
}

fn shards(mask: &str) -> Shards {
    let is_mask = mask.len() == 16 && mask.bytes().all(|digit| digit.is_ascii_hexdigit());
    let mask = u64::from_str_radix(mask, 16).ok().filter(|_| is_mask);
    mask.map_or(Shards::ALL, Shards::from_mask)
}

#[cfg(test)]
mod tests {
    use super::{Shards, shards};

    #[test]
    fn a_notice_in_another_form_stands_for_all() {
        assert_eq!(shards("00000000000000f1"), Shards::from_mask(0xf1));
        for other in ["", "f1", "+0000000000000f1", "00000000000000g1", "000000000000000f1"] {
            assert_eq!(shards(other), Shards::ALL, "{other}");
        }
    }
}
