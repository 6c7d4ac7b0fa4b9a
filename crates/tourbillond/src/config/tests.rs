use std::io::Write as _;
use std::time::Duration;

use super::{Config, Flags, LogFormat, Scope, Settings, StoreAt, TlsFiles, TlsVersion, load};
use crate::authority::{Authority, pem};

const SHA: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

fn file(text: &str) -> (tempfile::NamedTempFile, Flags) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let flags = Flags { config: Some(file.path().to_owned()), ..Flags::default() };
    (file, flags)
}

fn read(text: &str) -> (Settings, Config) {
    let (_file, flags) = file(text);
    load(&flags).unwrap()
}

fn refused(text: &str) -> String {
    let (_file, flags) = file(text);
    load(&flags).unwrap_err().to_string()
}

#[test]
fn without_anything_there_is_one_app_on_loopback() {
    let (settings, config) = load(&Flags::default()).unwrap();
    assert!(settings.listen.ip().is_loopback());
    assert_eq!(settings.store, StoreAt::File("tourbillon.db".into()));
    assert_eq!(settings.log_format, LogFormat::Text);
    assert!(config.is_open());
    assert_eq!(config.apps.keys().collect::<Vec<_>>(), ["default"]);
    assert!(config.apps["default"].networks[0].contains("127.1.2.3".parse().unwrap()));
}

#[test]
fn a_flag_counts_more_than_the_file() {
    let (_file, flags) = file("listen = '127.0.0.1:1'\nstore = 'postgres://a:b@c/d'\nkeep = '3d'");
    let (settings, _) = load(&flags).unwrap();
    assert_eq!(settings.listen.port(), 1);
    assert_eq!(settings.store.to_string(), "postgres://a@c/d");
    assert_eq!(settings.keep.as_secs(), 3 * 86_400);
    let flags = Flags { listen: Some("127.0.0.1:2".parse().unwrap()), ..flags };
    assert_eq!(load(&flags).unwrap().0.listen.port(), 2);
}

#[test]
fn hosts_are_those_of_the_flags_or_else_of_the_file() {
    let (_file, flags) = file("hosts = ['timers.example.com', '*.internal:8321']");
    let hosts = |flags: &Flags| load(flags).unwrap().1.hosts;
    let of = |hosts: &[&str]| hosts.iter().map(|host| host.parse().unwrap()).collect::<Vec<_>>();
    assert_eq!(hosts(&flags), of(&["timers.example.com", "*.internal:8321"]));
    let flags = Flags { host: of(&["other.example"]), ..flags };
    assert_eq!(hosts(&flags), of(&["other.example"]));
    assert!(refused("hosts = ['http://timers.example.com']").contains("is no host"));
}

#[test]
fn apps_have_tokens_limits_and_destinations() {
    let text = format!(
        "[admin]\ntokens = [{{ sha256 = '{SHA}' }}]\n\
         [apps.mail]\ntokens = [{{ sha256 = '{SHA}', scope = 'write' }}]\n\
         destinations = ['*.example.com']\nnetworks = ['10.0.0.0/8']\nsecrets = ['s']\n\
         limits = {{ schedules = 5 }}"
    );
    let (_, config) = read(&text);
    let mail = &config.apps["mail"];
    assert!(!config.is_open());
    assert_eq!(config.apps.len(), 1, "a service with tokens has no further app");
    assert_eq!(config.admin[0].scope, Scope::Read);
    assert_eq!(mail.tokens[0].scope, Scope::Write);
    assert!(mail.tokens[0].is(&super::hash("test")));
    assert!(!mail.tokens[0].is(&super::hash("tesu")));
    assert_eq!((mail.limits.schedules, mail.limits.concurrent), (5, 256));
    assert!(!format!("{mail:?}").contains("\"s\""));
}

