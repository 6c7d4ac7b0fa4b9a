//! The files for containers, beside the repository and the program: no engine runs them here.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Tourbillond;

/// Arguments of the build in the container's file.
const BUILD: [&str; 5] = ["--release", "--locked", "-p", "tourbillond", "--bins"];

/// Instructions of the part of a file that makes one image.
struct Stage {
    image: String,
    name: Option<String>,
    /// Names and texts of the instructions that follow `FROM`.
    instructions: Vec<(String, String)>,
}

impl Stage {
    /// Returns the texts of all instructions with a name.
    fn all<'a>(&'a self, name: &'static str) -> impl Iterator<Item = &'a str> {
        let named = self.instructions.iter().filter(move |(own, _)| own == name);
        named.map(|(_, text)| &**text)
    }

    /// Returns the text of the only instruction with a name.
    #[track_caller]
    fn only(&self, name: &'static str) -> &str {
        let all = self.all(name).collect::<Vec<_>>();
        assert_eq!(all.len(), 1, "{name}");
        all[0]
    }
}

/// Reads the stages of a file.
fn stages(text: &str) -> Vec<Stage> {
    let mut stages = Vec::<Stage>::new();
    let lines = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    for line in lines.replace("\\\n", "").lines().filter(|line| !line.trim().is_empty()) {
        let (name, text) = line.split_once(' ').unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if name != "FROM" {
            stages.last_mut().unwrap().instructions.push((name.to_owned(), text));
            continue;
        }
        let (image, name) = match text.split_once(" AS ") {
            Some((image, name)) => (image.to_owned(), Some(name.to_owned())),
            None => (text, None),
        };
        stages.push(Stage { image, name, instructions: Vec::new() });
    }
    stages
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn deploy(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(file);
    std::fs::read_to_string(path).unwrap()
}

/// Names of the package's programs.
fn programs() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let manifest = std::fs::read_to_string(path).unwrap().parse::<toml::Table>().unwrap();
    assert_eq!(manifest["package"]["name"].as_str(), Some("tourbillond"));
    let programs = manifest["bin"].as_array().unwrap().iter();
    programs.map(|program| program["name"].as_str().unwrap().to_owned()).collect()
}

/// Returns the help of the service.
fn help() -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_tourbillond")).arg("--help").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_container_is_built_of_what_the_repository_has() {
    let stages = stages(&deploy("Containerfile"));
    let [build, image] = &stages[..] else { panic!("{} stages", stages.len()) };
    // A program linked with the C library of one release may not start on an older one.
    assert_eq!(build.image, "docker.io/library/rust:1-bookworm");
    assert_eq!(image.image, "docker.io/library/debian:bookworm-slim");
    // All files except those missing in a clean clone.
    assert_eq!(build.only("COPY"), ". .");
    assert_eq!(deploy("Containerfile.dockerignore"), "**/target\n.git\n");
    let built = build.only("RUN").split(' ').collect::<Vec<_>>();
    assert_eq!(built, [&["cargo", "build"], &BUILD[..]].concat());
    // Cargo knows the arguments: it misses the manifest alone.
    let mut cargo = Command::new(env!("CARGO"));
    let cargo = cargo.arg("build").args(BUILD).args(["--manifest-path", "none/Cargo.toml"]);
    let said = String::from_utf8(cargo.output().unwrap().stderr).unwrap();
    assert!(said.contains("manifest path `none/Cargo.toml` does not exist"), "{said}");
    // Each program is copied from where that build leaves it.
    let from = format!("--from={} {}", build.name.as_ref().unwrap(), build.only("WORKDIR"));
    let program = |name: String| format!("{from}/target/release/{name} /usr/local/bin/");
    let expected = programs().into_iter().map(program).collect::<Vec<_>>();
    assert_eq!(image.all("COPY").collect::<Vec<_>>(), expected);
    for file in ["Cargo.lock", "Cargo.toml", "crates/tourbillond/Cargo.toml"] {
        assert!(root().join(file).exists(), "{file}");
    }
}

#[test]
fn the_container_starts_the_program_by_variables_that_it_has() {
    let text = deploy("Containerfile");
    let stages = stages(&text);
    let image = stages.last().unwrap();
    let user = image.only("USER");
    let (_, made) = image.only("RUN").split_once("useradd ").unwrap();
    let home = image.only("WORKDIR");
    assert_eq!(made, format!("--system --create-home --home-dir {home} {user}"));
    assert_eq!(image.only("VOLUME"), home);
    assert_eq!(image.only("ENTRYPOINT"), "[\"tourbillond\"]");
    let variables = image.only("ENV").split(' ').map(|pair| pair.split_once('=').unwrap());
    let variables = variables.collect::<Vec<_>>();
    let help = help();
    for (name, value) in &variables {
        assert!(help.contains(&format!("[env: {name}=]")), "{name}");
        match *name {
            "TOURBILLOND_LISTEN" => {
                let port = value.parse::<SocketAddr>().unwrap().port();
                assert_eq!(image.only("EXPOSE"), port.to_string());
                assert!(text.contains(&format!("-p 127.0.0.1:{port}:{port} ")));
            }
            "TOURBILLOND_CONFIG" => {
                assert!(text.contains(&format!("-v ./apps.toml:{value}:ro ")));
                assert!(deploy("compose.yaml").contains(&format!("- ./apps.toml:{value}:ro\n")));
            }
            _ => {}
        }
    }
    assert!(text.contains(&format!("-v timers:{home} ")));
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
    let context = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(value("context:"));
    assert_eq!(context.canonicalize().unwrap(), root().canonicalize().unwrap());
    assert!(context.join(value("dockerfile:")).ends_with("deploy/Containerfile"));
    assert!(context.join(value("dockerfile:")).exists());
    assert!(help().contains("[env: TOURBILLOND_STORE=]"));
    let started = value("TOURBILLOND_STORE=");
    assert_eq!(started, "\"postgres://timers:$$(cat /run/secrets/password)@db/timers\"");
    assert_eq!(value("exec "), "tourbillond");
    let stages = stages(&deploy("Containerfile"));
    let inside = format!(":{}\"] }}", stages.last().unwrap().only("EXPOSE"));
    let nodes = text.lines().filter(|line| line.contains("<<: *node")).collect::<Vec<_>>();
    assert_eq!(nodes.len(), 3);
    assert!(nodes.iter().all(|node| node.ends_with(&inside)), "{nodes:?}");
}
