//! Callbacks that are made by SQL, in a transaction of the caller's: `deploy/call.sql`.
//! `ci/durable-postgres.sh` makes the PostgreSQL.

#[path = "support/postgres.rs"]
mod postgres;
#[path = "sql/programs.rs"]
mod programs;
#[path = "support/tourbillond.rs"]
mod tourbillond_process;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use postgres::{database, psql, start_psql};
use serde_json::{Value, json};
use tourbillond_process::Tourbillond;

const CALL_SQL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/call.sql");

/// Pause between two looks at whether something has come to pass.
const LOOK: Duration = Duration::from_millis(50);

/// The row of the key `k`, without the time of its creation.
const ROW: &str = r#"
    SELECT to_jsonb(t) || jsonb_build_object('payload', regexp_replace(
        convert_from(t.payload, 'UTF8'), '"created":"[0-9T:.-]+Z"', '"created":""'))
    FROM tourbillon.timer AS t WHERE t.name = 'shop/k';"#;

/// A service on a database of its own, in which the role `web` may call back for the app `shop`.
struct Shop {
    service: Tourbillond,
    store: String,
    web: String,
}

impl Shop {
    /// Starts it with this limit of schedules.
    fn start(folder: &Path, limit: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let store = database(&format!("sql_{number}"));
        let web = format!("{}_web", store.rsplit('/').next().unwrap());
        psql(&store, &[], &format!("CREATE ROLE {web};")).unwrap();
        let config = "[apps.shop]\nnetworks = ['127.0.0.0/8']\n\
                      [apps.shop.header_secrets]\n\
                      ledger = { value = 'Bearer hunter2', hosts = ['example.com'] }\n";
        std::fs::write(folder.join("apps.toml"), config).unwrap();
        let flags = ["--config", "apps.toml", "--store", &store, "--log", "off"];
        let service = Tourbillond::start(folder, &flags);
        psql(&store, &["--single-transaction", "-f", CALL_SQL], "").unwrap();
        psql(&store, &[], &format!("SELECT tourbillond.allow('shop', '{web}', {limit});")).unwrap();
        Self { service, store, web }
    }

    /// Runs a script as the role; the lines of its answers, or the code of its error.
    fn by_sql(&self, script: &str) -> Result<Vec<String>, String> {
        psql(&self.store, &[], &format!("SET SESSION AUTHORIZATION {};\n{script}", self.web))
    }

    /// A URL that answers a GET with 200.
    fn good(&self) -> String {
        format!("http://{}/healthz", self.service.address)
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.service.call("", method, &format!("/v1/apps/shop/{path}"), body)
    }

    /// The run with this id, once it has this state.
    fn run(&self, id: &str, state: &str) -> Value {
        loop {
            let (status, run) = self.ask("GET", &format!("runs/{id}"), &Value::Null);
            if (status, &run["state"]) == (200, &json!(state)) {
                return run;
            }
            thread::sleep(LOOK);
        }
    }
}

/// Makes the key `k` by SQL and takes it back, then makes it by the API: the rows are the same.
/// Returns the id.
fn both(shop: &Shop, arguments: &str, definition: &Value) -> String {
    let call = format!("SELECT created FROM tourbillond.call_shop('k', {arguments});");
    let script = format!("BEGIN; {call} RESET SESSION AUTHORIZATION; {ROW} ROLLBACK;");
    let by_sql = shop.by_sql(&script).unwrap();
    let (status, made) = shop.ask("PUT", "schedules/k", definition);
    assert_eq!(status, 201, "{made}");
    let by_api = psql(&shop.store, &[], ROW).unwrap();
    assert_eq!(by_sql, ["t", &by_api[0]]);
    // It is also known to be the same.
    let again = shop.by_sql(&format!("SELECT * FROM tourbillond.call_shop('k', {arguments});"));
    let id = made["id"].as_str().unwrap();
    assert_eq!(again.unwrap(), [format!("{id}|f")]);
    id.to_owned()
}

