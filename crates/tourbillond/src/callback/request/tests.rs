use std::collections::BTreeMap;

use super::*;
use crate::model::Callback;

fn callback() -> Callback {
    Callback {
        headers: BTreeMap::from([("X-Team".into(), "ops".into())]),
        body: r#"["{{app}}/{{ schedule }}","{{key}}",{{attempt}},"{{scheduled_for}}"]"#.into(),
        ..Callback::new("https://example.com/hook?a=b#part".into())
    }
}

fn attempt() -> Attempt<'static> {
    let trace = Trace::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    Attempt {
        app: "shop",
        schedule: "nightly",
        key: "shop/nightly@1.000002".into(),
        scheduled_for: Time::from_micros(1_000_002),
        number: 3,
        run: Some((TimerId::from_bits(7), Time::from_micros(9))),
        trace,
    }
}

fn built(callback: &Callback, secrets: &[&str]) -> Request<Full<Bytes>> {
    let secrets = secrets.iter().map(|secret| Secret((*secret).into())).collect::<Vec<_>>();
    let now = Timestamp::from_second(1_700_000_000).unwrap();
    build(callback, None, &attempt(), &App { secrets, ..App::default() }, now).unwrap()
}

fn body(request: Request<Full<Bytes>>) -> String {
    let body = http_body_util::BodyExt::collect(request.into_body());
    let body = tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(body);
    String::from_utf8(body.unwrap().to_bytes().to_vec()).unwrap()
}

fn faults(change: impl FnOnce(&mut Callback)) -> Vec<String> {
    let mut callback = callback();
    change(&mut callback);
    let faults = check(&App::default(), &callback).err().unwrap_or_default();
    faults.into_iter().map(|(field, _)| field).collect()
}

#[test]
fn a_request_says_what_it_is_for() {
    let request = built(&callback(), &[]);
    assert_eq!(request.method(), "POST");
    assert_eq!(request.uri(), "https://example.com/hook?a=b");
    let header = |name: &str| request.headers()[name].to_str().unwrap();
    assert_eq!(header("x-team"), "ops");
    assert_eq!(header("idempotency-key"), "shop/nightly@1.000002");
    assert_eq!(header("tourbillon-scheduled-for"), "1970-01-01T00:00:01.000002Z");
    assert_eq!(header("tourbillon-attempt"), "3");
    assert!(header("user-agent").starts_with("tourbillond/"));
    assert!(!request.headers().contains_key("tourbillon-signature"));
    let trace = header("traceparent");
    assert!(trace.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && trace.ends_with("-01"));
    assert!(!trace.contains("b7ad6b7169203331"));
    assert_ne!(built(&callback(), &[]).headers()["traceparent"], trace);
    let expected = r#"["shop/nightly","shop/nightly@1.000002",3,"1970-01-01T00:00:01.000002Z"]"#;
    assert_eq!(body(request), expected);
}

