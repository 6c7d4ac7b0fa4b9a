//! The checks of the repository: their claims, and their needs.

/// A check that anyone can start by its command.
#[derive(Debug)]
pub struct Check {
    /// Command, from the root.
    pub command: &'static str,
    /// Claim that it checks; by hand also its time, on two cores.
    pub what: &'static str,
    /// Tools that it needs beside the Rust toolchain.
    pub needs: &'static str,
}

/// Checks that `.ci/run` makes, in its order.
pub const PER_CHANGE: &[Check] = &[
    check("ci/test.sh", "the tests, with every feature, and lints", ""),
    check("ci/durable.sh", "durable timers, the service and its page", "PostgreSQL, Chromium"),
    check("ci/web.sh", "timers in Node.js and in a browser", "npm, Chromium"),
    check("ci/miri.sh", "no undefined behaviour, and Miri sees planted faults", "Miri"),
    check("ci/bare.sh", "timers without an operating system", "qemu"),
    check("ci/lint.sh", "formatting, documentation, and `cargo xtask tidy`", ""),
    check("ci/msrv.sh", "the timers build with the minimum Rust", "rustup or Debian"),
    check("ci/loom.sh", "the models, up to two preemptions", ""),
    check("ci/wasi.sh", "timers under WASI, and in components on wstd and wasip3", "pip, rustup"),
    check("ci/targets.sh x86_64-pc-windows-gnu", "it builds for Windows", "rustup or Debian"),
    check("ci/features.sh", "each feature builds alone; tests without any", ""),
    check("ci/instructions.sh", "hot paths cost no more, and enter no more", "valgrind"),
    check("ci/consumers.sh", "other people's crates run over these timers", ""),
    check("ci/canaries.sh", "each seeded bug fails the model named for it", ""),
    check("ci/examples.sh", "every example ends well", ""),
    check("ci/package.sh", "each package builds from what it contains", ""),
];

/// Checks that `ci/nightly.sh` makes, in its order.
pub const NIGHTLY: &[Check] = &[
    check(
        "ci/receivers.sh",
        "calls to others' servers as they close idle connections",
        "Node.js, pip, Java, Debian",
    ),
    check("ci/durable.sh nightly", "storms, seeded bugs, newer PostgreSQL", "PostgreSQL, npm"),
    check("ci/miri.sh full 4", "all that Miri can run, under four seeds", "Miri"),
    check("ci/mutants.sh", "each small fault fails a test or a model", ""),
    check("ci/sanitize.sh", "no data race, leak or use of freed memory", "nightly"),
    check("ci/web.sh nightly", "a hidden page, its weight; Deno and Bun", "npm, Chromium"),
    check("ci/bare.sh nightly", "what timers cost without an operating system", "qemu"),
    check("ci/lint.sh nightly", "lints of benches and of crates over ours", ""),
    check(
        "ci/msrv.sh tourbillon-durable tourbillond",
        "durable timers and the service build with the minimum Rust",
        "rustup or Debian",
    ),
    check("ci/msrv.sh tourbillon-wstd", "it builds with wstd's minimum Rust", "rustup"),
    check("ci/msrv.sh tourbillon-wasip3", "it builds with wasip3's minimum Rust", "rustup"),
    check("ci/loom.sh 1", "the models, up to one preemption", ""),
    check("ci/features.sh pairs", "each pair of features builds", ""),
    check("ci/wasi.sh wasm32-wasip2", "timers under preview 2 of WASI, and libp2p's", "rustup"),
    check("ci/targets.sh i686-unknown-linux-gnu", "it builds for 32-bit Linux", "rustup or Debian"),
    check("ci/targets.sh --test x86_64-pc-windows-gnu", "the tests pass on Windows", "wine"),
    check("ci/targets.sh --test x86_64-unknown-linux-musl", "the tests pass on musl", "rustup"),
    check("ci/deb.sh", "Debian's package calls back from a clean root", "Debian"),
    check("ci/dependents.sh", "other people's crates run on the shim of futures-timer", ""),
    check("ci/consumers.sh tower quinn fastimer models", "more crates run over these timers", ""),
    check("ci/consumers.sh recipes", "the recipes of the guide run", "Python, cc"),
    check("ci/compat.sh", "tests of tokio's timers pass over the names of ours", ""),
    check("ci/minimal.sh", "the oldest dependencies that are declared suffice", ""),
    check("ci/crontab.sh", "crontab as a process", ""),
    check("ci/crontab-debian.sh", "it runs jobs as Debian's cron does", "Debian"),
    check("ci/hostile.sh", "storms of hostile foreign code, and of forks", "valgrind"),
    check("ci/faketime.sh", "timers on clocks that a library moves", "libfaketime"),
    check("ci/stress.sh", "no wake-up is lost under load", ""),
    check("ci/fuzz.sh 60", "the engine agrees with a naive model", "nightly"),
    check("ci/semver.sh", "no interface breaks since the last release", "cargo-semver-checks"),
    check("ci/weight.sh", "what a first sleep adds to a program", ""),
];

