//! Connections, and their limits.

use std::future::Future;
use std::pin::pin;

use axum::Router;
use futures_util::future::{Either, select};
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;

/// Serves until `stop` is ready, then until what is being answered is.
pub async fn serve(listener: TcpListener, router: Router, stop: impl Future<Output = ()>) {
    let mut stop = pin!(stop);
    let graceful = GracefulShutdown::new();
    loop {
        let stream = match select(pin!(listener.accept()), stop.as_mut()).await {
            Either::Left((Ok((stream, _)), _)) => stream,
            Either::Left((Err(_), _)) => continue,
            Either::Right(_) => break,
        };
        let service = TowerToHyperService::new(router.clone());
        let connection = hyper::server::conn::http1::Builder::new();
        let connection = connection.serve_connection(TokioIo::new(stream), service);
        tokio::spawn(graceful.watch(connection));
    }
    graceful.shutdown().await;
}
