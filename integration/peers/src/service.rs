//! A service that calls back, beside the usual substitute: a library, in whose workers each job is
//! a callback to the same receiver.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::http::{self, Client, Late};
use crate::peer::now_us;
use crate::server::Server;
use crate::{Result, processor};

/// Callers at the same time.
const CALLERS: usize = 64;

/// Time for which jobs are made, and then read.
const FLOOD: Duration = Duration::from_secs(5);

/// Jobs that each caller reads, one after the other.
const READ: usize = 20;

/// Jobs for which callbacks are measured.
const JOBS: usize = 10_000;

/// Over how long they are due where they are not all due at once.
const PACED: Duration = Duration::from_secs(10);

/// Time to make them in, before that.
const AHEAD: Duration = Duration::from_secs(20);

/// Time that due jobs may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time from a start to when workers of all systems poll.
const START: Duration = Duration::from_secs(3);

/// Makes, reads and fires jobs, and prints `SYSTEM ROW VALUE` lines.
pub(crate) async fn measure(system: &str, address: &str) -> Result<()> {
    let (receiver, late) = http::receive().await?;
    let address = if address.starts_with("redis://") {
        address.to_owned()
    } else {
        let name = format!("service_{}_{}", system.replace('-', "_"), now_us());
        // A blocking client must not be used on a thread of the runtime.
        let at = address.to_owned();
        tokio::task::spawn_blocking(move || Server::connect(&at)?.create(&name, None)).await??
    };
    let service = Service::start(system, &address, receiver)?;
    sleep(START).await;
    for row in ["make", "read"] {
        println!("{system}\t{row}\t{:.0}", service.flood(row, receiver).await?);
    }
    for (row, span) in [("burst", Duration::ZERO), ("paced", PACED)] {
        late.lock().expect("no panic").clear();
        let from_ms = (now_us() + AHEAD.as_micros() as i64) / 1_000;
        service.fill(row, from_ms, span, receiver).await?;
        let ahead = from_ms * 1_000 - now_us();
        let ahead = u64::try_from(ahead).map_err(|_| "the inserts took too long")?;
        sleep(Duration::from_micros(ahead)).await;
        let before = processor::of(service.child.id())?;
        let Some(took) = called(&late, from_ms).await else {
            println!("{system}\t{row}-own-us\tunfinished");
            continue;
        };
        // The ends of the last are on their way.
        sleep(Duration::from_secs(1)).await;
        let own = (processor::of(service.child.id())? - before).as_secs_f64() * 1e6 / JOBS as f64;
        println!("{system}\t{row}-own-us\t{own}");
        let mut late = late.lock().expect("no panic").clone();
        late.sort_unstable();
        if row == "burst" {
            println!("{system}\tburst-rate\t{}", JOBS as f64 / took.as_secs_f64());
            continue;
        }
        let at = |per_cent: usize| late[(JOBS - 1) * per_cent / 100] as f64 / 1e3;
        println!("{system}\tpaced-p50\t{}", at(50));
        println!("{system}\tpaced-p99\t{}", at(99));
        println!("{system}\tpaced-early\t{}", late.iter().filter(|late| **late < 0).count());
    }
    Ok(())
}

/// Waits until all were called, and returns how long after the first was due that is; `None` if
/// some were not.
async fn called(late: &Late, from_ms: i64) -> Option<Duration> {
    let began = Instant::now();
    while late.lock().expect("no panic").len() < JOBS {
        if began.elapsed() > PATIENCE {
            return None;
        }
        sleep(Duration::from_millis(5)).await;
    }
    let took = now_us() - from_ms * 1_000;
    Some(Duration::from_micros(took.try_into().unwrap_or(0)))
}

/// The service, or the worker in its place. Dropped, it is killed.
struct Service {
    child: Child,
    /// Address of the API; `None` of a library.
    api: Option<SocketAddr>,
    system: String,
    address: String,
}