#[test]
fn a_name_is_of_one_token() {
    let other = SHA.replace('9', "8");
    let one = |name: &str, sha: &str| format!("{{ name = '{name}', sha256 = '{sha}' }}");
    let both = |first: &str, second: &str| {
        format!("audit = 'a.log'\n[admin]\ntokens = [{first}]\n[apps.a]\ntokens = [{second}]")
    };
    let (settings, config) = read(&both(&one("ann", SHA), &one("bob", &other)));
    assert_eq!(settings.audit, Some("a.log".into()));
    assert_eq!(
        (config.admin[0].name(), config.apps["a"].tokens[0].name()),
        ("ann".into(), "bob".into())
    );
    read(&both(&one("ann", SHA), &one("ann", SHA)));
    let refused_name = refused(&both(&one("ann", SHA), &one("ann", &other)));
    assert!(refused_name.contains("apps.a.tokens") && refused_name.contains("`ann`"));
    // By either name, the log could have changes by the other.
    let two_names = refused(&both(&one("ann", SHA), &one("bob", SHA)));
    assert!(two_names.contains("`ann` and `bob`"), "{two_names}");
    refused(&both(&one("ann", SHA), &format!("{{ sha256 = '{SHA}' }}")));
    for wrong in ["", "a b", "ä", &"a".repeat(65)] {
        assert!(
            refused(&both(&one("ann", SHA), &one(wrong, &other))).contains("1 to 64"),
            "{wrong}"
        );
    }
    let (_, config) = read(&format!("[admin]\ntokens = [{{ sha256 = '{SHA}' }}]"));
    assert_eq!(config.admin[0].name(), "sha256:9f86d081884c");
}

