//! Rules on scripts.

use super::{Breach, breach};
use crate::tree::Tree;

/// Script with a runner of its own, whose tests have to find planted faults.
const OWN_RUNNER: &str = "ci/web.sh";

/// Commands that run tests.
const TESTS: [&str; 6] = [
    "cargo test ",
    "cargo +nightly test ",
    "\"${cargo[@]}\"",
    "\"${miri[@]}\" test",
    "with_std \"$target\" test",
    "for_wasi test",
];

/// Words of commands that run tests and fail if there are none, or that run none.
const SURE: [&str; 2] = ["some_tests", "--no-run"];

/// Checks that a script's tests cannot be none, since a name that matches nothing passes.
pub fn check(tree: &Tree, breaches: &mut Vec<Breach>) {
    for (file, text) in tree.ending(".sh").filter(|(file, _)| *file != OWN_RUNNER) {
        let mut command = String::new();
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim_start().starts_with('#') {
                continue;
            }
            command.push_str(line.trim_end_matches('\\'));
            if line.ends_with('\\') {
                continue;
            }
            let runs = TESTS.iter().any(|test| command.contains(test));
            if runs && !SURE.iter().any(|word| command.contains(word)) {
                let rule = "tests of a script that may be none";
                breaches.push(breach(rule, file, number, command.trim()));
            }
            command.clear();
        }
    }
}
