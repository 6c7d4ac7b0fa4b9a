use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::dispatch::head;

/// Reads a request with its body.
async fn request(stream: &mut TcpStream) -> io::Result<String> {
    let mut text = head(stream).await?;
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await?;
    text += &String::from_utf8_lossy(&body);
    Ok(text)
}

/// Starts an endpoint that answers with this status, and with a body in which `N` is the number of
/// the request. Returns its URL and the number of requests.
async fn endpoint(status: &'static str, body: &'static str) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/token", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let asked = request(&mut stream).await.unwrap();
            assert!(asked.starts_with("POST /token HTTP/1.1\r\n"), "{asked}");
            // `a%3Ab:s+%26`.
            assert!(asked.contains("\r\nauthorization: Basic YSUzQWI6cyslMjY=\r\n"), "{asked}");
            let body_sent = "\r\n\r\ngrant_type=client_credentials&scope=read+write";
            assert!(asked.ends_with(body_sent), "{asked}");
            let number = counted.fetch_add(1, SeqCst) + 1;
            let body = body.replace('N', &number.to_string());
            let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length:");
            let answer = format!("{head} {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (url, count)
}

fn tokens(url: &str, networks: &[&str], timer: &Timer) -> Tokens {
    let oauth = serde_json::json!({
        "token_url": url, "client_id": "a:b", "client_secret": "s &", "scope": "read write",
    });
    let app = serde_json::json!({
        "networks": networks,
        "header_secrets": { "erp": { "oauth": oauth, "hosts": ["erp.example"] } },
    });
    let app: App = serde_json::from_value(app).unwrap();
    Tokens::new(&app, &Client::new(&app, timer), timer)
}

/// Waits for the end of the fetch that is under way.
async fn fetched(tokens: &Tokens) {
    drop(tokens.known["erp"].fetching.lock().await);
}

#[tokio::test]
async fn a_token_is_fetched_once_for_many_until_shortly_before_its_end() {
    let (clock, timer) = crate::watched::clocked();
    let answer = r#"{"access_token":"tN","token_type":"bearer","expires_in":3600,"more":1}"#;
    let (url, count) = endpoint("200 OK", answer).await;
    let tokens = tokens(&url, &["127.0.0.0/8"], &timer);
    let all = futures_util::future::join_all((0..20).map(|_| tokens.get("erp", None))).await;
    assert!(all.iter().all(|token| token.as_deref() == Ok("Bearer t1")), "{all:?}");
    clock.advance(Duration::from_secs(3539));
    assert_eq!(tokens.get("erp", None).await.as_deref(), Ok("Bearer t1"));
    clock.advance(Duration::from_secs(1));
    assert_eq!(tokens.get("erp", None).await.as_deref(), Ok("Bearer t1"));
    fetched(&tokens).await;
    assert_eq!(tokens.get("erp", None).await.as_deref(), Ok("Bearer t2"));
    // Two that were refused with the same token.
    for _ in 0..2 {
        assert_eq!(tokens.get("erp", Some("Bearer t2")).await.as_deref(), Ok("Bearer t3"));
    }
    assert_eq!(count.load(SeqCst), 3);
    // A receiver that refuses each token has one fetched a second.
    assert_eq!(tokens.get("erp", Some("Bearer t3")).await.as_deref(), Ok("Bearer t3"));
    assert_eq!(count.load(SeqCst), 3);
    clock.advance(PAUSE);
    assert_eq!(tokens.get("erp", Some("Bearer t3")).await.as_deref(), Ok("Bearer t4"));
}

#[tokio::test]
async fn a_fetch_that_nobody_waits_for_any_more_is_finished_for_the_next() {
    let answer = r#"{"access_token":"tN","token_type":"bearer"}"#;
    let (url, count) = endpoint("200 OK", answer).await;
    let tokens = tokens(&url, &["127.0.0.0/8"], &Timer::global());
    let is_asked = async {
        while count.load(SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        () = is_asked => {}
        token = tokens.get("erp", None) => panic!("{token:?} is there before it is asked for"),
    }
    assert_eq!(tokens.get("erp", None).await.as_deref(), Ok("Bearer t1"));
    assert_eq!(count.load(SeqCst), 1);
}

#[tokio::test]
async fn a_token_that_is_still_good_is_used_while_no_other_can_be_had() {
    let (clock, timer) = crate::watched::clocked();
    let (url, count) = endpoint("503 No", "").await;
    let tokens = tokens(&url, &["127.0.0.0/8"], &timer);
    let second = Duration::from_secs(1);
    let (renew, end) = (timer.now() + second, timer.now() + 10 * second);
    let token = FetchedToken { value: "Bearer old".to_owned(), renew, end };
    tokens.known["erp"].known().token = Some(token);
    for (after, fetches) in [(0, 0), (1, 1), (0, 1), (1, 2)] {
        clock.advance(after * second);
        assert_eq!(tokens.get("erp", None).await.as_deref(), Ok("Bearer old"), "{fetches}");
        fetched(&tokens).await;
        assert_eq!(count.load(SeqCst), fetches);
    }
    // A refused token is no longer valid.
    tokens.get("erp", Some("Bearer old")).await.unwrap_err();
    clock.advance(8 * second);
    tokens.get("erp", None).await.unwrap_err();
}

#[tokio::test]
async fn a_token_that_is_still_good_is_used_while_its_renewal_hangs() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/token", listener.local_addr().unwrap());
    let tokens = tokens(&url, &["127.0.0.0/8"], &Timer::global());
    let now = tokens.timer.now();
    let token = FetchedToken { value: "Bearer old".to_owned(), renew: now, end: now + LIFE };
    tokens.known["erp"].known().token = Some(token);
    let all = futures_util::future::join_all((0..20).map(|_| tokens.get("erp", None))).await;
    assert!(all.iter().all(|token| token.as_deref() == Ok("Bearer old")), "{all:?}");
    // It is asked once, and says nothing for as long as the test takes.
    let (_held, _) = listener.accept().await.unwrap();
    assert!(tokens.known["erp"].fetching.try_lock().is_err());
    assert_eq!(tokens.get("erp", None).await.as_deref(), Ok("Bearer old"));
}

