//! Requests to the API: as fast as it answers, or so many a second beside callbacks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tourbillon::sleep_until;
use tourbillond::model::Definition;

use crate::connection::Connection;
use crate::receiver::at;
use crate::{Options, Result};

/// Requests that create one-shots of this run, and read them.
pub(crate) struct Requests {
    api: SocketAddr,
    connections: usize,
    /// Creates by each connection.
    creates: usize,
    /// Definition of each one-shot, as JSON.
    body: Arc<str>,
    run: i64,
}

impl Requests {
    pub(crate) fn new(
        options: &Options,
        api: SocketAddr,
        definition: Definition,
        run: i64,
    ) -> Result<Self> {
        let body = serde_json::to_string(&definition)?.into();
        let creates = options.creates / options.connections;
        Ok(Self { api, connections: options.connections, creates, body, run })
    }

    /// Creates one-shots, and returns how many the API answers a second.
    pub(crate) async fn create(&self, count: usize) -> Result<f64> {
        self.flood("PUT", &self.body, count).await
    }

    /// Reads the one-shots that were created, and returns how many the API answers a second.
    pub(crate) async fn get(&self, count: usize) -> Result<f64> {
        self.flood("GET", &"".into(), count).await
    }

    async fn flood(&self, method: &'static str, body: &Arc<str>, count: usize) -> Result<f64> {
        let each = count / self.connections;
        let start = Instant::now();
        let mut clients = Vec::new();
        for client in 0..self.connections {
            let (api, run, body) = (self.api, self.run, body.clone());
            let creates = self.creates.max(1);
            clients.push(tokio::spawn(async move {
                let mut connection = Connection::open(api).await?;
                for number in 0..each {
                    let path = format!("/api-{run}-{client}-{}", number % creates);
                    connection.ask(method, &path, &body).await?;
                }
                Result::Ok(())
            }));
        }
        for client in clients {
            client.await??;
        }
        Ok((each * self.connections) as f64 / start.elapsed().as_secs_f64())
    }

    /// Begins so many requests a second at a time, evenly spread. By turns, a connection creates a
    /// one-shot and reads it. After a late answer it sends the overdue requests.
    pub(crate) fn beside(&self, rate: u32, begin: Instant) -> Beside {
        let is_over = Arc::new(AtomicBool::new(false));
        let apart = Duration::from_secs(1) / rate;
        let each = apart * u32::try_from(self.connections).expect("a few");
        let clients = (0..self.connections).map(|client| {
            let (api, run, body) = (self.api, self.run, self.body.clone());
            let is_over = is_over.clone();
            let mut due = begin + apart * u32::try_from(client).expect("a few");
            tokio::spawn(async move {
                let mut connection = Connection::open(api).await?;
                let mut took = [Vec::new(), Vec::new()];
                for number in 0.. {
                    sleep_until(due).await;
                    if is_over.load(Relaxed) {
                        break;
                    }
                    let path = format!("/beside-{run}-{client}-{}", number / 2);
                    let (method, body) =
                        if number % 2 == 0 { ("PUT", &*body) } else { ("GET", "") };
                    connection.ask(method, &path, body).await?;
                    took[number % 2].push(due.elapsed());
                    due += each;
                }
                Ok(took)
            })
        });
        Beside { begin, clients: clients.collect(), is_over }
    }
}

/// Requests that are made beside callbacks.
pub(crate) struct Beside {
    begin: Instant,
    /// Each returns how long its creates and its gets took, from when they were to be sent.
    clients: Vec<JoinHandle<Result<[Vec<Duration>; 2]>>>,
    is_over: Arc<AtomicBool>,
}

/// Requests that were made beside callbacks.
pub(crate) struct Ended {
    over: Duration,
    /// How long creates and gets took, in order.
    took: [Vec<Duration>; 2],
}

impl Beside {
    /// Ends them, once all sent requests are answered.
    pub(crate) async fn end(self) -> Result<Ended> {
        let over = self.begin.elapsed();
        self.is_over.store(true, Relaxed);
        let mut took = [Vec::new(), Vec::new()];
        for client in self.clients {
            for (all, own) in took.iter_mut().zip(client.await??) {
                all.extend(own);
            }
        }
        took.iter_mut().for_each(|took| took.sort_unstable());
        Ok(Ended { over, took })
    }
}

impl Ended {
    /// Prints how many were answered a second, and how long they took.
    pub(crate) fn print(&self) {
        for (text, took) in ["creates", "gets"].into_iter().zip(&self.took) {
            let ms = |part| at(took, part).map_or(f64::NAN, |took| took.as_secs_f64() * 1e3);
            println!(
                "beside: {:.0} {text} a second, p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms",
                took.len() as f64 / self.over.as_secs_f64(),
                ms(0.5),
                ms(0.99),
                ms(1.0)
            );
        }
    }
}
