//! The binary as a process, for tests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

/// Longest time for an answer: as good as forever.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running service.
pub(crate) struct Tourbillond {
    process: Child,
    pub(crate) address: String,
}

impl Tourbillond {
    pub(crate) fn start(folder: &Path, flags: &[&str]) -> Self {
        Self::run(Command::new(env!("CARGO_BIN_EXE_tourbillond")), folder, flags)
    }

    /// Starts it by a command that takes its flags.
    pub(crate) fn run(mut command: Command, folder: &Path, flags: &[&str]) -> Self {
        command.args(["--listen", "127.0.0.1:0"]).args(flags).current_dir(folder);
        Self::spawn(command)
    }

    /// Starts it by a command that has its flags already.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let (_, address) = line.trim().split_once("://").expect("it prints its URL");
        let address = address.to_owned();
        Self { process, address }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// Asks it to stop; returns whether it did in good order.
    pub(crate) fn stop(mut self) -> bool {
        self.signal("TERM");
        self.process.wait().unwrap().success()
    }

    /// The status and the body of an answer; a body that is no JSON as text.
    pub(crate) fn call(&self, token: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             authorization: Bearer {token}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_else(|_| body.into()))
    }
}

impl Drop for Tourbillond {
    fn drop(&mut self) {
        let _ = self.process.kill();
    }
}