#[test]
fn tls_is_of_the_flags_or_else_of_the_file_and_needs_both_files() {
    let tls = read("tls = { certificate = 'c', key = 'k', minimum = '1.3' }").0.tls.unwrap();
    let files = TlsFiles { certificate: "c".into(), key: "k".into(), minimum: TlsVersion::V13 };
    assert_eq!(tls, files);
    assert_eq!(load(&Flags::default()).unwrap().0.tls, None);
    for (wrong, why) in [
        ("{ certificate = 'c' }", "needs a `key`"),
        ("{ key = 'k' }", "needs a `certificate`"),
        ("{ minimum = '1.2' }", "needs a `certificate`"),
        ("{ certificate = 'c', key = 'k', minimum = '1.1' }", "`1.2` or `1.3`"),
        ("{ certificate = 'c', key = 'k', ca = 'a' }", "unknown field"),
    ] {
        let refused = refused(&format!("tls = {wrong}"));
        assert!(refused.contains(why), "{wrong}: {refused}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_its_place() {
    let wrong = refused("listen = '127.0.0.1:1'\nlisten_to = 3");
    assert!(wrong.contains("line 2") && wrong.contains("listen_to"), "{wrong}");
    assert!(refused("[apps.a]\nlimits = { concurrent = 0 }").contains("limits.concurrent"));
    assert!(refused("[apps.'a/b']").contains("apps.a/b"));
    assert!(refused("[apps.'..']").contains("apps..."));
    assert!(refused("[admin]\ntokens = [{ sha256 = 'abc' }]").contains("64 hexadecimal"));
    assert!(refused("[apps.a]\nnetworks = ['10.0.0.0/33']").contains("10.0.0.0/33"));
    assert!(refused("store = 'mysql://x'").contains("mysql"));
    assert!(refused("keep = 'long'").contains("keep"));
    for zone in ["Mars/Olympus", "localtime", "Etc/Unknown"] {
        assert!(refused(&format!("xtimer_zone = '{zone}'")).contains(zone));
    }
    assert!(refused("xtimer_app = 'nothing'").contains("no app `nothing`: add it"));
}

#[test]
fn an_app_has_alerts_for_schedules_without_their_own() {
    let notify = "notify = { url = 'https://h/' }\n";
    let app = |lines: &str| format!("[apps.a]\n{lines}");
    let hours = |hours: u64| Some(Duration::from_secs(hours * 3_600));
    for (lines, success_within, disable_after) in [
        ("", None, None),
        (&*format!("{notify}success_within = '25h'\ndisable_after = 5"), hours(25), Some(5)),
        ("success_within = '0s'\ndisable_after = 0", None, None),
    ] {
        let alerts = read(&app(lines)).1.apps["a"].alerts();
        assert_eq!((alerts.success_within, alerts.disable_after), (success_within, disable_after));
    }
    for (wrong, why) in [
        ("success_within = '25h'", "`success_within` needs a `notify`"),
        (&*format!("{notify}success_within = 'often'"), "`success_within`: `often` is not a span"),
        (&*format!("{notify}success_within = '1ms'"), "it is shorter than a second"),
        (&*format!("{notify}success_within = '9000h'"), "it is longer than a year"),
        ("disable_after = 101", "`disable_after`: it is not within 0 to 100"),
    ] {
        let refused = refused(&app(wrong));
        assert!(refused.contains("apps.a") && refused.contains(why), "{wrong}: {refused}");
    }
}

#[test]
fn other_hosts_reach_only_a_service_with_tokens() {
    assert!(refused("listen = '0.0.0.0:80'").contains("no token is configured"));
    let (_file, flags) =
        file(&format!("listen = '0.0.0.0:80'\n[admin]\ntokens = [{{ sha256 = '{SHA}' }}]"));
    assert!(load(&flags).is_ok());
    let flags = Flags { app: vec!["more".to_owned()], ..flags };
    assert!(load(&flags).unwrap_err().to_string().contains("--app more"));
}

#[test]
fn a_secret_for_headers_says_where_it_may_be_sent() {
    let one = |secret: &str| format!("[apps.a.header_secrets]\nledger = {secret}");
    let (_, config) = read(&one("{ value = 'Bearer hunter2', hosts = ['h', '127.0.0.1'] }"));
    let secret = &config.apps["a"].header_secrets["ledger"];
    assert!(!format!("{config:?}").contains("hunter2"));
    assert!(secret.oauth.is_none());
    let may = |url: &str| secret.judge(&url.parse().unwrap(), false).is_ok();
    assert!(may("https://h/x") && may("https://h:444/x") && may("http://127.0.0.1:9/"));
    assert!(!may("http://h/") && !may("https://a.h/") && !may("https://127.0.0.2/"));
    let oauth = |url: &str, more: &str| {
        let own = format!("token_url = '{url}', client_id = 'a', client_secret = 'hunter2'");
        format!("{{ {more}hosts = ['h'], oauth = {{ {own} }} }}")
    };
    for url in ["https://login/", "http://127.0.0.1:8/"] {
        assert!(!format!("{:?}", read(&one(&oauth(url, "")))).contains("hunter2"));
    }
    let (_, config) = read(&one("{ value = 'hunter2!', hosts = ['h'], plain_http = true }"));
    let secret = &config.apps["a"].header_secrets["ledger"];
    assert!(secret.judge(&"http://h/".parse().unwrap(), true).is_ok());
    for (wrong, why) in [
        ("{ hosts = ['h'] }", "either `value` or `oauth`"),
        (&oauth("https://login/", "value = 'Bearer hunter2', "), "either `value` or `oauth`"),
        (&oauth("http://login/", ""), "`token_url` is not `https://`"),
        (&oauth("https://a:hunter2@login/", ""), "`token_url` has a user"),
        (&oauth("https://:hunter2@login/", ""), "`token_url` has a password"),
        (&oauth("login", ""), "it is no URL"),
        ("{ value = 'Bearer hunter2' }", "hosts"),
        ("{ value = 'Bearer hunter2', hosts = [] }", "hosts"),
        ("{ value = 'short', hosts = ['h'] }", "value"),
        ("{ value = \"hunter2\\nhunter2\", hosts = ['h'] }", "value"),
    ] {
        let refused = refused(&one(wrong));
        assert!(refused.contains(why) && !refused.contains("hunter2"), "{refused}");
    }
    assert!(
        refused("[apps.a.header_secrets.'a b']\nvalue = '12345678'\nhosts = ['h']")
            .contains("a name has")
    );
}

#[test]
fn an_error_shows_nothing_of_the_line_that_it_is_in() {
    for (wrong, place) in [
        ("[apps.a]\nsecrets = 'hunter2'", "line 2, column 11"),
        ("[apps.a]\nsecrets = ['hunter2', 5]", "line 2"),
        ("[apps.a]\nsecrets = ['hunter2'", "line 2"),
        ("[apps.a]\nlimits = 'hunter2'", "line 2"),
        ("[admin]\ntokens = [{ sha256 = 'hunter2' }]", "line 2"),
        ("[apps.a]\nsecrets = 'hunter2, expected `hunter2`'", "line 2"),
        ("log_format = 'hunter2'", "unknown variant, expected `text` or `json`"),
        ("log_format = 'hunter2`, expected `hunter2`'", "variant, expected `text` or `json`"),
        ("[tls]\nminimum = '\"hunter2'", "line 2"),
        ("[admin]\ntokens = [{ scope = 'hunter2' }]", "line 2, column"),
    ] {
        let refused = refused(wrong);
        assert!(refused.contains(place) && !refused.contains("hunter2"), "{refused}");
    }
    for (wrong, kind) in [
        ("84123", "integer"),
        ("-84123", "integer"),
        ("0x8412f", "integer"),
        ("84123.25", "floating point"),
        ("true", "boolean"),
        ("1984-12-03", ""),
        ("84123x", ""),
        ("hunter84123", ""),
    ] {
        let refused = refused(&format!("[apps.a]\nsecrets = [{wrong}]"));
        let message = refused.split_once(": line 2, column ").unwrap().1;
        assert!(message.contains(kind), "{wrong}: {refused}");
        assert!(!message.contains(wrong) && !message.contains("8412"), "{wrong}: {refused}");
        // The decimal form of a number that is written in another way.
        assert!(!message.contains("541"), "{wrong}: {refused}");
    }
}

#[test]
fn a_file_with_secrets_that_everybody_can_read_is_warned_about() {
    use std::os::unix::fs::PermissionsExt as _;
    for (text, mode, is_exposed) in [
        ("listen = '127.0.0.1:1'", 0o644, false),
        ("store = 'postgres://a@c/d'", 0o644, false),
        ("store = 'postgres://a:b@c/d'", 0o644, true),
        ("[apps.a]\nsecrets = ['s']", 0o644, true),
        ("[apps.a]\nsecrets = ['s']", 0o640, false),
        ("[apps.a]\nsecrets = ['s']", 0o600, false),
        ("[apps.a.header_secrets]\nb = { value = '12345678', hosts = ['h'] }", 0o604, true),
    ] {
        let (file, flags) = file(text);
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(file.path(), mode.clone()).unwrap();
        let (settings, _) = load(&flags).unwrap();
        assert_eq!(!settings.exposed.is_empty(), is_exposed, "{text} {mode:?}");
    }
}

/// Makes a folder with the files of an authority, and returns it as text.
fn certify(folder: &tempfile::TempDir, name: &str) -> String {
    let folder = folder.path().join(name);
    std::fs::create_dir(&folder).unwrap();
    Authority::new().issue(&folder);
    folder.display().to_string()
}

/// An app with a certificate for these hosts.
fn identified(folder: &str, key: &str, hosts: &str) -> String {
    format!(
        "[[apps.a.client_certificates]]\ncertificate = '{folder}/chain.pem'\n\
         key = '{folder}/{key}'\nhosts = [{hosts}]"
    )
}

#[test]
fn authorities_and_client_certificates_are_read_and_what_is_wrong_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = certify(&folder, "one");
    let other = certify(&folder, "other");
    let ca_of = |folder: &str| std::fs::read_to_string(format!("{folder}/ca.pem")).unwrap();
    let write = |name: &str, text: String| std::fs::write(format!("{at}/{name}"), text).unwrap();
    write("both.pem", ca_of(&at) + &ca_of(&other));
    write("empty", String::new());
    write("nonsense.pem", pem("CERTIFICATE", b"nonsense"));
    let ca = |name: &str| format!("[apps.a]\nca = '{at}/{name}'");
    let only = ca("both.pem") + "\nca_only = true";
    for good in [ca("both.pem"), only, identified(&at, "key.pem", "'h'")] {
        read(&good);
    }
    for (wrong, why) in [
        (ca("none.pem"), "`apps.a`: `ca`: DIR/none.pem: "),
        (ca("empty"), "DIR/empty: it has no certificate"),
        (ca("key.pem"), "DIR/key.pem: it has no certificate"),
        (ca("nonsense.pem"), "DIR/nonsense.pem: certificate 1 cannot serve as an authority: "),
        ("[apps.a]\nca_only = true".to_owned(), "`ca_only` needs a `ca`"),
        (
            identified(&at, "../other/key.pem", "'h'"),
            "DIR/../other/key.pem is not the key of DIR/chain.pem",
        ),
        (identified(&at, "ca.pem", "'h'"), "`client_certificates`: DIR/ca.pem: it has no key"),
        (identified(&at, "key.pem", ""), "`hosts` is empty; list"),
    ] {
        let refused = refused(&wrong);
        assert!(refused.contains(&why.replace("DIR", &at)), "{wrong}: {refused}");
    }
}

#[test]
fn a_key_that_everybody_can_read_is_warned_about() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let at = certify(&folder, "one");
    let (_file, flags) = file(&identified(&at, "key.pem", "'h'"));
    let key = format!("{at}/key.pem");
    for (mode, is_exposed) in [(0o600, false), (0o640, false), (0o644, true)] {
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
        let said = load(&flags).unwrap().0.exposed;
        assert_eq!(said.iter().any(|line| line.contains(&key)), is_exposed, "{said:?}");
    }
}
