//! The faults of a nemesis.

use std::time::Duration;

use crate::Result;
use crate::proxy::Mode;

macro_rules! faults {
    ($($(#[$doc:meta])* $variant:ident = $name:literal on $where:ident,)*) => {
        /// A fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Fault {
            $($(#[$doc])* $variant,)*
        }

        impl Fault {
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            const fn place(self) -> Place {
                match self { $(Self::$variant => Place::$where,)* }
            }

            const ALL: &[Self] = &[$(Self::$variant,)*];
        }
    };
}

/// Least that a fault needs of the database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Anywhere,
    Postgres,
    /// PostgreSQL with a standby.
    Replicated,
    /// Several servers of PostgreSQL, and a manager that makes one the primary.
    Managed,
}

impl Place {
    fn has(self, fault: Fault) -> bool {
        match (self, fault.place()) {
            (Self::Managed, Self::Replicated) => false,
            (Self::Managed, _) => !fault.needs_server(),
            (place, needed) => needed <= place,
        }
    }
}

faults! {
    /// One node is killed, and started again later.
    KillOne = "kill-one" on Anywhere,
    /// All nodes are killed, and started again later.
    KillAll = "kill-all" on Anywhere,
    /// A node does not run for a part of its lease.
    FreezeShort = "freeze-short" on Anywhere,
    /// A node does not run for longer than its lease.
    FreezeLong = "freeze-long" on Anywhere,
    /// Somebody else holds the lock that writers need.
    Hold = "hold" on Anywhere,
    /// Connections are cut, and cannot be made.
    Cut = "cut" on Postgres,
    /// Requests and answers come late.
    Delay = "delay" on Postgres,
    /// Requests do not arrive.
    HoldRequests = "hold-requests" on Postgres,
    /// Answers do not arrive.
    HoldAnswers = "hold-answers" on Postgres,
    /// Neither arrives.
    HoldBoth = "hold-both" on Postgres,
    /// Notices of the server do not arrive.
    Deaf = "deaf" on Postgres,
    /// Some requests arrive, and the connection is cut in place of the answer.
    CutAnswers = "cut-answers" on Postgres,
    /// The server ends all its connections.
    Terminate = "terminate" on Postgres,
    /// The server is killed, and started again.
    ServerKilled = "server-killed" on Postgres,
    /// The server is started anew.
    ServerRestarted = "server-restarted" on Postgres,
    /// The server is away for longer than a lease.
    ServerAway = "server-away" on Postgres,
    /// A node's wall clock is set off by half a minute, or set right.
    Skew = "skew" on Postgres,
    /// Timers are written whose time has long come when their transaction commits.
    Late = "late" on Postgres,
    /// The standby gets nothing from the primary.
    StandbyCut = "standby-cut" on Replicated,
    /// The manager's program changes the primary, or does it harm.
    Managed = "managed" on Managed,
}

impl Fault {
    /// Returns all faults at `place`; or the named ones, separated by commas.
    pub(crate) fn list(names: Option<&str>, place: Place) -> Result<Vec<Self>> {
        let is_fit = |fault: &&Self| place.has(**fault);
        let Some(names) = names else {
            return Ok(Self::ALL.iter().filter(is_fit).copied().collect());
        };
        let names = names.split(',').filter(|name| !name.is_empty());
        names
            .map(|name| {
                let known = Self::ALL.iter().filter(is_fit).find(|fault| fault.name() == name);
                known.copied().ok_or_else(|| format!("no fault `{name}` for this store").into())
            })
            .collect()
    }

    /// Returns the proxy's mode for it, if it is a proxy's.
    pub(crate) fn mode(self, random: &mut fastrand::Rng) -> Option<Mode> {
        Some(match self {
            Self::Cut => Mode::Cut,
            Self::Delay => Mode::Delay(Duration::from_millis(random.u64(20..300))),
            Self::HoldRequests => Mode::HoldRequests,
            Self::HoldAnswers => Mode::HoldAnswers,
            Self::HoldBoth => Mode::HoldBoth,
            Self::Deaf => Mode::Deafen,
            Self::CutAnswers => Mode::CutAnswers(random.u32(4..12)),
            _ => return None,
        })
    }

    /// Returns whether it needs control over the server.
    pub(crate) fn needs_server(self) -> bool {
        matches!(self, Self::ServerKilled | Self::ServerRestarted | Self::ServerAway)
    }

    /// Returns how long it lasts, in hundredths of a lease.
    pub(crate) fn span(self) -> std::ops::Range<u32> {
        match self {
            Self::KillOne | Self::KillAll => 0..150,
            Self::FreezeShort => 20..70,
            Self::FreezeLong => 110..250,
            Self::Hold => 10..60,
            Self::ServerAway => 110..200,
            Self::Late => 100..170,
            Self::StandbyCut => 50..300,
            Self::Terminate | Self::ServerKilled | Self::ServerRestarted | Self::Skew => 0..1,
            Self::Managed => 0..1,
            _ => 20..150,
        }
    }
}