#[test]
fn a_callback_by_sql_is_the_row_that_the_api_makes() {
    let folder = tempfile::tempdir().unwrap();
    let shop = Shop::start(folder.path(), "10000");
    let when = json!({ "at": "2199-01-02T03:04:05.0607Z" });
    let at = "'2199-01-02 04:04:05.0607+01'";
    let url = "https://example.com/a?b='c'&d=%22é";
    let body = "line\n\"quoted\" \\ \u{1} \u{7f} \u{1F980} {{key}}";
    let headers = json!({ "Authorization": { "secret": "ledger" }, "X-B": "\"b\"", "X-Aa": "" });
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let long = [quoted(url), quoted(body), at.to_owned()].join(", ");
    let long = format!("{long}, 'PUT', {}", quoted(&headers.to_string()));
    let with_all = json!({ "method": "PUT", "url": url, "headers": headers, "body": body });
    let retry = json!({ "attempts": 7, "first": "1.5s", "longest": "3600s" });
    let all = [
        (
            format!("'http://127.0.0.1/', NULL, {at}"),
            json!({ "when": when, "callback": { "url": "http://127.0.0.1/" } }),
        ),
        (long, json!({ "when": when, "callback": with_all })),
        (
            "'HTTP://127.0.0.1', 'x', '2100-01-01Z', retry_attempts => 7, \
             retry_first => '1.5 s', retry_longest => '1 hour'"
                .to_owned(),
            json!({ "when": { "at": "2100-01-01T00:00:00Z" }, "retry": retry,
                "callback": { "url": "HTTP://127.0.0.1", "body": "x" } }),
        ),
    ];
    for (arguments, definition) in all.iter().chain(&all) {
        // Each time the key is free again, and the id another.
        both(&shop, arguments, definition);
        assert_eq!(shop.ask("DELETE", "schedules/k", &Value::Null).0, 200);
    }
    assert!(shop.service.stop());
}

#[test]
fn a_key_that_is_over_is_answered_until_it_is_freed() {
    let folder = tempfile::tempdir().unwrap();
    let shop = Shop::start(folder.path(), "10000");
    let url = shop.good();
    let at = "2001-01-01T00:00:00Z";
    let call = |url: &str, retries: &str| {
        let arguments = format!("'k', '{url}', NULL, '{at}', 'GET'{retries}");
        shop.by_sql(&format!("SELECT * FROM tourbillond.call_shop({arguments});"))
    };
    let once = ", retry_attempts => 1, retry_first => '0', retry_longest => '0'";
    // The record of a success has no payload, and that of a dead run has.
    for (url, retries, state) in [(&*url, "", "succeeded"), ("http://127.0.0.1:1/", once, "dead")] {
        let made = call(url, retries).unwrap().remove(0);
        let (id, created) = made.split_once('|').unwrap();
        assert_eq!(created, "t");
        shop.run(id, state);
        assert_eq!(call(url, retries).unwrap(), [format!("{id}|f")]);
        assert_eq!(call("http://127.0.0.1:2/", retries).unwrap_err(), "23505");
        assert_eq!(shop.ask("DELETE", "schedules/k", &Value::Null).0, 200);
    }
    // The row after each of them is the API's, too.
    let far = json!({ "when": { "at": "2199-01-01T00:00:00Z" }, "callback": { "url": url } });
    both(&shop, &format!("'{url}', '', '2199-01-01Z'"), &far);
    assert!(shop.service.stop());
}

