//! Connections that are kept for the next request, and closed by their receiver.

use std::pin::pin;
use std::sync::Mutex;

use futures_util::FutureExt as _;
use tokio::sync::Notify;

use super::*;
use crate::dispatch::pool::{AGE, IDLE};

/// Answer of a receiver that keeps its connection.
const DONE: &str = "HTTP/1.1 204 Done\r\n\r\n";

/// Starts a receiver whose connections answer with these texts, one to a request, and then end.
/// Returns its URL, and the heads of the requests.
async fn scripted(connections: &[&'static [&'static str]]) -> (String, Arc<Mutex<Vec<String>>>) {
    let scripts = Vec::from(connections).into_iter();
    let scripts = Arc::new(Mutex::new(scripts));
    let heads = Arc::new(Mutex::new(Vec::new()));
    let came = heads.clone();
    let (url, _) = receiver(move |mut stream| {
        let script = scripts.lock().unwrap().next().unwrap_or_default();
        let came = came.clone();
        async move {
            for answer in script {
                let head = head(&mut stream).await?;
                came.lock().unwrap().push(head);
                stream.write_all(answer.as_bytes()).await?;
            }
            Ok(())
        }
    })
    .await;
    (url, heads)
}

/// Sends two requests, the second on the kept connection of the first, and returns its result. By
/// `key`, they have an `Idempotency-Key`.
async fn second(url: &str, key: Option<&str>) -> Result<Answer, Lack> {
    let client = client("127.0.0.0/8");
    let send = async || {
        let mut request = Request::post(url);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        client.send(request.body(Full::default()).unwrap(), LONG).await.0
    };
    send().await.unwrap();
    send().await
}

#[tokio::test]
async fn a_request_on_a_kept_connection_that_is_closed_in_silence_is_sent_once_more() {
    // The empty answer is the end of a connection that has read the request.
    let (url, heads) = scripted(&[&[DONE, ""], &[DONE]]).await;
    assert_eq!(second(&url, Some("k")).await.unwrap().status, 204);
    let heads = heads.lock().unwrap();
    assert_eq!(heads.len(), 3);
    assert_eq!(heads[1], heads[2]);
}

#[tokio::test]
async fn a_request_without_a_key_or_whose_answer_has_begun_is_sent_once() {
    // Without a key, a receiver could not know that a second one is the first.
    for (script, key) in [(&[DONE, ""], None), (&[DONE, "H"], Some("k"))] {
        let (url, heads) = scripted(&[script, &[DONE]]).await;
        failure(second(&url, key).await);
        assert_eq!(heads.lock().unwrap().len(), 2, "{key:?}");
    }
}

#[tokio::test]
async fn a_new_connection_that_is_closed_in_silence_is_the_receivers_failure() {
    let (unread, read): (&[_], &[_]) = (&[], &[""]);
    for new in [unread, read] {
        let (url, heads) = scripted(&[&[DONE, ""], new, &[DONE]]).await;
        failure(second(&url, Some("k")).await);
        assert_eq!(heads.lock().unwrap().len(), 2 + new.len());
    }
}

#[tokio::test]
async fn a_request_that_is_sent_once_more_has_what_is_left_of_its_time() {
    // Answers the first request. It says when it has read another, and closes when it is notified.
    let (reads, mut read) = unbounded_channel();
    let close = Arc::new(Notify::new());
    let closes = Arc::clone(&close);
    let (url, connections) = receiver(move |mut stream| {
        let (reads, closes) = (reads.clone(), Arc::clone(&closes));
        async move {
            if !head(&mut stream).await?.contains("idempotency-key") {
                stream.write_all(DONE.as_bytes()).await?;
                head(&mut stream).await?;
            }
            let _ = reads.send(());
            closes.notified().await;
            Ok(())
        }
    })
    .await;
    let (clock, timer) = crate::watched::clocked();
    let app = App { networks: vec!["127.0.0.0/8".parse().unwrap()], ..App::default() };
    let client = Client::new(&app, &timer);
    let limit = IDLE / 2;
    client.send(get(&url), limit).await.0.unwrap();
    let request = Request::post(&url).header("idempotency-key", "k");
    let mut sent = pin!(client.send(request.body(Full::default()).unwrap(), limit));
    for count in [1, 2] {
        tokio::select! {
            _ = &mut sent => panic!("it has ended before its time"),
            _ = read.recv() => assert_eq!(connections.load(SeqCst), count),
        }
        clock.advance(limit / 2);
        if count == 1 {
            close.notify_one();
        }
    }
    let late = failure(sent.now_or_never().expect("its time is over").0);
    assert!(late.contains("no whole answer within"), "{late}");
}

#[tokio::test]
async fn a_connection_ends_after_a_time_so_that_its_name_is_resolved_anew() {
    let (url, connections) = receiver(async |mut stream: TcpStream| {
        loop {
            head(&mut stream).await?;
            stream.write_all(DONE.as_bytes()).await?;
        }
    })
    .await;
    let url = url.replace("127.0.0.1", "localhost");
    let (clock, timer) = crate::watched::clocked();
    let app = App { networks: vec!["127.0.0.0/8".parse().unwrap()], ..App::default() };
    let client = Client::new(&app, &timer);
    let pause = IDLE / 2;
    let mut age = Duration::ZERO;
    // Never idle for long, as with a schedule of a second.
    while age < AGE {
        let timing = client.send(get(&url), LONG).await.1;
        assert_eq!(timing.resolve_ms.is_some(), age.is_zero(), "{age:?}");
        clock.advance(pause);
        age += pause;
    }
    assert_eq!(connections.load(SeqCst), 1);
    let timing = client.send(get(&url), LONG).await.1;
    assert!(timing.resolve_ms.is_some(), "{timing:?}");
    assert_eq!(connections.load(SeqCst), 2);
}
