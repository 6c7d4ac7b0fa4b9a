//! Timers by their numbers: which app has one, and under which key.

use crate::api::{Access, Problem};
use crate::catalog::Found;
use crate::config::{App, Scope};
use crate::model::{self, ScheduleState, Stored, XTIMER, XTimer};
use crate::service::Service;
use axum::http::StatusCode;

use super::wire::TimerDef;

/// Random bits of a number, below 16 of the app's hash. JSON's numbers hold all of it.
const RANDOM_BITS: u32 = 37;

fn bits_of(app: &str) -> u64 {
    u64::try_from(model::once_id(app).bits() >> 112).unwrap_or(0)
}

/// A number that nothing of the app has, most likely.
pub(super) fn draw(app: &str) -> u64 {
    let random = getrandom::u64().expect("the system has random numbers");
    bits_of(app) << RANDOM_BITS | random >> (64 - RANDOM_BITS)
}

pub(super) fn key(id: u64) -> String {
    format!("{XTIMER}{id}")
}

/// A timer of XTimer's, with its original texts.
pub(super) struct Its {
    /// The app that it is kept in.
    pub(super) app: String,
    pub(super) found: Found,
    pub(super) stored: Stored,
    pub(super) xtimer: XTimer,
}

impl Its {
    /// Returns `None` if it was not made by these routes.
    pub(super) fn new(app: &str, found: Found) -> Option<Self> {
        let stored = found.stored()?;
        let xtimer = stored.xtimer.clone()?;
        Some(Self { app: app.to_owned(), found, stored, xtimer })
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.found.state() == ScheduleState::Enabled
    }

    /// Returns it as XTimer shows it.
    pub(super) fn view(&self, id: u64) -> TimerDef {
        let Self { app, stored, xtimer, .. } = self;
        TimerDef::of((app, id), self.is_enabled(), &stored.definition, xtimer)
    }
}

/// Finds the timer of this number.
pub(super) async fn of(
    service: &Service,
    access: &Access,
    id: u64,
    scope: Scope,
) -> Result<Its, Problem> {
    for app in may_have(access, id) {
        if let Some(its) =
            service.catalog.find(app, &key(id)).await?.and_then(|found| Its::new(app, found))
        {
            access.to(app, scope)?;
            access.concern(&key(id));
            return Ok(its);
        }
    }
    Err(Problem::not_found("timer"))
}

/// Returns the apps that a timer of this number may be in.
pub(super) fn may_have(access: &Access, id: u64) -> impl Iterator<Item = &String> {
    access.seen().map(|(app, _)| app).filter(move |app| bits_of(app) == id >> RANDOM_BITS)
}

/// Returns whether the token permits to remove a timer of this number, in each app that may have
/// it. If no app may, it has to permit changes of what it sees.
pub(super) fn may_remove(access: &Access, id: u64) -> bool {
    let apps = access.config().apps.keys();
    let mut homes = apps.filter(|app| bits_of(app) == id >> RANDOM_BITS).peekable();
    match homes.peek() {
        Some(_) => homes.all(|app| access.may_change(app)),
        None => access.seen().all(|(app, _)| access.may_change(app)),
    }
}

/// Returns the app that a timer of XTimer's app is kept in, and whether that has another name.
pub(super) fn home<'a>(
    access: &'a Access,
    app: &'a str,
) -> Result<(&'a str, &'a App, bool), Problem> {
    let config = access.config();
    match &config.xtimer_app {
        Some(home) if !config.apps.contains_key(app) => {
            Ok((home, access.to(home, Scope::Write)?, true))
        }
        _ => match access.to(app, Scope::Write) {
            Err(problem) if problem.status == StatusCode::NOT_FOUND => {
                let why = "there is no such app; with `--xtimer-app NAME`, the app NAME has the \
                           timers of unknown apps";
                Err(Problem::new(StatusCode::NOT_FOUND, why))
            }
            limits => Ok((app, limits?, false)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::{bits_of, draw};

    #[test]
    fn a_number_is_safe_in_json_and_leads_to_its_app() {
        for app in ["default", "mail", "a"] {
            let id = draw(app);
            assert!(id < 1 << 53);
            assert_eq!(id >> super::RANDOM_BITS, bits_of(app));
        }
    }
}
