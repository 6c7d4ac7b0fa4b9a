//! Databases on the cluster of `ci/durable-postgres.sh`, for tests.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Returns what the script says about its cluster.
///
/// # Panics
///
/// If there is no cluster: a test without one tests nothing.
pub(crate) fn environment(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set; `ci/durable-postgres.sh` makes a cluster"))
}

/// Makes a database of this process, and returns its address.
pub(crate) fn database(name: &str) -> String {
    let cluster = environment("TOURBILLON_POSTGRES");
    let name = format!("tourbillond_{name}_{}", std::process::id());
    psql(&cluster, &[], &format!("CREATE DATABASE {name};")).unwrap();
    let (server, _) = cluster.rsplit_once('/').unwrap();
    format!("{server}/{name}")
}

/// Starts psql, which runs what it is given; answers are lines, and errors end with their codes.
pub(crate) fn start_psql(address: &str, flags: &[&str]) -> Child {
    let program = Path::new(&environment("TOURBILLON_POSTGRES_BIN")).join("psql");
    let mut command = Command::new(program);
    command.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=sqlstate"]).args(flags);
    command.arg(address).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Runs a script; the lines of its answers, or the code of its error.
pub(crate) fn psql(address: &str, flags: &[&str], script: &str) -> Result<Vec<String>, String> {
    let mut process = start_psql(address, flags);
    process.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    let [answers, errors] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    match output.status.success() {
        true => Ok(answers.lines().map(str::to_owned).collect()),
        false => Err(errors.trim().rsplit_once(' ').unwrap().1.to_owned()),
    }
}
