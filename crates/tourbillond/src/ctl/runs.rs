//! Commands about runs.

use clap::{Args, Subcommand};

use super::{Context, Done, show};

/// Part of a list.
#[derive(Args, Debug)]
pub(super) struct Page {
    /// Maximum number of items.
    #[arg(long, default_value_t = 100)]
    pub(super) limit: usize,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List runs, newest first.
    Runs {
        /// Only runs of this schedule.
        #[arg(long)]
        key: Option<String>,
        /// Only runs with a key that contains this text, in small or large letters.
        #[arg(long)]
        search: Option<String>,
        /// Only runs in this state: pending, running, waiting, succeeded, dead, skipped or
        /// cancelled.
        #[arg(long)]
        state: Option<String>,
        /// Only runs from this time on.
        #[arg(long)]
        since: Option<String>,
        /// Only runs before this time.
        #[arg(long)]
        until: Option<String>,
        #[command(flatten)]
        page: Page,
    },
    /// Show a run with its attempts.
    Run {
        /// Id of the run.
        id: String,
    },
    /// Retry a dead run, as a new run.
    Retry {
        /// Id of the run.
        id: String,
    },
}

impl Command {
    pub(super) async fn carry_out(&self, context: &Context<'_>) -> Done {
        match self {
            Self::Runs { key, search, state, since, until, page } => {
                let query = [
                    ("key", key.as_deref()),
                    ("search", search.as_deref()),
                    ("state", state.as_deref()),
                    ("since", since.as_deref()),
                    ("until", until.as_deref()),
                ];
                context.list("runs", &query, page, show::runs).await
            }
            Self::Run { id } => context.get(context.url(["runs", id]), show::run).await,
            Self::Retry { id } => {
                let url = context.url(["runs", id, "retry"]);
                context.send("POST", url, None, show::fields).await
            }
        }
    }
}
