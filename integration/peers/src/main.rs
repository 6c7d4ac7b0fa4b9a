//! Durable timers beside job queues of others, in one run on one server of PostgreSQL.
//!
//! ```text
//! peer.rs                           what a system is asked to do: one process for each call
//! durable.rs river.rs graphile.rs   the systems in Rust; node/pg-boss.mjs answers the same calls
//! measure.rs server.rs table.rs     starts them, reads what the server counts, prints the table
//! service.rs http.rs                tourbillond beside libraries whose handlers call back by HTTP
//! ```
//!
//! `ci/durable-peers.sh` runs it. By hand:
//!
//! ```text
//! peers measure SYSTEM ADDRESS ROW...   prints `SYSTEM ROW VALUE` lines
//! peers service SYSTEM ADDRESS          the same of a service, or of what is used in its place
//! peers table FILE                      the medians of such lines, as a table
//! peers SYSTEM prepare ADDRESS
//! peers SYSTEM single ADDRESS SECONDS CALLERS
//! peers SYSTEM batch ADDRESS COUNT FROM_MS SPAN_MS
//! peers SYSTEM work ADDRESS SETTINGS COUNT HANDLER FILE
//! ```

mod durable;
mod graphile;
mod http;
mod measure;
mod peer;
#[path = "../../../crates/durable-harness/src/processor.rs"]
mod processor;
mod river;
mod server;
mod service;
mod table;

use std::error::Error;

use crate::peer::Call;

/// Result of a call.
type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["measure", system, address, ref rows @ ..] => measure::measure(system, address, rows),
        ["service", system, address] => on_tokio(service::measure(system, address)),
        ["table", file] => table::print(file),
        [system, ref call @ ..] => {
            let call = Call::parse(call)?;
            match system {
                "tourbillon-durable" => durable::answer(&call),
                "riverqueue" => on_tokio(river::answer(&call)),
                "graphile_worker" => on_tokio(graphile::answer(&call)),
                other => Err(format!("no system `{other}`").into()),
            }
        }
        [] => Err("which system?".into()),
    }
}

/// Runs it on as many threads as there are processors, as most programs do.
fn on_tokio(work: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}