#[test]
fn a_callback_is_made_once_its_transaction_commits() {
    let folder = tempfile::tempdir().unwrap();
    let shop = Shop::start(folder.path(), "10000");
    let url = shop.good();
    let call = |key: &str, at: &str| {
        format!("SELECT run FROM tourbillond.call_shop('{key}', '{url}', NULL, {at}, 'GET');")
    };
    let gone = format!("BEGIN; {} ROLLBACK;", call("gone", "now()"));
    assert_eq!(shop.by_sql(&gone).unwrap().len(), 1);
    assert_eq!(shop.ask("GET", "schedules/gone", &Value::Null).0, 404);

    // Nodes are notified of what is due soon, and of nothing else.
    let script = format!(
        "LISTEN tourbillon; BEGIN; {} {} COMMIT;",
        call("at-once", "now()"),
        call("later", "now() + interval '1 day'")
    );
    let lines = shop.by_sql(&script).unwrap();
    let id = &lines[0];
    let shard = u32::from_str_radix(&id[34..], 16).unwrap() & 63;
    let notice = format!("\"tourbillon\" with payload \"{:016x}\"", 1u64 << shard);
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[2].contains(&notice), "{lines:?}");
    shop.run(id, "succeeded");
    let (_, later) = shop.ask("GET", "schedules/later", &Value::Null);
    assert_eq!((&later["state"], &later["id"]), (&json!("pending"), &json!(lines[1])));
    assert_eq!(shop.ask("POST", "schedules/later/run-now", &Value::Null).0, 200);
    shop.run(&lines[1], "succeeded");
    assert!(shop.service.stop());
}

#[test]
fn a_role_calls_back_for_its_app_and_does_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let shop = Shop::start(folder.path(), "10000");
    let (store, web) = (&shop.store, &shop.web);
    psql(store, &[], &format!("SELECT tourbillond.allow('bank', '{web}');")).unwrap();
    psql(store, &[], &format!("REVOKE ALL ON FUNCTION tourbillond.call_bank FROM {web};")).unwrap();
    let arguments = "'k', 'http://127.0.0.1/', 'x', '2199-01-01Z'";
    for refused in [
        &format!("tourbillond.call_bank({arguments})"),
        &format!("tourbillond.call('shop', {arguments})"),
        &format!("tourbillond.allow('shop', '{web}')"),
        "tourbillon.timer",
        "tourbillon.once('http.shop', now())",
    ] {
        assert_eq!(shop.by_sql(&format!("SELECT * FROM {refused};")).unwrap_err(), "42501");
    }
    let granted = "SELECT proname FROM pg_proc WHERE pronamespace = 'tourbillond'::regnamespace \
                   AND has_function_privilege(oid, 'EXECUTE');";
    assert_eq!(shop.by_sql(granted).unwrap(), ["call_shop"]);
    // The caller's own functions are not called as the owner.
    let trap = format!(
        "CREATE SCHEMA trap; GRANT USAGE ON SCHEMA trap TO {web};
         CREATE FUNCTION trap.to_json(text) RETURNS json LANGUAGE sql AS 'SELECT NULL::json';
         CREATE FUNCTION trap.octet_length(bytea) RETURNS int LANGUAGE sql AS 'SELECT 1/0';
         SET search_path = trap, pg_catalog; SET ROLE {web};
         SELECT created FROM tourbillond.call_shop({arguments});"
    );
    assert_eq!(psql(store, &[], &trap).unwrap(), ["t"]);
    assert_eq!(shop.ask("GET", "schedules/k", &Value::Null).1["callback"]["body"], json!("x"));
    assert!(shop.service.stop());
}

