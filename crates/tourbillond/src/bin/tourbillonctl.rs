//! `tourbillonctl`: the API from a terminal.

fn main() -> std::process::ExitCode {
    tourbillond::ctl::main()
}
