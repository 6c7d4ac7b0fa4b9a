//! `cargo xtask` lists the checks of the repository. `cargo xtask tidy` makes the check of the
//! rules.

mod checks;
mod figures;
mod history;
mod ratchets;
mod tidy;
mod tree;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let arguments = arguments.iter().map(String::as_str).collect::<Vec<_>>();
    match arguments[..] {
        [] => {
            checks::list();
            ExitCode::SUCCESS
        }
        ["tidy"] => report(tidy()),
        ["figures"] => report(write_figures()),
        ["ratchets"] => report(write_ratchets()),
        ["subject", subject] => report(Ok(history::is_subject(subject))),
        _ => {
            eprintln!(
                "usage: cargo xtask        list all checks\n       \
                 cargo xtask tidy   check the rules that no compiler does, in every crate\n       \
                 cargo xtask figures   write the kept runs' figures into the documents\n       \
                 cargo xtask ratchets   lower the limits on weight to the tree\n       \
                 cargo xtask subject TEXT   check the subject of a commit"
            );
            ExitCode::from(2)
        }
    }
}

/// Turns an error into a message and an exit status.
fn report(result: Result<bool, String>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("it lies below the root")
}

fn tracked() -> Result<tree::Tree, String> {
    tree::Tree::tracked(root()).map_err(|error| error.to_string())
}

/// Prints all breaches. Returns whether there are none.
fn tidy() -> Result<bool, String> {
    let tree = tracked()?;
    let mut breaches = tidy::check(&tree)?;
    let history = history::History::read(root());
    breaches.extend(tidy::limits(&tree, history.as_ref()));
    if history.is_none() {
        println!("not checked: the history, which git does not have here");
    }
    let mut rule = "";
    for breach in &breaches {
        if rule != breach.rule {
            rule = &breach.rule;
            println!("{rule}:");
        }
        println!("{}", breach.found);
    }
    Ok(breaches.is_empty())
}

fn write_ratchets() -> Result<bool, String> {
    let text = ratchets::lowered(&tracked()?);
    std::fs::write(root().join(ratchets::FILE), text).map_err(|error| error.to_string())?;
    Ok(true)
}

fn write_figures() -> Result<bool, String> {
    for (file, text) in figures::written(&tracked()?)? {
        std::fs::write(root().join(file), text).map_err(|error| format!("{file}: {error}"))?;
    }
    Ok(true)
}