/// Checks that take longer, or need uncommon equipment.
pub const BY_HAND: &[Check] = &[
    check("ci/loom.sh 3", "the models, up to three preemptions; hours", ""),
    check("ci/miri.sh full", "all that Miri can run, under many seeds; hours", "Miri"),
    check("ci/wall.sh", "the kernel reports steps of the wall clock; minutes", "user-mode Linux"),
    check("ci/package.sh --release", "the packages are ready to be published; minutes", "jq"),
    check("ci/supply.sh", "licences and flaws of dependencies; a minute", "cargo-deny"),
    check("ci/targets.sh --test", "the tests on other systems; 20 min", "wine, qemu"),
    check("ci/durable-example.sh", "the examples of durable timers; a minute", "PostgreSQL"),
    check("ci/durable-page.sh", "the service's page in a browser; 5 min", "Node.js, Chromium"),
    check("ci/durable-faults.sh", "storms of faults on both databases; 2 min", "PostgreSQL"),
    check("ci/durable-failover.sh", "storms on a replicated PostgreSQL; 2 min", "PostgreSQL"),
    check("ci/durable-versions.sh", "the store on the newest PostgreSQL; 10 min", "npm"),
    check("ci/durable-citus.sh", "the store on Citus, by schema; 10 min", "Citus"),
    check("ci/durable-patroni.sh", "storms under a manager of failover; 3 min", "PostgreSQL"),
    check("ci/durable-peers.sh", "the table of other job queues; 40 min", "PostgreSQL, npm"),
    check("ci/durable-benches.sh", "the table of durable timers alone; 70 min", "PostgreSQL"),
    check("ci/durable-load.sh", "the tables of what a node carries; 20 min", "PostgreSQL"),
    check("ci/durable-canaries.sh", "the checker finds each seeded bug; 4 min", "PostgreSQL"),
];

const fn check(command: &'static str, what: &'static str, needs: &'static str) -> Check {
    Check { command, what, needs }
}

/// Prints all checks.
pub fn list() {
    for (title, checks) in [
        ("For each change, by .ci/run:", PER_CHANGE),
        ("Each night, by ci/nightly.sh:", NIGHTLY),
        ("By hand:", BY_HAND),
    ] {
        println!("{title}");
        for Check { command, what, needs } in checks {
            let needs = if needs.is_empty() { String::new() } else { format!(" (needs {needs})") };
            println!("  {command:<39}  {what}{needs}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Scripts that are no checks: others source or call them.
    const PARTS: [&str; 8] = [
        "debian.sh",
        "durable-interfaces.sh",
        "durable-lib.sh",
        "durable-postgres.sh",
        "lib.sh",
        "limited.sh",
        "nightly.sh",
        "stages.sh",
    ];

    #[test]
    fn every_script_is_listed_and_every_one_listed_is_there() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../ci");
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.into_string().unwrap());
        let scripts = names.filter(|name| name.ends_with(".sh") && !PARTS.contains(&name.as_str()));
        let scripts = scripts.map(|name| format!("ci/{name}")).collect::<BTreeSet<_>>();
        let listed = PER_CHANGE.iter().chain(NIGHTLY).chain(BY_HAND);
        let listed = listed.filter_map(|check| check.command.split(' ').next());
        assert_eq!(scripts, listed.map(str::to_owned).collect());
    }

    #[test]
    fn ci_makes_the_checks_of_each_change_and_of_each_night_in_this_order() {
        let run = include_str!("../../.ci/run");
        let nightly = include_str!("../../ci/nightly.sh");
        for (file, checks) in [(run, PER_CHANGE), (nightly, NIGHTLY)] {
            let stages =
                file.lines().filter_map(|line| line.strip_prefix("stage \"")?.split("\" ").nth(1));
            assert_eq!(
                stages.collect::<Vec<_>>(),
                checks.iter().map(|check| check.command).collect::<Vec<_>>()
            );
        }
    }
}
