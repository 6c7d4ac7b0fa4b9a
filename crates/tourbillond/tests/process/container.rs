//! The files for containers, beside the repository and the program: no engine runs them here.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use super::Tourbillond;
use super::manual::{PROGRAMS, printed};

/// Arguments of the build in the container's file.
const BUILD: [&str; 5] = ["--release", "--locked", "-p", "tourbillond", "--bins"];

fn deploy(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(file);
    std::fs::read_to_string(path).unwrap()
}

/// Stages of the container's file: an image, and an instruction a line.
fn stages() -> [String; 2] {
    let text = deploy("Containerfile");
    let lines = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>();
    let text = lines.join("\n").replace("\\\n", "");
    let (build, image) = text.strip_prefix("FROM ").unwrap().split_once("\nFROM ").unwrap();
    [build.to_owned(), image.to_owned()]
}

/// Returns the texts of all instructions of a stage with a name.
fn all<'a>(stage: &'a str, name: &str) -> Vec<&'a str> {
    let named = stage.lines().filter_map(|line| line.split_once(' ')).filter(|line| line.0 == name);
    named.map(|(_, text)| text).collect()
}

/// Returns the text of the only instruction of a stage with a name.
#[track_caller]
fn only<'a>(stage: &'a str, name: &str) -> &'a str {
    let [text] = all(stage, name)[..] else { panic!("{name} in {stage}") };
    text
}

/// Returns the help of the service.
fn help() -> String {
    printed(env!("CARGO_BIN_EXE_tourbillond"), &["--help"])
}

#[test]
fn the_container_is_built_of_what_the_repository_has() {
    let [build, image] = stages();
    // A program linked with the C library of one release may not start on an older one.
    assert!(build.starts_with("docker.io/library/rust:1-bookworm AS build\n"), "{build}");
    assert!(image.starts_with("docker.io/library/debian:bookworm-slim\n"), "{image}");
    // All files except those missing in a clean clone.
    assert_eq!(only(&build, "COPY"), ". .");
    assert_eq!(deploy("Containerfile.dockerignore"), "**/target\n.git\n");
    assert_eq!(only(&build, "RUN"), format!("cargo build {}", BUILD.join(" ")));
    // Cargo knows the arguments: it misses the manifest alone.
    let mut cargo = Command::new(env!("CARGO"));
    let cargo = cargo.arg("build").args(BUILD).args(["--manifest-path", "none/Cargo.toml"]);
    let said = String::from_utf8(cargo.output().unwrap().stderr).unwrap();
    assert!(said.contains("manifest path `none/Cargo.toml` does not exist"), "{said}");
    // Each program is copied from where that build leaves it.
    let from = format!("--from=build {}/target/release", only(&build, "WORKDIR"));
    let expected = PROGRAMS.map(|(name, _)| format!("{from}/{name} /usr/local/bin/"));
    assert_eq!(all(&image, "COPY"), expected);
}

#[test]
fn the_container_starts_the_program_by_variables_that_it_has() {
    let text = deploy("Containerfile");
    let [_, image] = stages();
    let home = only(&image, "WORKDIR");
    let made = format!("useradd --system --create-home --home-dir {home} {}", only(&image, "USER"));
    assert!(only(&image, "RUN").ends_with(&made));
    assert_eq!(only(&image, "VOLUME"), home);
    assert_eq!(only(&image, "ENTRYPOINT"), "[\"tourbillond\"]");
    let variables =
        only(&image, "ENV").split_whitespace().map(|pair| pair.split_once('=').unwrap());
    let variables = variables.collect::<HashMap<_, _>>();
    let help = help();
    for name in variables.keys() {
        assert!(help.contains(&format!("[env: {name}=]")), "{name}");
    }
    let port = variables["TOURBILLOND_LISTEN"].parse::<SocketAddr>().unwrap().port();
    assert_eq!(only(&image, "EXPOSE"), port.to_string());
    let file = format!("./apps.toml:{}:ro", variables["TOURBILLOND_CONFIG"]);
    assert!(deploy("compose.yaml").contains(&format!("- {file}\n")));
    for flag in
        [format!("-p 127.0.0.1:{port}:{port}"), format!("-v {file}"), format!("-v timers:{home}")]
    {
        assert!(text.contains(&(flag + " ")));
    }
    // The program starts by them, with a file and a port of this test.
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("apps.toml"), "[apps.default]\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tourbillond"));
    command.envs(variables).env("TOURBILLOND_CONFIG", "apps.toml");
    command.env("TOURBILLOND_LISTEN", "127.0.0.1:0").current_dir(folder.path());
    assert!(Tourbillond::spawn(command).stop());
}

#[test]
fn the_nodes_of_the_compose_file_are_that_container() {
    let text = deploy("compose.yaml");
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(name));
        line.unwrap_or_else(|| panic!("there is no {name}")).trim()
    };
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = package.join("deploy").join(value("context:")).join(value("dockerfile:"));
    let expected = package.join("deploy/Containerfile");
    assert_eq!(file.canonicalize().unwrap(), expected.canonicalize().unwrap());
    assert!(help().contains("[env: TOURBILLOND_STORE=]"));
    let started = value("TOURBILLOND_STORE=");
    assert_eq!(started, "\"postgres://timers:$$(cat /run/secrets/password)@db/timers\"");
    assert_eq!(value("exec "), "tourbillond");
    let inside = format!(":{}\"] }}", only(&stages()[1], "EXPOSE"));
    let nodes = text.lines().filter(|line| line.contains("<<: *node")).collect::<Vec<_>>();
    assert_eq!(nodes.len(), 3);
    assert!(nodes.iter().all(|node| node.ends_with(&inside)), "{nodes:?}");
}
