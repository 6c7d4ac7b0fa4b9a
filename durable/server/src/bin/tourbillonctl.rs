//! `tourbillonctl`: the API from a terminal.

fn main() {}
