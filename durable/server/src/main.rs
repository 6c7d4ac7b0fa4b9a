//! `tourbillond`: the service.

fn main() {}
