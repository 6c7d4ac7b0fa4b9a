//! [`Ticket`]: the attempt that a receiver completes by a call, and the token that lets it.
//!
//! The token is an HMAC of the app, the run, the time at which its definition was made, and the
//! attempt, by the secret that the attempt is signed with. It begins with that time: the run of a
//! one-shot has the same identity when its key is made again. So nothing of it is kept, every node
//! can check it, and it is of no use for another attempt. A receiver checks signatures by the same
//! secret, so it could make the tokens of the app's other runs: apps whose receivers do not trust
//! each other have secrets of their own.

use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tourbillon_durable::{Time, TimerId};

use crate::config::{App, Secret};

/// Header with the path of the call.
pub(crate) const COMPLETION_PATH: &str = "tourbillon-completion-path";

/// Header with the token of the call.
pub(crate) const COMPLETION_TOKEN: &str = "tourbillon-completion-token";

/// Time from the end of a wait until the run is due, so that no clock finds it due before.
pub(crate) const MARGIN: Duration = Duration::from_secs(1);

/// Most characters that are kept of a call's text.
pub(crate) const TEXT_MAX: usize = 200;

/// Reason of the failure of an attempt that was not completed.
pub(crate) const EXPIRED: &str = "answered 202, and was not completed in time";

/// Reason of the failure of an attempt that was completed as failed, without the call's text.
pub(super) const FAILED: &str = "completed as failed";

/// Beginning of a token's signed text. No other text that the service signs begins with a NUL.
const PREFIX: &[u8] = b"\0tourbillond completion\0";

/// Returns the reason of the failure of an attempt that its receiver completed as failed.
pub(crate) fn failed(text: &str) -> String {
    match text {
        "" => FAILED.to_owned(),
        text => format!("{FAILED}: {text}"),
    }
}

/// Attempt that its receiver may complete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket<'a> {
    pub(crate) app: &'a str,
    pub(crate) run: TimerId,
    /// Time of the run's definition.
    pub(crate) made: Time,
    pub(crate) attempt: u32,
}

impl<'a> Ticket<'a> {
    /// Returns the ticket of the token's attempt, checked by the app's secrets, in a time that does
    /// not depend on the token's HMAC.
    pub(crate) fn opened(
        (app, run, attempt): (&'a str, TimerId, u32),
        token: &str,
        of: &App,
    ) -> Option<Self> {
        let (made, mac) = token.split_once('.')?;
        let made = Time::from_micros(made.parse().ok()?);
        let (ticket, mac) = (Self { app, run, made, attempt }, hex::decode(mac).ok()?);
        let fits = |secret: &Secret| ticket.mac(secret).verify_slice(&mac).is_ok();
        of.secrets.iter().map(fits).fold(false, |any, fits| any | fits).then_some(ticket)
    }

    /// Returns the path of the call.
    pub(crate) fn path(&self) -> String {
        let Self { app, run, attempt, .. } = self;
        format!("/v1/apps/{app}/runs/{run}/attempts/{attempt}/completion")
    }

    /// Returns the token: the time of the definition in microseconds since the Unix epoch, a dot,
    /// and 64 hexadecimal digits.
    pub(crate) fn token(&self, secret: &Secret) -> String {
        let mac = hex::encode(self.mac(secret).finalize().into_bytes());
        format!("{}.{mac}", self.made.as_micros())
    }

    fn mac(&self, secret: &Secret) -> Hmac<Sha256> {
        let mac = Hmac::<Sha256>::new_from_slice(secret.0.as_bytes());
        let mac = mac.expect("a secret of any length is a key");
        let Self { app, run, made, attempt } = self;
        let rest = format!("{app}\0{run}\0{}\0{attempt}", made.as_micros());
        mac.chain_update(PREFIX).chain_update(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_of_one_attempt_of_one_run_of_one_app_and_one_secret() {
        let app = |secrets: &[&str]| App {
            secrets: secrets.iter().map(|secret| Secret((*secret).to_owned())).collect(),
            ..App::default()
        };
        let run = TimerId::from_bits(7);
        let made = Time::from_micros(1_000);
        let ticket = Ticket { app: "a", run, made, attempt: 1 };
        let token = ticket.token(&Secret("one".to_owned()));
        let opens = |ticket: Ticket<'_>, token: &str, app: &App| {
            let opened = Ticket::opened((ticket.app, ticket.run, ticket.attempt), token, app);
            opened.is_some_and(|opened| opened.made == ticket.made)
        };
        assert_eq!(token.len(), "1000.".len() + 64);
        // Also while the secret is being replaced.
        for secrets in [&["one"][..], &["two", "one"], &["one", "two"]] {
            assert!(opens(ticket, &token, &app(secrets)), "{secrets:?}");
        }
        for secrets in [&[][..], &["two"]] {
            assert!(!opens(ticket, &token, &app(secrets)), "{secrets:?}");
        }
        for other in [
            Ticket { app: "b", ..ticket },
            Ticket { run: TimerId::from_bits(8), ..ticket },
            Ticket { attempt: 2, ..ticket },
            // Under the same key, made again.
            Ticket { made: made + Duration::from_micros(1), ..ticket },
        ] {
            assert!(!opens(other, &token, &app(&["one"])), "{other:?}");
        }
        let later = token.replace("1000.", "1001.");
        let (_, mac) = token.split_once('.').unwrap();
        for wrong in ["", ".", "no hex", mac, &later, &token[..32], &format!("{token}00")] {
            let opened = Ticket::opened(("a", run, 1), wrong, &app(&["one"]));
            assert!(opened.is_none(), "{wrong}");
        }
    }
}
