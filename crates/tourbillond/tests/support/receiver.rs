//! A receiver of callbacks, for tests.

use std::net::Ipv4Addr;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::HeaderValue;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

/// A call as it came in.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) headers: hyper::HeaderMap,
    pub(crate) body: String,
}

/// A receiver on all addresses of the loopback network, so on as many hosts. The path of a call
/// selects the answer: `/503`, or `/hang` for none before it is let go, or `/recovers` for 503
/// until then, or `/later` for 503 and a date to come back, or `/token` for another one of OAuth 2.
pub(crate) struct Receiver {
    port: u16,
    pub(crate) calls: mpsc::UnboundedReceiver<Call>,
    /// Set to let go of what hangs.
    pub(crate) go: watch::Sender<bool>,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (came, calls) = mpsc::unbounded_channel();
        let go = watch::Sender::new(false);
        let going = go.subscribe();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (came, going) = (came.clone(), going.clone());
                let service =
                    service_fn(move |request| answer(request, came.clone(), going.clone()));
                let server = hyper::server::conn::http1::Builder::new();
                tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { port, calls, go }
    }

    pub(crate) fn url(&self, host: u32, path: &str) -> String {
        format!("http://127.0.0.{host}:{}/{path}", self.port)
    }

    pub(crate) async fn next(&mut self) -> Call {
        self.calls.recv().await.unwrap()
    }
}

async fn answer(
    request: Request<Incoming>,
    came: mpsc::UnboundedSender<Call>,
    mut going: watch::Receiver<bool>,
) -> hyper::Result<Response<Full<Bytes>>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    // A receiver may send back the received headers.
    let secrets = ["tourbillon-completion-token", "authorization"];
    let secrets = secrets.map(|name| head.headers.get(name).cloned());
    let call = Call {
        path: head.uri.path().trim_start_matches('/').to_owned(),
        headers: head.headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    let path = call.path.clone();
    let _ = came.send(call);
    if path == "hang" {
        let _ = going.wait_for(|go| *go).await;
    }
    let text = match &*path {
        "token" => format!(r#"{{"access_token":"{}","token_type":"bearer"}}"#, fastrand::u64(..)),
        path => {
            let secrets = secrets.iter().flatten().filter_map(|secret| secret.to_str().ok());
            format!("this is {path}{}", secrets.collect::<String>())
        }
    };
    let mut answer = Response::new(Full::from(text));
    let status = match &*path {
        "recovers" if *going.borrow() => "200",
        "recovers" | "later" => "503",
        path => path,
    };
    if path == "later" {
        let date = HeaderValue::from_static("Sun, 01 Mar 2026 00:30:00 GMT");
        answer.headers_mut().insert("retry-after", date);
    }
    if let Ok(status) = status.parse() {
        *answer.status_mut() = hyper::StatusCode::from_u16(status).unwrap();
    }
    Ok(answer)
}
