//! `tourbillond`: the service.

use std::error::Error;
use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tourbillon::Timer;
use tourbillon_cron::ZoneData;
use tourbillond::config::{self, Config, Flags, LogFormat, Settings};
use tourbillond::manual::Manual;
use tourbillond::{Service, descriptors, dispatch, http, open, routes};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Call back over HTTP, at a time or by cron, from one node or many.
///
/// Without flags, it keeps its timers in `tourbillon.db` in the current folder, listens on
/// http://127.0.0.1:8321, and needs no token. The page is at `/`, the API at
/// `/v1`, its description at `/v1/openapi.json`.
#[derive(Parser)]
#[command(version, after_long_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    flags: Flags,
}

const EXAMPLES: &str = "\
Examples:
  tourbillond
      one node, with its timers in a file
  tourbillond --store postgres://timers:secret@db/timers --config apps.toml --listen 0.0.0.0:8321
      a node of a cluster: each is started the same way
  TOURBILLOND_LOG_FORMAT=json tourbillond --config apps.toml --log info,tourbillon_durable=debug
      each flag can be an environment variable
  tourbillond token --name ci --write
      a new token, and its line for the file

A file:
  listen = \"0.0.0.0:8321\"
  store = \"postgres://timers:secret@db/timers\"
  keep = \"14d\"
  hosts = [\"timers.example.com\"]  # what requests name as their host, beside the address
  tls = { certificate = \"/etc/tourbillond/chain.pem\", key = \"/etc/tourbillond/key.pem\" }

  [admin]                         # tokens for all apps
  tokens = [{ sha256 = \"9f86d0...\", scope = \"read\" }]

  [apps.billing]
  tokens = [{ name = \"ci\", sha256 = \"2c26b4...\", scope = \"write\" }]
  limits = { schedules = 10000, due_per_second = 1000, concurrent = 256, per_host = 64 }
  destinations = [\"*.example.com\"]  # hosts that may be called; any if there is none
  networks = [\"10.1.0.0/16\"]        # private networks that may be called all the same
  secrets = [\"signs callbacks\"]
  success_within = \"25h\"          # a notice if a schedule has no success in that time
  disable_after = 5               # dead runs in a row after which a schedule is disabled

  [apps.billing.notify]           # gets notices: a run is dead, a schedule recovers
  url = \"https://hooks.example.com/timers\"

  [apps.billing.header_secrets]   # values of headers, which callbacks name
  ledger = { value = \"Bearer 8f1c..\", hosts = [\"ledger.example.com\"] }

SIGHUP reloads apps, tokens and certificates; if one is wrong, the old ones stay in force.
SIGTERM and SIGINT shut down gracefully: no callback starts any more, and running ones finish.";

#[derive(Subcommand)]
enum Command {
    /// Print a new token, and its line for the configuration file.
    Token {
        /// Permit changes, too.
        #[arg(long)]
        write: bool,
        /// Name of the token in the audit log.
        #[arg(long)]
        name: Option<String>,
    },
    #[command(flatten)]
    Manual(Manual),
}

fn main() -> ExitCode {
    let version = format!("{} (time zones {})", env!("CARGO_PKG_VERSION"), ZoneData::current());
    let matches = Cli::command().long_version(&*version.leak()).get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let done = match cli.command {
        Some(Command::Token { write, name }) => token(write, name.as_deref()),
        Some(Command::Manual(manual)) => print(&manual),
        None => run(&cli.flags),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tourbillond: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print(manual: &Manual) -> Result<(), Box<dyn Error>> {
    match std::io::stdout().write_all(&manual.of(Cli::command())?) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

fn token(write: bool, name: Option<&str>) -> Result<(), Box<dyn Error>> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes)?;
    let token = hex::encode(bytes);
    let sha256 = hex::encode(config::hash(&token));
    name.map_or(Ok(()), config::check_name)?;
    let scope = if write { "write" } else { "read" };
    println!("{token}");
    let name = name.map(|name| format!("name = \"{name}\", ")).unwrap_or_default();
    println!("tokens = [{{ {name}sha256 = \"{sha256}\", scope = \"{scope}\" }}]");
    Ok(())
}

fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let (settings, config) = load(flags)?;
    log(&settings)?;
    for warning in &settings.exposed {
        tracing::warn!("{warning}");
    }
    let limit = descriptors::raise();
    let connections = settings.connections.min(descriptors::share());
    if connections < settings.connections {
        let asked = settings.connections;
        tracing::warn!(limit, connections, asked, "fewer connections: descriptors are limited");
    }
    let limits = http::ServerLimits { connections, ..http::ServerLimits::default() };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_io().build()?;
    let mut started = None;
    let done = runtime.block_on(serve(flags, &settings, config, limits, &mut started));
    // Requests that are not answered yet end here, and each leaves its line in the audit log.
    drop(runtime);
    if let Some(service) = started {
        service.close_audit();
    }
    done
}

/// Reads the configuration, and checks its notices and token endpoints.
fn load(flags: &Flags) -> Result<(Settings, Config), Box<dyn Error>> {
    let (settings, config) = config::load(flags)?;
    dispatch::check_all(&config)?;
    Ok((settings, config))
}

fn log(settings: &Settings) -> Result<(), Box<dyn Error>> {
    let filter: Targets = settings.log.parse()?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry();
    match settings.log_format {
        LogFormat::Text => registry.with(lines.with_ansi(false).with_filter(filter)).init(),
        LogFormat::Json => {
            registry.with(lines.json().flatten_event(true).with_filter(filter)).init();
        }
    }
    Ok(())
}

async fn serve(
    flags: &Flags,
    settings: &Settings,
    config: Config,
    limits: http::ServerLimits,
    started: &mut Option<Arc<Service>>,
) -> Result<(), Box<dyn Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let hangup = signal(SignalKind::hangup())?;

    let timer = Timer::global();
    timer.start()?;
    let tls = settings.tls.as_ref().map(http::Tls::open).transpose()?.map(Arc::new);
    let listener = TcpListener::bind(settings.listen).await?;
    let store = open(&settings.store)?;
    let service = Arc::clone(started.insert(Service::start(store, config, &timer)?));
    if let Some(path) = &settings.audit {
        let wrong = |error| format!("the audit log {}: {error}", path.display());
        service.keep_audit(path).map_err(wrong)?;
    }
    dispatch::start(&service);
    let reloads =
        reload(flags.clone(), settings.clone(), hangup, Arc::clone(&service), tls.clone());
    tokio::spawn(reloads);
    start_keepers(&service, settings.keep);
    let address = listener.local_addr()?;
    tracing::info!(%address, store = %settings.store, node = %service.node(), "started");
    println!("{}://{address}", if tls.is_some() { "https" } else { "http" });

    let failed = service.ended();
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = service.ended() => {}
        }
        tracing::info!("stopping");
        service.begin_stop();
    };
    let (router, answers) = (routes::router(Arc::clone(&service)), Arc::clone(&service.answers));
    http::serve(listener, router, &timer, limits, answers, tls, stop).await;
    service.stop().await;
    if let Some(error) = failed.await {
        return Err(error.into());
    }
    tracing::info!("stopped");
    Ok(())
}

/// Starts to forget old records, and to mind the database's clock.
fn start_keepers(service: &Arc<Service>, keep: Duration) {
    let keeper = Arc::clone(service);
    tokio::spawn(async move { keeper.forget(keep).await });
    let keeper = Arc::clone(service);
    tokio::spawn(async move { keeper.mind_clock().await });
}

/// Reads apps, tokens and the certificate again at each SIGHUP, and puts either all in force or
/// nothing. Changes to the node's other settings, given as `started`, are only logged.
async fn reload(
    flags: Flags,
    mut started: Settings,
    mut hangup: Signal,
    service: Arc<Service>,
    tls: Option<Arc<http::Tls>>,
) {
    while hangup.recv().await.is_some() {
        let certificate = tls.as_ref().map(|tls| tls.reload()).transpose();
        let read = certificate.and_then(|put| match load(&flags) {
            Ok(loaded) => Ok((put, loaded)),
            Err(error) => Err(error.to_string()),
        });
        let (put, (settings, config)) = match read {
            Ok(read) => read,
            Err(error) => {
                tracing::error!(%error, "the old configuration and certificate stay in force");
                continue;
            }
        };
        for field in started.changed(&settings) {
            tracing::warn!(field, "a setting has changed that holds from the next start");
        }
        for warning in settings.exposed {
            if !started.exposed.contains(&warning) {
                tracing::warn!("{warning}");
                started.exposed.push(warning);
            }
        }
        tracing::info!(apps = config.apps.len(), "configuration read again");
        service.reload(config);
        if let Some(put) = put {
            put();
        }
    }
}