#[test]
fn sql_refuses_what_the_api_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let shop = Shop::start(folder.path(), "2");
    let call = |arguments: &str| {
        let script = format!("SELECT created FROM tourbillond.call_shop({arguments});");
        shop.by_sql(&script)
    };
    let good = "'k', 'http://127.0.0.1/', 'x', '2199-01-01Z'";
    let large = "'k', 'http://127.0.0.1/', repeat('x', 49000), '2199-01-01Z'";
    for wrong in [
        "'a/b', 'http://127.0.0.1/', 'x', now()",
        "'..', 'http://127.0.0.1/', 'x', now()",
        "NULL, 'http://127.0.0.1/', 'x', now()",
        "repeat('k', 121), 'http://127.0.0.1/', 'x', now()",
        "'k', '/path', 'x', now()",
        "'k', NULL, 'x', now()",
        "'k', 'http://127.0.0.1/', 'x', NULL",
        "'k', 'http://127.0.0.1/', 'x', 'infinity'",
        large,
        &format!("{good}, 'get'"),
        &format!("{good}, headers => '[]'"),
        &format!(r#"{good}, headers => '{{"a": 1}}'"#),
        &format!(r#"{good}, headers => '{{"a": {{"secret": "b", "c": "d"}}}}'"#),
        &format!("{good}, retry_attempts => 0"),
        &format!("{good}, retry_first => '0'"),
        &format!("{good}, retry_first => '3 minutes'"),
        &format!("{good}, retry_longest => '2 days'"),
    ] {
        assert_eq!(call(wrong).unwrap_err(), "22023", "{wrong}");
    }
    let every = json!({ "when": { "every": "1h" }, "callback": { "url": "http://127.0.0.1/" } });
    assert_eq!(shop.ask("PUT", "schedules/every", &every).0, 201);
    assert_eq!(call(&good.replace("'k'", "'every'")).unwrap_err(), "23505");
    assert_eq!(call(good).unwrap(), ["t"]);
    assert_eq!(call(&good.replace("2199", "2198")).unwrap_err(), "23505");
    // The app has a repeating schedule and a one-shot.
    assert_eq!(call(&good.replace("'k'", "'l'")).unwrap_err(), "53400");
    assert_eq!(call(good).unwrap(), ["f"]);
    assert!(shop.service.stop());
}

#[test]
fn what_sql_cannot_judge_is_a_dead_run_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let shop = Shop::start(folder.path(), "NULL");
    for (arguments, headers, reason) in [
        ("'http://10.0.0.1/', 'x'", "{}", "10.0.0.1"),
        ("'http://[', 'x'", "{}", "is no URL"),
        ("'http://127.0.0.1/', '{{what}}'", "{}", "`what`"),
        ("'http://127.0.0.1/', 'x'", r#"{"a": {"secret": "none"}}"#, "does not have"),
        ("'http://127.0.0.1/', 'x'", r#"{"host": "a"}"#, "is set by the service"),
    ] {
        let script = format!(
            "SELECT run FROM tourbillond.call_shop(gen_random_uuid()::text, {arguments}, now(), \
             headers => '{headers}', retry_attempts => 1);"
        );
        let id = shop.by_sql(&script).unwrap().remove(0);
        let run = shop.run(&id, "dead").to_string();
        assert!(run.contains(reason), "{run}");
    }
    assert!(shop.service.stop());
}

#[test]
fn of_two_transactions_with_a_key_the_second_waits_for_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let shop = Shop::start(folder.path(), "10000");
    let waits = "SELECT count(*) FROM pg_stat_activity \
                 WHERE datname = current_database() AND wait_event = 'transactionid';";
    for (key, end, created) in [("kept", "COMMIT;", "f"), ("undone", "ROLLBACK;", "t")] {
        let arguments = format!("'{key}', 'http://127.0.0.1/', 'x', '2199-01-01Z'");
        let call = format!("SELECT * FROM tourbillond.call_shop({arguments});");
        let mut first = start_psql(&shop.store, &[]);
        let mut stdin = first.stdin.take().unwrap();
        writeln!(stdin, "SET SESSION AUTHORIZATION {}; BEGIN; {call}", shop.web).unwrap();
        let mut answer = String::new();
        BufReader::new(first.stdout.take().unwrap()).read_line(&mut answer).unwrap();
        let (id, _) = answer.split_once('|').unwrap();
        let second = thread::scope(|scope| {
            let second = scope.spawn(|| shop.by_sql(&call));
            while psql(&shop.store, &[], waits).unwrap() != ["1"] {
                thread::sleep(LOOK);
            }
            writeln!(stdin, "{end}").unwrap();
            drop(stdin);
            second.join().unwrap()
        });
        assert_eq!(second.unwrap(), [format!("{id}|{created}")]);
        assert!(first.wait().unwrap().success());
    }
    assert!(shop.service.stop());
}
