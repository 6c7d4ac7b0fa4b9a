//! [`Listening`]: a connection that receives other connections' notices.

use std::sync::Arc;
use std::time::Duration;

use async_channel::{Receiver, Sender};
use tokio::time::{Instant, timeout};
use tokio_postgres::{Client, SimpleQueryMessage};

use super::answer::{Answer, Failure, PATIENCE, unavailable};
use super::link::{Driver, Query, Session};
use super::server::{Notified, Opened, Server};
use crate::id::Shards;
use crate::store::{Heard, Notification, Result};
use crate::threads::spawn;
use crate::trace;

/// Pause before it connects anew.
const PAUSE: Duration = Duration::from_secs(1);

/// Pause between two questions to its server. Of a server that hangs, scans find the timers
/// meanwhile.
const QUIET: Duration = Duration::from_secs(10);

/// Question whether the server takes writes; if not, notices are sent elsewhere.
const IS_READ_ONLY: &str = "SHOW transaction_read_only";

/// Notice of shards on the channel `$1`, as a hexadecimal mask; anything else stands for all.
const NOTIFY: &str = "SELECT pg_notify($1, $2)";

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

/// Notifies the listeners.
pub(super) async fn notify(session: &mut Session, shards: Shards) -> Answer<()> {
    let tables = session.tables().clone();
    session.read(NOTIFY, &[&tables.schema(), &format!("{:016x}", shards.mask())]).await.map(drop)
}

/// Listens, and connects anew when the connection is lost or refused: a server that has no room, is
/// starting or is a standby may let it in later.
async fn listen(server: Server, heard: Heard) {
    let of = heard.clone();
    let notified: Notified = Arc::new(move |payload| of(Notification::Due(shards(payload))));
    loop {
        let error = match hear(&server, &notified, &heard).await {
            Ok(()) => unavailable("the connection has ended".into()),
            Err(failure) => failure.unwritten(),
        };
        trace::deaf(&error);
        heard(Notification::Deaf);
        tokio::time::sleep(PAUSE).await;
    }
}

/// Listens for as long as the connection lasts, and its server answers and takes writes.
async fn hear(server: &Server, notified: &Notified, heard: &Heard) -> Answer<()> {
    let Opened { client, mut driver, .. } =
        server.open(Instant::now() + PATIENCE, Some(notified)).await?;
    ask(&client, &format!("LISTEN {}; {IS_READ_ONLY}", server.tables().quoted())).await?;
    // Earlier notices were missed.
    heard(Notification::Due(Shards::ALL));
    // The connection to a server that hangs need not end: its system may acknowledge all that it
    // is sent.
    while timeout(QUIET, driver.join_next()).await.is_err() {
        ask(&client, IS_READ_ONLY).await?;
    }
    Ok(())
}

/// Sends statements that end with [`IS_READ_ONLY`]. Fails unless the server takes writes.
async fn ask(client: &Client, statements: &str) -> Answer<()> {
    let answer = timeout(PATIENCE, client.simple_query(statements)).await;
    let is_read_only = answer.map_err(|_| Failure::Late)??.iter().any(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0) == Some("on"),
        _ => false,
    });
    match is_read_only {
        true => Err(unavailable("the server does not take writes any more".into()).into()),
        false => Ok(()),
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