#[tokio::test]
async fn an_error_of_an_endpoint_says_that_it_is_one_and_is_not_repeated_at_once() {
    let (clock, timer) = crate::watched::clocked();
    let (url, count) = endpoint("400 No", r#"{"error":"invalid_scope"}"#).await;
    let tokens_of = |networks: &[&str]| tokens(&url, networks, &timer);
    let tokens = tokens_of(&["127.0.0.0/8"]);
    let why = "the token of `erp`: answered 400 Bad Request: invalid_scope";
    for _ in 0..2 {
        assert_eq!(tokens.get("erp", None).await, Err(Lack::Failure(why.to_owned())));
    }
    assert_eq!(count.load(SeqCst), 1);
    clock.advance(PAUSE);
    tokens.get("erp", None).await.unwrap_err();
    assert_eq!(count.load(SeqCst), 2);
    // The rule for addresses holds for an endpoint too.
    let Lack::Failure(why) = tokens_of(&[]).get("erp", None).await.unwrap_err() else { panic!() };
    let is_named = why.starts_with("the token of `erp`: ");
    assert!(is_named && why.contains("is loopback"), "{why}");
    assert_eq!(count.load(SeqCst), 2);
}

#[test]
fn an_answer_that_is_no_token_is_refused_without_its_text() {
    let read = |status: u16, body: &str| {
        let status = hyper::StatusCode::from_u16(status).unwrap();
        let headers = hyper::HeaderMap::new();
        read(&Answer { status, headers, body: body.into() })
    };
    let good = r#"{"access_token":"hunter2","token_type":"Bearer"}"#;
    assert_eq!(read(200, good), Ok(("Bearer hunter2".to_owned(), LIFE)));
    for (expires, seconds) in [
        ("3600", 3_600),
        (r#""3600""#, 3_600),
        ("3600.0", 3_600),
        ("0", 1),
        ("-5", 1),
        ("1e300", LIFE_MAX.as_secs()),
        ("99999999999", LIFE_MAX.as_secs()),
        (r#""NaN""#, LIFE.as_secs()),
        ("null", LIFE.as_secs()),
    ] {
        let body =
            format!(r#"{{"access_token":"a","token_type":"bearer","expires_in":{expires}}}"#);
        assert_eq!(read(200, &body).unwrap().1.as_secs(), seconds, "{expires}");
    }
    for (status, body, why) in [
        (200, "hunter2", "without `access_token`"),
        (200, r#"{"access_token":"hunter2"}"#, "without `access_token`"),
        (200, r#"{"access_token":"hunter2","token_type":"mac"}"#, "no bearer token"),
        (200, r#"{"access_token":"hunter2 ","token_type":"bearer"}"#, "no header can have"),
        (200, r#"{"access_token":"","token_type":"bearer"}"#, "no header can have"),
        (401, "hunter2", "answered 401 Unauthorized"),
        (302, good, "answered 302 Found"),
    ] {
        let error = read(status, body).unwrap_err();
        assert!(error.contains(why) && !error.contains("hunter2"), "{body}: {error}");
    }
}

#[test]
fn an_endpoint_that_an_app_may_not_call_is_refused_with_the_configuration() {
    let check = |url: &str| {
        let oauth = serde_json::json!({ "token_url": url, "client_id": "a", "client_secret": "b" });
        let app = serde_json::json!({
            "destinations": ["*.example.com"],
            "header_secrets": { "erp": { "oauth": oauth, "hosts": ["erp.example.com"] } },
        });
        let app: App = serde_json::from_value(app).unwrap();
        let apps = [("a".to_owned(), app)].into();
        crate::dispatch::check_all(&crate::config::Config { apps, ..Default::default() })
    };
    check("https://login.example.com/token").unwrap();
    for (url, why) in [
        ("https://login.example.org/token", "leads to none of the app's destinations"),
        ("https://127.0.0.1/token", "leads to none of the app's destinations"),
    ] {
        let error = check(url).unwrap_err();
        let field = "app `a`: `header_secrets.erp`: `token_url` ";
        assert!(error.starts_with(field) && error.contains(why), "{error}");
    }
}
