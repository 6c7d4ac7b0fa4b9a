//! The listener by TLS, with an authority that the test makes.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion, version,
};

use super::Tourbillond;
use super::authority::{Authority, pem};

const BOTH: [&SupportedProtocolVersion; 2] = [&version::TLS12, &version::TLS13];

impl Authority {
    /// Connects by one of these versions.
    fn connect(
        &self,
        service: &Tourbillond,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Result<StreamOwned<ClientConnection, TcpStream>, std::io::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(self.own().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_protocol_versions(versions).unwrap();
        let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
        let client = ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
        let mut stream = StreamOwned::new(client, TcpStream::connect(&service.address).unwrap());
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(stream)
    }
}

/// Asks for the health of the service, on a connection that stays.
fn is_alive(stream: &mut StreamOwned<ClientConnection, TcpStream>) -> bool {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"ok\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    answer.starts_with(b"HTTP/1.1 200 OK\r\n")
}

fn start(folder: &Path, flags: &[&str]) -> Tourbillond {
    let tls = ["--tls-certificate", "chain.pem", "--tls-key", "key.pem"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_tourbillond"));
    command.args(["--listen", "127.0.0.1:0"]).args(tls).args(flags).current_dir(folder);
    command.stderr(File::create(folder.join("log")).unwrap());
    Tourbillond::spawn(command)
}

/// Runs the client on a system that trusts the authorities of `system.pem`.
fn ctl(folder: &Path, url: String, flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tourbillonctl"));
    command.env_remove("SSL_CERT_DIR").env("SSL_CERT_FILE", "system.pem");
    command.args(["--url", &url]).args(flags).current_dir(folder).output().unwrap()
}

#[test]
fn a_client_that_trusts_the_authority_is_answered_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    Authority::new().issue(folder);
    let service = start(folder, &[]);
    let url = |scheme: &str| format!("{scheme}://{}", service.address);
    let apps = ctl(folder, url("https"), &["--ca", "ca.pem", "apps"]);
    assert_eq!(apps.stdout, b"APP\ndefault\n", "{apps:?}");
    let none = ctl(folder, url("https"), &["apps"]);
    assert_eq!(none.status.code(), Some(2));
    let why = String::from_utf8_lossy(&none.stderr);
    assert!(why.contains("the system trusts no authority"), "{why}");
    std::fs::copy(folder.join("ca.pem"), folder.join("system.pem")).unwrap();
    let apps = ctl(folder, url("https"), &["apps"]);
    assert_eq!(apps.stdout, b"APP\ndefault\n", "{apps:?}");
    let other = pem("CERTIFICATE", Authority::new().own());
    std::fs::write(folder.join("system.pem"), other).unwrap();
    let distrusts = ctl(folder, url("https"), &["apps"]);
    assert_eq!(distrusts.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&distrusts.stderr).contains("UnknownIssuer"), "{distrusts:?}");
    assert_eq!(ctl(folder, url("http"), &["apps"]).status.code(), Some(1), "without TLS");
    std::fs::write(folder.join("empty.pem"), "").unwrap();
    let empty = ctl(folder, url("https"), &["--ca", "empty.pem", "apps"]);
    assert_eq!(empty.status.code(), Some(2));
    assert!(service.stop());
}

#[test]
fn a_reload_puts_all_in_force_or_nothing_and_names_what_needs_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let authority = Authority::new();
    let first = authority.issue(folder);
    let write = |text: &str| std::fs::write(folder.join("config.toml"), text).unwrap();
    write("");
    let service = start(folder, &["--config", "config.toml"]);
    let shown = || {
        let stream = authority.connect(&service, &BOTH).unwrap();
        stream.conn.peer_certificates().unwrap()[0].clone()
    };
    let reload = |line: &str| {
        let log = || std::fs::read_to_string(folder.join("log")).unwrap();
        let before = log().len();
        service.signal("HUP");
        while !log()[before..].contains(line) {
            std::thread::yield_now();
        }
        log()[before..].to_owned()
    };
    let mut open = authority.connect(&service, &BOTH).unwrap();
    assert!(is_alive(&mut open));
    // A good certificate, and a wrong file.
    let second = authority.issue(folder);
    write("nonsense = 1");
    reload("stay in force");
    assert_eq!(shown(), first);
    // A good file, and a wrong certificate.
    write("audit = 'a.jsonl'\ntls = { minimum = '1.3' }\nxtimer_zone = 'Europe/Berlin'");
    let key = std::fs::read(folder.join("key.pem")).unwrap();
    std::fs::write(folder.join("key.pem"), "").unwrap();
    let log = reload("stay in force");
    assert!(!log.contains("read again"), "{log}");
    assert_eq!(shown(), first);
    std::fs::write(folder.join("key.pem"), key).unwrap();
    let log = reload("read again");
    while shown() != second {
        std::thread::yield_now();
    }
    for field in ["tls", "audit"] {
        assert!(log.contains(&format!("next start field=\"{field}\"")), "{log}");
    }
    assert_eq!(log.matches("next start").count(), 2, "{log}");
    assert!(is_alive(&mut open), "a connection keeps what it began with");
    assert!(service.stop());
}

#[test]
fn versions_below_the_minimum_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    authority.issue(folder.path());
    for (flags, old) in [(&[][..], true), (&["--tls-minimum", "1.3"], false)] {
        let service = start(folder.path(), flags);
        assert!(is_alive(&mut authority.connect(&service, &BOTH).unwrap()));
        assert_eq!(authority.connect(&service, &BOTH[..1]).is_ok(), old, "{flags:?}");
        assert!(service.stop());
    }
}

#[test]
fn a_service_does_not_start_with_what_is_no_certificate_or_another_ones_key() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let authority = Authority::new();
    let refused = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tourbillond"));
        command.args(["--listen", "127.0.0.1:0", "--tls-certificate", "chain.pem"]);
        let output = command.args(["--tls-key", "key.pem"]).current_dir(folder).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused().contains("chain.pem: "));
    authority.issue(folder);
    let other = std::fs::read(folder.join("key.pem")).unwrap();
    authority.issue(folder);
    std::fs::write(folder.join("key.pem"), other).unwrap();
    assert!(refused().contains("chain.pem: "), "the key of another");
    std::fs::write(folder.join("key.pem"), "no key").unwrap();
    assert!(refused().contains("key.pem: it has no key"));
}
