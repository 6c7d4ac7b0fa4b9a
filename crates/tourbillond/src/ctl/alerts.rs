//! Alerts of a schedule by flags.

use std::collections::BTreeMap;

use clap::Args;

use crate::model::Notify;

/// Alerts of a schedule.
#[derive(Args, Debug)]
pub(super) struct Alerts {
    /// URL to call with the notices of the schedule, in place of the app's.
    #[arg(long, value_name = "URL")]
    notify: Option<String>,
    /// Notify if no run has succeeded for this long, such as `25h`; `0s` for never, in place of the
    /// app's time. Repeating schedules only.
    #[arg(long, value_name = "SPAN")]
    pub(super) success_within: Option<String>,
    /// Disable the schedule after this many dead runs in a row; 0 for never, in place of the app's
    /// number. Repeating schedules only.
    #[arg(long, value_name = "COUNT")]
    pub(super) disable_after: Option<u32>,
}

impl Alerts {
    pub(super) fn notify(&self) -> Option<Notify> {
        let url = self.notify.clone()?;
        Some(Notify { url, headers: BTreeMap::new(), body: None })
    }
}
