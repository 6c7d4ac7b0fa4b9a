use std::io::Write as _;

use super::{Flags, LogFormat, Network, Scope, StoreAt, load};

const SHA: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

fn file(text: &str) -> (tempfile::NamedTempFile, Flags) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let flags = Flags { config: Some(file.path().to_owned()), ..Flags::default() };
    (file, flags)
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
fn apps_have_tokens_limits_and_destinations() {
    let text = format!(
        "[admin]\ntokens = [{{ sha256 = '{SHA}' }}]\n\
         [apps.mail]\ntokens = [{{ sha256 = '{SHA}', scope = 'write' }}]\n\
         destinations = ['*.example.com']\nnetworks = ['10.0.0.0/8']\nsecrets = ['s']\n\
         limits = {{ schedules = 5 }}"
    );
    let (_file, flags) = file(&text);
    let (_, config) = load(&flags).unwrap();
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
fn what_makes_no_sense_is_refused_with_its_place() {
    let wrong = refused("listen = '127.0.0.1:1'\nlisten_to = 3");
    assert!(wrong.contains("line 2") && wrong.contains("listen_to"), "{wrong}");
    assert!(refused("[apps.a]\nlimits = { concurrent = 0 }").contains("limits.concurrent"));
    assert!(refused("[apps.'a/b']").contains("apps.a/b"));
    assert!(refused("[admin]\ntokens = [{ sha256 = 'abc' }]").contains("64 hexadecimal"));
    assert!(refused("[apps.a]\nnetworks = ['10.0.0.0/33']").contains("10.0.0.0/33"));
    assert!(refused("store = 'mysql://x'").contains("mysql"));
    assert!(refused("keep = 'long'").contains("keep"));
    assert!(refused("xtimer_zone = 'Mars/Olympus'").contains("Mars/Olympus"));
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
fn a_network_has_what_begins_as_it_does() {
    let has = |network: &str, address: &str| {
        network.parse::<Network>().unwrap().contains(address.parse().unwrap())
    };
    assert!(has("10.1.0.0/16", "10.1.255.1"));
    assert!(!has("10.1.0.0/16", "10.2.0.1"));
    assert!(has("10.1.0.0/16", "::ffff:10.1.0.1"));
    assert!(has("0.0.0.0/0", "255.1.1.1"));
    assert!(has("::/0", "fe80::1"));
    assert!(!has("::/0", "10.0.0.1"));
    assert!(has("::1", "::1"));
    assert!(!has("::1", "::2"));
    assert!(has("fc00::/7", "fdff::1"));
}
