//! axum: a limit for each request, and one for the end of the server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tourbillon_tower::TimeoutOrElseLayer;

const LIMIT: Duration = Duration::from_millis(50);
const GRACE: Duration = Duration::from_millis(100);

fn router() -> Router {
    let too_late = || StatusCode::GATEWAY_TIMEOUT.into_response();
    Router::new()
        .route("/answer", get(async || "42"))
        .route("/silence", get(std::future::pending::<()>))
        .layer(TimeoutOrElseLayer::new(LIMIT, too_late))
}

/// Serves until `stop`, and then what has begun, for `GRACE` at most.
async fn serve(listener: TcpListener, stop: oneshot::Receiver<()>) {
    let (stopping, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener, router()).with_graceful_shutdown(async move {
        let _ = stop.await;
        drop(stopping);
    });
    let limit = async {
        let _ = stopped.await;
        tourbillon::sleep(GRACE).await;
    };
    tokio::select! {
        _ = server => {}
        () = limit => {}
    }
}

/// The first line of the answer.
fn ask(stream: &mut TcpStream, path: &str) -> String {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it listens");
    let mut answer = [0; 1024];
    let length = stream.read(&mut answer).expect("it answers");
    let answer = String::from_utf8_lossy(&answer[..length]);
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_silent_handler_is_cut_off_and_an_idle_client_does_not_keep_the_server() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("it starts");
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let (stop, stopped) = oneshot::channel();
    let server = runtime.spawn(serve(listener, stopped));
    let mut client = TcpStream::connect(address).expect("it listens");
    assert_eq!(ask(&mut client, "/answer"), "HTTP/1.1 200 OK");
    assert_eq!(ask(&mut client, "/silence"), "HTTP/1.1 504 Gateway Timeout");
    // It has sent half of a request.
    write!(client, "GET /").expect("it listens");
    stop.send(()).expect("it waits");
    runtime.block_on(server).expect("it ends");
}