impl Service {
    fn start(system: &str, address: &str, receiver: SocketAddr) -> Result<Self> {
        let (system, address) = (system.to_owned(), address.to_owned());
        if system != "tourbillond" {
            node(&system, &["prepare", &address])?.wait()?;
            let url = format!("http://{receiver}/");
            let child = node(&system, &["work", &address, &url])?;
            return Ok(Self { child, api: None, system, address });
        }
        let file = format!("tourbillon-peers-{}.toml", std::process::id());
        let config = std::env::temp_dir().join(file);
        // More than an app has by default, because peers have no limits.
        let limits = "{ schedules = 10000000, due_per_second = 1000000, concurrent = 1024, \
                      per_host = 1024 }";
        let text = format!("[apps.default]\nnetworks = ['127.0.0.0/8']\nlimits = {limits}\n");
        std::fs::write(&config, text)?;
        let program: PathBuf = std::env::var_os("TOURBILLOND").ok_or("which service?")?.into();
        let mut child = Command::new(program)
            .args(["--listen", "127.0.0.1:0", "--log", "warn", "--store", &address, "--config"])
            .arg(&config)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        std::fs::remove_file(&config)?;
        let url = line.trim().strip_prefix("http://").ok_or("the service did not start")?;
        let api = Some(url.trim_end_matches('/').parse()?);
        Ok(Self { child, api, system, address })
    }

    /// Makes or reads jobs, one after the other by each caller, and returns how many a second.
    async fn flood(&self, row: &str, receiver: SocketAddr) -> Result<f64> {
        let Some(api) = self.api else {
            let seconds = FLOOD.as_secs().to_string();
            return Ok(self.ask(&[row, &self.address, &seconds, &CALLERS.to_string()])?.parse()?);
        };
        let far_ms = now_us() / 1_000 + 86_400_000;
        let began = Instant::now();
        let makes = row == "make";
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let body = if makes { definition(far_ms, receiver) } else { String::new() };
                tokio::spawn(async move {
                    let mut client = Client::connect(api).await?;
                    let mut count = 0;
                    while began.elapsed() < FLOOD {
                        let number = if makes { count } else { count % READ };
                        let path = path(&format!("flood-{caller}-{number}"));
                        client.ask(if makes { "PUT" } else { "GET" }, &path, &body).await?;
                        count += 1;
                    }
                    Result::Ok(count)
                })
            })
            .collect();
        let mut count = 0;
        for caller in callers {
            count += caller.await??;
        }
        Ok(count as f64 / began.elapsed().as_secs_f64())
    }

    /// Makes the jobs whose callbacks are measured.
    async fn fill(
        &self,
        row: &str,
        from_ms: i64,
        span: Duration,
        receiver: SocketAddr,
    ) -> Result<()> {
        let Some(api) = self.api else {
            let (from, span) = (from_ms.to_string(), span.as_millis().to_string());
            self.ask(&["batch", &self.address, &JOBS.to_string(), &from, &span])?;
            return Ok(());
        };
        let span_ms = span.as_millis() as i64;
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let row = row.to_owned();
                tokio::spawn(async move {
                    let mut client = Client::connect(api).await?;
                    for number in (caller..JOBS).step_by(CALLERS) {
                        let due_ms = from_ms + span_ms * number as i64 / JOBS as i64;
                        let body = definition(due_ms, receiver);
                        client.ask("PUT", &path(&format!("{row}-{number}")), &body).await?;
                    }
                    Result::Ok(())
                })
            })
            .collect();
        for caller in callers {
            caller.await??;
        }
        Ok(())
    }

    /// Makes the library answer a call in another process, and returns its output.
    fn ask(&self, words: &[&str]) -> Result<String> {
        let output = node(&self.system, words)?.wait_with_output()?;
        if !output.status.success() {
            return Err(format!("{} {}: {}", self.system, words[0], output.status).into());
        }
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // An ended process cannot be killed, and need not be.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn node(system: &str, words: &[&str]) -> Result<Child> {
    let node = std::env::var_os("PEERS_NODE").unwrap_or_else(|| "node".into());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/node/service.mjs");
    let mut command = Command::new(node);
    Ok(command.arg(script).arg(system).args(words).stdout(Stdio::piped()).spawn()?)
}

fn path(key: &str) -> String {
    format!("/v1/apps/default/schedules/{key}")
}

/// A one-shot that calls the receiver.
fn definition(due_ms: i64, receiver: SocketAddr) -> String {
    let at = chrono::DateTime::from_timestamp_millis(due_ms).expect("a time of this century");
    let at = at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
    serde_json::json!({
        "when": { "at": at },
        "callback": {
            "url": format!("http://{receiver}/"),
            "body": format!("{{\"due\":{due_ms}}}"),
        },
    })
    .to_string()
}
