//! Tells that schedules have not succeeded in time: the worker of their watches.

use std::sync::Arc;
use std::time::Duration;

use tourbillon_durable::Fire;
use tracing::{error, warn};

use super::notice::Silence;
use crate::catalog::{Judged, State, WATCH};
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

async fn judge(service: &Service, fire: Fire) {
    let Ok(state) = serde_json::from_slice::<State>(fire.payload()) else {
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
