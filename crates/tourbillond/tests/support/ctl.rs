//! The client as a process, for tests.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

/// Runs a command of the client on the service at this address, with this input.
pub(crate) fn ctl(address: &str, arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tourbillonctl"));
    command.args(["--url", &format!("http://{address}")]).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    process.stdin.take().unwrap().write_all(input).unwrap();
    process.wait_with_output().unwrap()
}
