//! Tells that schedules have not succeeded in time: the worker of their watches.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tourbillon_durable::Fire;
use tracing::{error, warn};

use super::notice::Silence;
use crate::catalog::{Judged, WATCH, WatchState};
use crate::service::Service;

/// Watches that the worker has in hand.
const PREFETCH: usize = 64;

/// Pause before a watch is judged again that could not be.
const PAUSE: Duration = Duration::from_secs(10);

/// Judges each watch that is due, until the service is stopped.
pub(super) async fn run(service: Arc<Service>) {
    let Some(mut watches) = service.worker(WATCH, PREFETCH) else { return };
    while let Some(fire) = watches.next().await {
        judge(&service, fire).await;
    }
}

/// Makes watches of schedules that existed before their app had a `success_within`, or this one: at
/// the start, and whenever that time changes.
pub(super) async fn follow(service: Arc<Service>) {
    let mut configs = service.follow();
    let mut known = HashMap::new();
    loop {
        let config = configs.borrow_and_update().clone();
        known.retain(|name, _| config.apps.contains_key(name));
        for (name, app) in &config.apps {
            let within = app.alerts().success_within;
            let before = known.insert(name.clone(), within);
            if before == Some(within) || within.is_none() {
                continue;
            }
            let is_new = before == Some(None);
            while let Err(error) = service.catalog.see_to_watches(name, is_new).await {
                if service.stats().is_none() {
                    return;
                }
                warn!(app = name, %error, "schedules were not looked through for their watches");
                service.timer.sleep(PAUSE).await;
            }
        }
        if configs.changed().await.is_err() {
            return;
        }
    }
}

async fn judge(service: &Service, fire: Fire) {
    let Ok(state) = serde_json::from_slice::<WatchState>(fire.payload()) else {
        error!(watch = %fire.id(), "a watch is not understood");
        fire.postpone(PAUSE);
        return;
    };
    let (app, key) = (&state.app, &state.key);
    let (judged, definition) = match service.catalog.judge(&state).await {
        Ok(judged) => judged,
        Err(error) => {
            warn!(app, key, %error, "not known whether a schedule has succeeded in time");
            fire.postpone(PAUSE);
            return;
        }
    };
    match judged {
        Judged::Over => drop(fire.complete()),
        Judged::Later(pause) => drop(fire.postpone(pause)),
        Judged::Silent => {
            let config = service.config();
            let own = definition.and_then(|definition| definition.notify);
            let of_app = config.apps.get(app).and_then(|app| app.notify.clone());
            warn!(app, key, since = %crate::model::rfc3339(state.since()), "no run has succeeded");
            let silence = Silence { service, state: &state, fire: &fire };
            match own.or(of_app) {
                Some(notify) if !silence.tell(&notify).await => {}
                // Until the schedule succeeds, or is enabled again.
                _ => drop(fire.postpone(Duration::MAX)),
            }
        }
    }
}