#[test]
fn a_body_has_a_content_type_unless_the_callback_gives_one() {
    let json = "application/json";
    let text = "text/plain; charset=utf-8";
    for (header, template, expected) in [
        (None, r#"{"key": "{{key}}", "attempt": {{attempt}}}"#, Some(json)),
        (None, " [1] ", Some(json)),
        (None, "hello {{schedule}}", Some(text)),
        (None, "{not json}", Some(text)),
        (None, "", None),
        (Some(("content-TYPE", "application/xml")), "<a/>", Some("application/xml")),
        (Some(("Content-Type", "")), "{}", Some("")),
    ] {
        let mut callback = callback();
        callback.body = template.into();
        let header = header.map(|(name, value)| (name.to_owned(), value.into()));
        callback.headers = BTreeMap::from_iter(header);
        let request = built(&callback, &[]);
        let types = request.headers().get_all("content-type");
        let types: Vec<_> = types.iter().map(|value| value.to_str().unwrap()).collect();
        assert_eq!(types, Vec::from_iter(expected), "{template}");
    }
}

#[test]
fn a_body_is_signed_with_the_time_by_each_secret() {
    let mut callback = callback();
    callback.body = "hello".into();
    let request = built(&callback, &["new", "old"]);
    // printf '1700000000.hello' | openssl dgst -sha256 -hmac new
    let expected = "t=1700000000,\
        v1=aafbca2442fcda34456d76735a2afa64e4f2d397dee5b83f9072a3ce8fbe2340,\
        v1=c0d6590df4783154554bdd431196f9c6d8061f1ae151e38b336093226e20efde";
    assert_eq!(request.headers()["tourbillon-signature"], expected);
}

#[test]
fn a_body_is_signed_by_standard_webhooks_too() {
    let mut callback = callback();
    callback.body = "hello".into();
    let request = built(&callback, &["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "old"]);
    let header = |name: &str| request.headers()[name].to_str().unwrap();
    assert_eq!(header("webhook-id"), "shop/nightly@1.000002");
    assert_eq!(header("webhook-timestamp"), "1700000000");
    // By the npm package `standardwebhooks`, the second with `format: "raw"`.
    let expected = "v1,9UCaCCa6LU/8S4ZbtkBnreS1L3V/MH60qT1B+b6YHTM= \
        v1,2TdoxLLuy/rFT2cakjBdPO+XkCPdQhXUSEzoC89LEGw=";
    assert_eq!(header("webhook-signature"), expected);
    assert!(!built(&callback, &[]).headers().contains_key("webhook-signature"));
}

#[test]
fn the_published_vector_of_standard_webhooks_is_met() {
    let secret = Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into());
    let now = Timestamp::from_second(1_614_265_330).unwrap();
    let body = br#"{"test": 2432232314}"#;
    let signed = standard_signature(&[secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", now, body);
    assert_eq!(signed.unwrap(), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    for wrong in ["whsec_", "whsec_a", "whsec_!!!!"] {
        assert!(Secret(wrong.into()).standard_key().is_err(), "{wrong}");
    }
}

#[test]
fn two_braces_stand_for_a_name_and_four_for_two() {
    let value = |name: &str| name.to_uppercase();
    assert_eq!(render("a {{key}}{{app}} } }}", &NAMES, value).unwrap(), "a KEYAPP } }}");
    assert_eq!(render("{{{{key}} {{{{{{key}}", &NAMES, value).unwrap(), "{{key}} {{KEY");
    assert_eq!(render(r#"{"a":{"b":{{key}}}}"#, &NAMES, value).unwrap(), r#"{"a":{"b":KEY}}"#);
    for wrong in ["{{", "{{key", "{{}}", "{{keys}}", "{{{key}}}"] {
        assert!(render(wrong, &NAMES, value).is_err(), "{wrong}");
    }
}

#[test]
fn a_definition_that_can_be_called_passes() {
    assert_eq!(faults(|_| ()), [""; 0]);
    assert_eq!(faults(|callback| callback.timeout = Some("1m 30s".into())), [""; 0]);
    assert_eq!(faults(|callback| callback.url = "http://[2606:4700::1111]:8080".into()), [""; 0]);
}

#[test]
fn each_field_that_is_wrong_is_named() {
    assert_eq!(faults(|callback| callback.method = "CONNECT".into()), ["callback.method"]);
    assert_eq!(faults(|callback| callback.method = "GET / HTTP/1.1\r\nA".into()).len(), 1);
    for url in [
        "",
        "/hook",
        "ftp://example.com",
        "http://",
        "https://me:pw@example.com",
        "file:///",
        "http://127.1",
    ] {
        assert_eq!(faults(|callback| callback.url = url.into()), ["callback.url"], "{url}");
    }
    for body in ["{{secret}}", "{{"] {
        assert_eq!(faults(|callback| callback.body = body.into()), ["callback.body"]);
    }
    for timeout in ["0s", "6m", "-1s", "soon"] {
        let faults = faults(|callback| callback.timeout = Some(timeout.into()));
        assert_eq!(faults, ["callback.timeout"], "{timeout}");
    }
    let all = faults(|callback| {
        callback.method = "x".into();
        callback.url = "x".into();
        callback.body = "x".repeat(BODY_MAX + 1);
    });
    assert_eq!(all, ["callback.method", "callback.url", "callback.body"]);
}

#[test]
fn a_header_cannot_speak_for_the_connection_or_the_service_or_begin_another() {
    let names = REFUSED.into_iter().chain(["Tourbillon-Signature", "Host", "a b", "", "X\r\nY"]);
    for name in names {
        let faults = faults(|callback| {
            callback.headers.insert(name.into(), "value".into());
        });
        assert_eq!(faults, [format!("callback.headers.{name}")]);
    }
    for value in ["a\r\nHost: b", "a\nb", "a\0", "\u{7f}", "é"] {
        let faults = faults(|callback| {
            callback.headers.insert("X-Value".into(), value.into());
        });
        assert_eq!(faults, ["callback.headers.X-Value"], "{value:?}");
    }
    let twice = faults(|callback| {
        callback.headers.insert("x-team".into(), "dev".into());
    });
    assert_eq!(twice, ["callback.headers.x-team"]);
}

#[test]
fn what_is_no_trace_context_is_not_carried_on() {
    let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    assert_eq!(Trace::parse(good).unwrap().id(), "0af7651916cd43dd8448eb211c80319c");
    assert!(Trace::parse(&good.replacen("00", "01", 1)).is_some());
    assert!(Trace::parse(&(good.replacen("00", "01", 1) + "-more")).is_some());
    let bad = [
        "",
        "00",
        &good.replacen("00", "ff", 1),
        &good.to_uppercase(),
        &format!("{good}-more"),
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
    ];
    for text in bad {
        assert!(Trace::parse(text).is_none(), "{text}");
    }
}

#[test]
fn what_leads_to_no_destination_any_more_is_not_built() {
    let built = |destination: &str| {
        let app = serde_json::json!({ "destinations": [destination] });
        let app: App = serde_json::from_value(app).unwrap();
        build(&callback(), None, &attempt(), &app, Timestamp::UNIX_EPOCH).map(|_| ())
    };
    assert_eq!(built("example.com"), Ok(()));
    let why = "the URL leads to none of the app's destinations";
    assert_eq!(built("example.org"), Err(why.to_owned()));
}

#[test]
fn a_secret_that_leaves_the_host_by_a_proxy_needs_tls() {
    let faults_of = |no_proxy: &str| {
        let app = serde_json::json!({
            "networks": ["127.0.0.0/8"],
            "header_secrets": { "a": { "value": "Bearer hunter2", "hosts": ["localhost"] } },
            "proxy": { "http": "http://proxy", "no_proxy": no_proxy },
        });
        let mut app: App = serde_json::from_value(app).unwrap();
        app.proxies = crate::config::Proxies::read(&app.proxy, |_| None).unwrap();
        let headers = [("X-A".to_owned(), Header::Secret { secret: "a".to_owned() })].into();
        let callback = Callback { url: "http://localhost:7/".into(), headers, ..callback() };
        let built = build(&callback, None, &attempt(), &app, Timestamp::UNIX_EPOCH).map(|_| ());
        (check(&app, &callback).map_err(|faults| faults[0].1.clone()), built)
    };
    assert_eq!(faults_of("localhost"), (Ok(()), Ok(())));
    let why = "names a secret that is sent over https only".to_owned();
    assert_eq!(faults_of(""), (Err(why.clone()), Err(format!("header X-A {why}"))));
}

#[test]
fn only_an_attempt_that_can_be_completed_carries_a_token() {
    let plain = callback();
    let completed = Callback { complete_within: Some("1h".into()), ..callback() };
    let has_token = |request: &Request<Full<Bytes>>| {
        request.headers().keys().any(|name| name.as_str().contains("completion"))
    };
    assert!(!has_token(&built(&plain, &["secret"])));
    let request = built(&completed, &["secret", "older"]);
    let header = |name: &str| request.headers()[name].to_str().unwrap();
    let run = TimerId::from_bits(7);
    let path = format!("/v1/apps/shop/runs/{run}/attempts/3/completion");
    assert_eq!(header("tourbillon-completion-path"), path);
    let ticket = Ticket { app: "shop", run, made: Time::from_micros(9), attempt: 3 };
    assert_eq!(header("tourbillon-completion-token"), ticket.token(&Secret("secret".into())));
    // A test of a callback is no run, and an app that lost its secrets cannot be called.
    let app = App { secrets: vec![Secret("secret".into())], ..App::default() };
    let test = Attempt { run: None, ..attempt() };
    assert!(!has_token(&build(&completed, None, &test, &app, Timestamp::UNIX_EPOCH).unwrap()));
    build(&completed, None, &attempt(), &App::default(), Timestamp::UNIX_EPOCH).unwrap_err();
}

#[test]
fn the_time_of_a_completion_is_bounded_and_needs_a_secret() {
    let app = App { secrets: vec![Secret("secret".into())], ..App::default() };
    let faults = |app: &App, within: &str| {
        let callback = Callback { complete_within: Some(within.into()), ..callback() };
        check(app, &callback).err().unwrap_or_default().len()
    };
    for (within, count) in [("1s", 0), ("30d", 0), ("999ms", 1), ("721h", 1), ("soon", 1)] {
        assert_eq!(faults(&app, within), count, "{within}");
    }
    assert_eq!(faults(&App::default(), "1h"), 1);
}
