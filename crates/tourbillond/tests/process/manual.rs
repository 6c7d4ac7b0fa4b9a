//! Completions and manual pages of both programs.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use super::Tourbillond;

pub(crate) const PROGRAMS: [(&str, &str); 2] = [
    ("tourbillond", env!("CARGO_BIN_EXE_tourbillond")),
    ("tourbillonctl", env!("CARGO_BIN_EXE_tourbillonctl")),
];

/// Returns a program's output.
pub(crate) fn printed(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_command_has_a_page() {
    for (name, program) in PROGRAMS {
        let folder = tempfile::tempdir().unwrap();
        let man = folder.path().join("man1");
        assert_eq!(printed(program, &["man", man.to_str().unwrap()]), "");
        let page = std::fs::read_to_string(man.join(format!("{name}.1"))).unwrap();
        assert!(page.contains("version"), "{page}");
        let help = printed(program, &["--help"]);
        let (_, commands) = help.split_once("\nCommands:\n").unwrap();
        let (commands, _) = commands.split_once("\n\n").unwrap();
        let commands = commands.lines().filter_map(|line| line.split_whitespace().next());
        for command in commands.filter(|command| *command != "help") {
            assert!(man.join(format!("{name}-{command}.1")).exists(), "{name} {command}");
        }
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error() {
    for (_, program) in PROGRAMS {
        let output = Command::new(program).args(["man", "/dev/null/man1"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("/dev/null/man1: "), "{output:?}");
    }
}

#[test]
fn bash_completes_commands_and_options() {
    for (name, program) in PROGRAMS {
        for shell in ["zsh", "fish", "elvish", "powershell"] {
            assert!(printed(program, &["completions", shell]).contains(name), "{shell}");
        }
        let script = printed(program, &["completions", "bash"]);
        let complete = |word: &str| {
            let ask = format!(
                "{script}\nCOMP_WORDS=({name} {word}) COMP_CWORD=1\n\
                 _{name} {name} {word} {name}\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
            );
            let mut bash = Command::new("bash");
            bash.args(["--norc", "-c", &ask]).stdin(Stdio::null());
            let output = bash.output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!(complete("comp"), "completions\n");
        assert_eq!(complete("--versi"), "--version\n");
    }
}

#[test]
fn bash_completes_the_keys_of_schedules() {
    let folder = tempfile::tempdir().unwrap();
    let service = Tourbillond::start(folder.path(), &[]);
    for key in ["report:mail", "report:pages", "nightly"] {
        let definition =
            json!({ "key": key, "when": { "every": "1h" }, "callback": { "url": "https://h/" } });
        let made = service.call("", "POST", "/v1/apps/default/schedules", &definition);
        assert_eq!(made.0, 201, "{made:?}");
    }
    let (_, program) = PROGRAMS[1];
    let script = printed(program, &["completions", "bash"]);
    let complete = |line: &str, words: &str, last: usize| {
        let ask = format!(
            "{script}\nCOMP_LINE='{line}' COMP_POINT={} COMP_WORDS=({words}) COMP_CWORD={last}\n\
             _tourbillonctl_keys tourbillonctl \"${{COMP_WORDS[COMP_CWORD]}}\"\n\
             printf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
            line.len()
        );
        let folder = Path::new(program).parent().unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", &ask]).stdin(Stdio::null()).env("PATH", path);
        bash.env("TOURBILLON_URL", format!("http://{}", service.address));
        let output = bash.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(complete("tourbillonctl get n", "tourbillonctl get n", 2), "nightly\n");
    // Bash divides words at a colon, and puts the completion behind it.
    let line = "tourbillonctl delete nightly report:";
    assert_eq!(complete(line, "tourbillonctl delete nightly report :", 4), "mail\npages\n");
    assert_eq!(complete("tourbillonctl ge", "tourbillonctl ge", 1), "get\n");
}
