//! A breach of each rule is planted, in each crate and in each form, and has to be found.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::LazyLock;

use super::{check, limits};
use crate::history::{History, is_subject};
use crate::ratchets;
use crate::tree::Tree;

/// The repository, which breaks no rule.
static CLEAN: LazyLock<Tree> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    Tree::tracked(root).unwrap()
});

/// A copy of the repository into which breaches are put.
struct Garden {
    tree: Tree,
    planted: Vec<Plant>,
}

/// A piece of text, and the rule that it breaks, if any.
struct Plant {
    rule: Option<&'static str>,
    file: String,
    lines: RangeInclusive<usize>,
}

impl Garden {
    fn new() -> Self {
        Self { tree: CLEAN.clone(), planted: Vec::new() }
    }

    /// Puts a text at the end of a file.
    fn plant(&mut self, rule: impl Into<Option<&'static str>>, file: &str, text: &str) {
        let before = self.tree.get(file).unwrap_or_else(|| panic!("{file}: no such file"));
        let after = format!("{before}\n{text}\n");
        let lines = before.lines().count() + 2..=after.lines().count();
        self.planted.push(Plant { rule: rule.into(), file: file.to_owned(), lines });
        self.tree.put(file, after);
    }

    /// Requires each plant to be found, by its rule and no other, and nothing else.
    fn harvest(self) {
        let mut found = check(&self.tree).unwrap();
        for Plant { rule, file, lines } in self.planted {
            let (here, others) = found.into_iter().partition::<Vec<_>, _>(|breach| {
                let place = breach.found.strip_prefix(&format!("{file}:"));
                let line = place.and_then(|place| place.split(':').next()?.parse().ok());
                line.is_some_and(|line| lines.contains(&line))
            });
            found = others;
            let mut rules = here.iter().map(|breach| breach.rule.as_str()).collect::<Vec<_>>();
            rules.dedup();
            let text = self.tree.get(&file).unwrap().lines().collect::<Vec<_>>();
            let text = text[lines.start() - 1..*lines.end()].join("\n");
            assert_eq!(rules, Vec::from_iter(rule), "planted in {file}: {text}");
        }
        assert!(found.is_empty(), "{found:#?}");
    }
}

#[test]
fn the_repository_breaks_no_rule() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut breaches = check(&CLEAN).unwrap();
    breaches.extend(limits(&CLEAN, History::read(root).as_ref()));
    assert!(breaches.is_empty(), "{breaches:#?}");
}

#[test]
fn a_path_of_other_files_is_found_in_every_form_of_import() {
    let mut garden = Garden::new();
    for text in [
        "use std::sync::Mutex;",
        "use std::{sync::Mutex, fmt::Debug as _};",
        "use std::{\n    io::Read as _,\n    sync::{Mutex, atomic},\n};",
        "use {std::sync::Mutex, crate::sync};",
        "use ::std::sync::Mutex;",
        "pub(crate) use std::sync as threads;",
        "fn f() { std::thread::yield_now(); }",
        "fn f() { x!(std::sync::Mutex::new(1)); }",
        "type X = Option<std::sync::Mutex<u8>>;",
        "fn f() { loom::model(g); }",
        "fn f() { use {std::{thread}, core::fmt}; }",
        "pub(crate) use std::{io, sync::{self}};",
        "#[cfg(unix)] use ::std::{sync::atomic::{AtomicU8}};",
    ] {
        garden.plant("threads and atomics come from sync.rs alone", "src/wall.rs", text);
    }
    garden.harvest();
}

#[test]
fn what_only_some_files_may_name_is_found_elsewhere() {
    let mut garden = Garden::new();
    let rule = "the time is read under clock/ alone";
    garden.plant(rule, "src/sleep.rs", "fn f() { Instant::now(); }");
    garden.plant(rule, "src/sleep.rs", "fn f() { crate::time::Instant::now(); }");
    let rule = "instants and times of day come from time.rs, for browsers";
    garden.plant(rule, "src/sleep.rs", "use std::{time::{Instant}};");
    let rule =
        "std is named for what core has, in a module that builds without an operating system";
    garden.plant(rule, "src/sleep.rs", "use std::fmt;");
    let rule = "tracing is named in trace.rs alone";
    garden.plant(rule, "src/sleep.rs", "fn f() { tracing::info!(\"x\"); }");
    garden.plant(rule, "crates/durable/src/plan.rs", "fn f() { tracing::info!(\"x\"); }");
    for text in ["use {tracing::{info}};", "use tracing as t;", "use {tracing as t};"] {
        garden.plant(rule, "src/sleep.rs", text);
    }
    let rule = "once-cells that threads wait for";
    garden.plant(rule, "src/sync.rs", "use std::{fmt, sync::Once};");
    garden.plant(rule, "src/sync/lock.rs", "use std::sync::{LazyLock, atomic};");
    garden.harvest();
}

#[test]
fn a_recipe_that_differs_from_its_program_is_found() {
    let mut garden = Garden::new();
    let rule = "a recipe that is not the code that is run";
    let block = |code| format!("`integration/recipes/tests/moka.rs`\n\n```rust\n{code}```");
    let page = "src/guide/recipes.md";
    for code in ["", "fn other() {}\n", "use std::sync::mpsc;\n    // ...\nuse other;\n"] {
        garden.plant(rule, page, &block(code));
    }
    garden.plant(None, page, &block("use std::sync::mpsc;\n    // ...\n#[test]\n"));
    garden.harvest();
}

#[test]
fn what_tests_alone_name_is_no_breach() {
    let mut garden = Garden::new();
    for text in [
        "#[cfg(test)]\nuse std::sync::Mutex;",
        "#[cfg(all(test, not(tourbillon_model)))]\nmod planted { use std::sync::Mutex; }",
        "#[cfg(any(fuzzing, test))]\nfn f() { std::thread::yield_now(); }",
    ] {
        garden.plant(None, "src/wall.rs", text);
    }
    let rule = "threads and atomics come from sync.rs alone";
    garden.plant(rule, "src/wall.rs", "#[cfg(any(test, unix))]\nuse std::sync::Mutex;");
    garden.plant(rule, "src/wall.rs", "#[cfg(not(test))]\nuse std::sync::Mutex;");
    garden.harvest();
}

#[test]
fn a_long_function_is_found_unless_it_is_a_test() {
    let mut garden = Garden::new();
    let of = |lines: usize| format!("fn f() {{{}}}", "\n".repeat(lines - 1));
    garden.plant(None, "crates/cron/src/time.rs", &of(50));
    garden.plant("functions of more than 50 lines", "crates/cron/src/time.rs", &of(51));
    let inside = format!("impl X {{ {} }}", of(51));
    garden.plant("functions of more than 50 lines", "src/wall.rs", &inside);
    garden.plant(None, "src/wall.rs", &format!("#[cfg(test)]\n{}", of(51)));
    garden.harvest();
}

#[test]
fn unsafe_code_is_found_in_every_crate() {
    let mut garden = Garden::new();
    let rule = "unsafe code outside the files that may have it";
    garden.plant(rule, "src/wall.rs", "fn f() { unsafe { g() } }");
    garden.plant(rule, "src/wall.rs", "unsafe fn f() {}");
    garden.plant(rule, "src/wall.rs", "unsafe impl Send for X {}");
    garden.plant(rule, "src/wall.rs", "fn f() { x!(unsafe { g() }) }");
    for file in [
        "crates/durable/src/plan.rs",
        "crates/tourbillond/src/catalog/quota.rs",
        "crates/durable-harness/src/load.rs",
    ] {
        garden.plant(rule, file, "fn f() { unsafe { g() } }");
    }
    garden.harvest();
}

#[test]
fn an_import_that_points_up_is_found_in_every_form() {
    let mut garden = Garden::new();
    for text in [
        "use crate::timer::Timer;",
        "pub(crate) use crate::timer;",
        "use crate::{sync, timer::Timer};",
        "use crate::{\n    sync::{Arc, lock},\n    timer,\n};",
        "use {core::fmt, crate::{wheel::{Wheel}, timer::{Timer, sleep}}};",
        "use super::timer::Timer;",
        "use super::{timer::Timer};",
        "fn planted() { crate::timer::sleep(); }",
        "fn planted() { x!(crate::timer::sleep()); }",
        "impl From<crate::timer::Timer> for Tick {}",
        "mod inner { use super::super::timer::Timer; }",
    ] {
        garden.plant("imports that point up", "src/tick.rs", text);
    }
    garden.plant("imports that point up", "src/wheel/store.rs", "use super::super::timer::Timer;");
    for text in ["use crate::Timer;", "use crate::{sync, Timer};", "fn f() { crate::never(); }"] {
        garden.plant("imports from the root, which hide the layer", "src/tick.rs", text);
    }
    for (file, text) in [
        ("crates/durable/src/time.rs", "use crate::engine::Engine;"),
        ("crates/durable/src/plan.rs", "use crate::{id, node::{Fire}};"),
        ("crates/durable/src/store/memory/tables.rs", "fn f() { crate::plan::plan(); }"),
        ("crates/durable/src/node/claimer.rs", "use super::super::client::Client;"),
    ] {
        garden.plant("imports that point up", file, text);
    }
    let rule = "imports from the root, which hide the layer";
    garden.plant(rule, "crates/durable/src/node/fire.rs", "use crate::{Client, id};");
    let text = "macro_rules! x { ($y:expr) => { $crate::Client::new($y) }; }";
    garden.plant(None, "crates/durable/src/node/fire.rs", text);
    garden.harvest();
}

#[test]
fn modules_that_import_each_other_are_found() {
    let mut garden = Garden::new();
    for (file, text) in [
        ("src/clock/virtual_time.rs", "use super::system;"),
        ("src/clock/system/coarse.rs", "use crate::clock::virtual_time::Shown;"),
        ("crates/durable/src/node/clock.rs", "use super::{fmt, shards};"),
        ("crates/durable/src/node/shards.rs", "fn f() { super::notifier::x(); }"),
        ("crates/durable/src/node/notifier.rs", "mod inner { use super::super::clock::DbClock; }"),
    ] {
        garden.plant("modules that import each other in a circle", file, text);
    }
    // One that leads nowhere, and one of a module and its own.
    garden.plant(None, "crates/durable/src/node/stats.rs", "use super::{clock, notifier};");
    garden.plant(None, "crates/durable/src/node/fire/within.rs", "use super::super::fire;");
    garden.harvest();
}

#[test]
fn a_drawing_of_other_layers_is_found() {
    for (file, drawn, other) in [
        ("ARCHITECTURE.md", "-> timer -> wall", "-> wall -> timer"),
        ("crates/durable/ARCHITECTURE.md", "-> client -> node", "-> node -> client"),
        ("crates/durable/ARCHITECTURE.md", "-> client -> node", "-> node"),
        ("crates/durable/ARCHITECTURE.md", "-> client -> node", "-> client -> nowhere -> node"),
    ] {
        let mut garden = Garden::new();
        let text = garden.tree.get(file).unwrap();
        assert!(text.contains(drawn), "{file}: {drawn}");
        let changed = text.replacen(drawn, other, 1);
        garden.tree.put(file, changed);
        let breaches = check(&garden.tree).unwrap();
        let found = breaches.iter().filter(|breach| breach.rule.starts_with("a drawing of layers"));
        assert!(found.count() == 1 && breaches.len() == 1, "{breaches:?}");
    }
}

#[test]
fn an_import_of_the_service_that_points_up_is_found() {
    let mut garden = Garden::new();
    let rule = "imports that point up";
    let at = |file: &str| format!("crates/tourbillond/src/{file}");
    garden.plant(rule, &at("net.rs"), "use crate::config::App;");
    garden.plant(rule, &at("model.rs"), "use crate::{config::App, net::Network};");
    garden.plant(rule, &at("catalog/write.rs"), "fn f() { crate::api::Problem::not_found(); }");
    garden.plant(rule, &at("callback/guard.rs"), "use super::super::service::Service;");
    let rule = "requests and answers of the service's own stop above the catalog";
    garden.plant(rule, &at("catalog/found.rs"), "use axum::http::{StatusCode, HeaderMap};");
    let rule = "rows of the store are read by the catalog alone";
    garden.plant(rule, &at("api/runs.rs"), "use tourbillon_durable::store::Filter;");
    garden.harvest();
}

#[test]
fn a_module_that_nobody_has_ordered_is_found() {
    let mut tree = CLEAN.clone();
    tree.put("src/lib.rs", format!("{}mod planted;\n", CLEAN.get("src/lib.rs").unwrap()));
    tree.put("src/planted.rs", "use crate::tick::Tick;\n".to_owned());
    let breaches = check(&tree).unwrap();
    let rules = breaches.iter().map(|breach| &breach.rule).collect::<Vec<_>>();
    assert_eq!(rules, ["a module without a layer"]);
}

#[test]
fn an_ordering_without_its_reason_is_found_in_every_crate() {
    let mut garden = Garden::new();
    let text = "fn f() { X.load(Ordering::Relaxed); }";
    for file in [
        "src/wall.rs",
        "crates/durable/src/plan.rs",
        "crates/tourbillond/src/catalog/quota.rs",
        "crates/durable-harness/src/load.rs",
    ] {
        garden.plant("an ordering without its reason", file, text);
        garden.plant("an ordering without its reason", file, "use planted::Ordering::*;");
        garden.plant(
            "an ordering without its reason",
            file,
            "use planted::Ordering::{Relaxed, SeqCst};",
        );
    }
    garden.harvest();
}

#[test]
fn a_name_of_what_is_not_there_is_found() {
    let mut garden = Garden::new();
    let rule = "comments name what is not there";
    garden.plant(rule, "src/fork.rs", "// ORDERING: see\n// `a_model_that_is_gone`.");
    garden.plant(rule, "src/wall.rs", "/// Loom `no_such_model`.\nstruct X;");
    garden.plant(rule, "src/wall.rs", "/// Shown by loom\n/// `no_such_model`.\nstruct X;");
    let rule = "documents name what is not there";
    for file in ["docs/HAZARDS.md", "src/driver/PROTOCOL.md", "crates/durable/ARCHITECTURE.md"] {
        garden.plant(rule, file, "By `a_test_that_nobody_wrote_at_all`.");
    }
    garden.plant(rule, "docs/PROOF.md", "By `CanaryThatNobodySeeded`.");
    let rule = "documents name a file that is not there";
    garden.plant(rule, "ARCHITECTURE.md", "See `src/none.rs`.");
    garden.plant(rule, "CONTRIBUTING.md", "See `ci/none.sh`.");
    garden.plant(rule, "crates/durable/README.md", "See `store/none.rs`.");
    garden.harvest();
}

#[test]
fn a_figure_that_is_typed_by_hand_is_found() {
    let mut garden = Garden::new();
    let rule = "a figure that no program has written: delete it, or let one print it";
    garden.plant(rule, "docs/PLATFORMS.md", "A sleep takes some 40 us.");
    garden.plant(rule, "src/guide/fork.md", "It takes 160 to\n250 ns (once).");
    garden.plant(rule, "crates/durable/docs/POSTGRES.md", "A row takes about 1,024 bytes.");
    garden.plant(rule, "crates/tourbillond/docs/LOAD.md", "A create takes some 40 us.");
    garden.plant(None, "docs/PROOF.md", "<!-- printed by x -->\n\n| some 4 ms |\n");
    garden.plant(None, "src/guide/fork.md", "A text of 1 to 200 bytes, 30 seconds at most.");
    garden.harvest();
}

#[test]
fn a_test_that_a_document_names_and_that_is_none_is_found() {
    let mut garden = Garden::new();
    let rule = "documents name a test that is not there";
    let features = "crates/tourbillond/docs/FEATURES.md";
    for file in [features, "crates/tourbillond/README.md", "docs/HAZARDS.md"] {
        for name in [
            "crates/tourbillond/tests/api/access.rs::no_such_test",
            // A test of another file, and a function that is no test.
            "crates/tourbillond/tests/api/access.rs::a_service_without_a_log_says_so",
            "crates/tourbillond/tests/cluster.rs::restart_database",
            "crates/tourbillond/tests/none.rs::a_token_is_good_for_its_app_and_its_scope",
            "crates/tourbillond/browser/live.test.mjs::it runs now when it is",
        ] {
            garden.plant(rule, file, &format!("Shown by `{name}`."));
        }
    }
    for name in [
        "tests/api/access.rs::a_token_is_good_for_its_app_and_its_scope",
        "crates/durable/tests/engine.rs::runs_on_tokio",
        "browser/live.test.mjs::it runs now when it is asked to",
    ] {
        garden.plant(None, features, &format!("Shown by `{name}`."));
    }
    garden.harvest();
}

#[test]
fn a_sentence_that_stands_twice_is_found() {
    let mut garden = Garden::new();
    let rule = "a sentence stands twice";
    garden.plant(rule, "README.md", "It is said here; more is\nsaid. It is said here; less is.");
    let long = "One that is long enough to be noticed anywhere.";
    garden.plant(rule, "ARCHITECTURE.md", &format!("{long}\n\n{long}"));
    let text =
        "// It is said here\n// and more. It is\n// said here; and less.\n// It is said here.";
    garden.plant(rule, "src/wall.rs", text);
    garden.plant(rule, "crates/tourbillond/src/catalog/quota.rs", text);
    garden.harvest();
}

#[test]
fn a_word_for_which_there_is_a_plainer_one_is_found() {
    let mut garden = Garden::new();
    let rule = "words for which there is a plainer one";
    for file in [
        "src/wall.rs",
        "crates/durable/src/plan.rs",
        "crates/durable/tests/metrics.rs",
        "crates/durable-harness/src/load.rs",
        "crates/futures-timer/src/lib.rs",
        "crates/http-limits/src/limits.rs",
        "crates/tourbillond/src/catalog/quota.rs",
        "tests/costs.rs",
        "benches/instructions.rs",
        "examples/epoll.rs",
        "platforms/bare/src/tests.rs",
        "platforms/web/tests/timers.rs",
        "integration/dependents/src/lib.rs",
        "xtask/src/tree.rs",
    ] {
        garden.plant(rule, file, "/// Planted: it goes on.\nstruct X;");
        garden.plant(rule, file, "// Whoever plants is told.");
        garden.plant(rule, file, "/// Two plants, both of\n/// which grow.\nstruct X;");
        garden.plant(rule, file, "fn f() {} // Grows in vain.");
        garden.plant(None, file, "// A `told`, and a `value that\n// goes on`; of: which.");
        garden.plant(None, file, "/// ```\n/// let told = go_on; // told\n/// ```\nstruct X;");
        garden.plant(None, file, "const X: &str = \"one // told\";");
    }
    for file in [
        "Cargo.toml",
        ".ci/run",
        "ci/lib.sh",
        "ci/mutants/apply.awk",
        "crates/tourbillond/deploy/Containerfile",
        "crates/tourbillond/deploy/alerts.yaml",
    ] {
        garden.plant(rule, file, "# Planted: it goes on.");
        garden.plant(rule, file, "# Two plants, both of\n# which grow.");
        garden.plant(None, file, "# A `told` is of code.");
    }
    for file in ["crates/tourbillond/page/app.js", "crates/tourbillond/browser/large.mjs"] {
        garden.plant(rule, file, "/** Planted: it goes on. */");
        garden.plant(rule, file, "/**\n * Two plants, both of\n * which grow.\n */");
        garden.plant(rule, file, "grow(); // Whoever plants.");
        garden.plant(None, file, "grow('it goes on');");
    }
    garden.plant(rule, "crates/durable/src/store/postgres/1.sql", "-- Planted in vain.");
    for file in ["README.md", "crates/tourbillond/README.md", "docs/HAZARDS.md"] {
        garden.plant(rule, file, "The plants go on.");
        garden.plant(rule, file, "| It | is told |");
        garden.plant(rule, file, "- Planted in\n  vain.");
        garden.plant(None, file, "The span `told` is of code.\n\n```text\nIt goes on.\n```");
    }
    garden.plant(None, "docs/PROOF.md", "Planted, of which all are told.");
    garden.harvest();
}

#[test]
fn a_paragraph_that_opens_with_a_clause_is_counted() {
    let text =
        "/// What it is.\nstruct X;\n/// Which.\nstruct Y;\n/// Of those\n/// who.\nstruct Z;\n";
    let mut garden = Garden::new();
    let files = [
        "src/wall.rs",
        "crates/durable/src/plan.rs",
        "crates/tourbillond/src/catalog/quota.rs",
        "tests/costs.rs",
        "benches/instructions.rs",
        "examples/epoll.rs",
        "platforms/bare/src/tests.rs",
        "platforms/web/tests/timers.rs",
        "crates/durable/tests/metrics.rs",
        "crates/tourbillond/examples/load/main.rs",
    ];
    for file in files {
        garden.plant(None, file, &text.repeat(100));
    }
    let breaches = check(&garden.tree).unwrap();
    for file in files {
        let of_file = breaches.iter().filter(|breach| {
            breach.rule.contains("open with a clause") && breach.found.starts_with(file)
        });
        assert!(of_file.count() >= 300, "{file}");
    }
}

#[test]
fn what_is_no_paragraph_is_not_counted() {
    let text =
        "/// Thing of\n/// What.\nstruct X;\n/// - What\n/// ```\n/// What\n/// ```\nstruct Y;\n";
    let mut garden = Garden::new();
    garden.plant(None, "src/wall.rs", &text.repeat(100));
    garden.harvest();
}

#[test]
fn lines_too_long_and_what_is_left_open_are_found() {
    let mut garden = Garden::new();
    let long = format!("// {}", "x".repeat(98));
    garden.plant("lines of more than 100 columns", "src/wall.rs", &long);
    let quota = "crates/tourbillond/src/catalog/quota.rs";
    garden.plant("lines of more than 100 columns", quota, &long);
    let open = format!("// TO{} the rest", "DO:");
    garden.plant("left open", "src/tick.rs", &open);
    garden.plant("left open", "crates/durable/README.md", &open);
    garden.harvest();
}

#[test]
fn a_figure_that_the_kept_runs_do_not_have_is_found() {
    for (file, figure) in [
        ("README.md", "| 37.9 to 51.2 |"),
        ("benches/RESULTS.md", "| tokio 129 |"),
        ("benches/compare.svg", ">0.575, 0.424<"),
    ] {
        let mut garden = Garden::new();
        let text = garden.tree.get(file).unwrap();
        assert!(text.contains(figure), "{file}: {figure}");
        let changed = text.replacen(figure, "| 7.77 |", 1);
        garden.tree.put(file, changed);
        let breaches = check(&garden.tree).unwrap();
        assert!(breaches.len() == 1 && breaches[0].rule.starts_with("figures"), "{breaches:?}");
    }
}

#[test]
fn a_lock_without_a_row_and_a_row_without_a_lock_are_found() {
    let mut garden = Garden::new();
    let rule = "a lock has no row in the table of fork.rs";
    for text in [
        "static X: SetOnce<u8> = SetOnce::new();",
        "struct X(RwLock<u8>);",
        "struct X {\n    pub(crate) held: StdArc<Mutex<u8>>,\n}",
    ] {
        garden.plant(rule, "src/wall.rs", text);
    }
    garden.plant(None, "src/wall.rs", "struct X<'a>(&'a Mutex<u8>);");
    garden.harvest();
    let mut garden = Garden::new();
    let row = "//! | `wall.rs` | `gone` | mutex | - |\n";
    garden.tree.put("src/fork.rs", format!("{row}{}", CLEAN.get("src/fork.rs").unwrap()));
    let breaches = check(&garden.tree).unwrap();
    assert!(breaches.len() == 1 && breaches[0].rule.contains("names no lock"), "{breaches:?}");
}

#[test]
fn a_call_that_stays_in_real_time_is_found_unless_it_is_listed() {
    let mut garden = Garden::new();
    let rule = "a call that stays in real time is not in the list of integration/clippy";
    let queue = "src/queue/delay_queue.rs";
    for text in [
        "pub fn planted() { never(); }",
        "pub fn planted() -> Timer { Timer::global() }",
        "pub fn planted() { crate::timer::sleep(g()); }",
        "pub fn planted() { x!(Timer::global()); }",
        "impl DelayQueue<u8> { pub fn of_bytes() -> Self { Self::with_capacity(9) } }",
        "impl From<u8> for DelayQueue<u8> { fn from(_: u8) -> Self { Self::new() } }",
        "pub trait X { fn planted(&self) { g(); } }\nfn g() { never(); }",
    ] {
        garden.plant(rule, queue, text);
    }
    for text in [
        "pub(crate) fn planted() { never(); }",
        "pub fn planted(timer: &Timer) { timer.never(); }",
        "pub fn planted() { thread::sleep(h()); }",
        "#[cfg(test)]\npub fn planted() { never(); }",
    ] {
        garden.plant(None, queue, text);
    }
    let rule = "the list of calls that stay in real time has another";
    let list = "integration/clippy/clippy.toml";
    garden.plant(rule, list, "    { path = \"tourbillon::elsewhere\", reason = \"waits\" },");
    garden.plant(rule, list, "    { path = \"tourbillon::Timer::sleep\", reason = \"waits\" },");
    garden.harvest();
}

#[test]
fn tests_of_a_script_that_may_be_none_are_found() {
    let mut garden = Garden::new();
    for text in [
        "cargo test --test it no_such_test",
        "X=1 cargo +nightly test --lib x",
        "timeout 9 \\\n    \"${cargo[@]}\" --test it no_such_test",
    ] {
        garden.plant("tests of a script that may be none", "ci/test.sh", text);
    }
    garden.harvest();
}

#[test]
fn a_fault_that_the_proof_does_not_count_is_found() {
    for (text, counts) in [("mutant planted\n- a\n+ b", 1), ("= planted", 1), ("= cost only", 2)] {
        let mut garden = Garden::new();
        garden.plant(None, "ci/mutants/list", text);
        let breaches = check(&garden.tree).unwrap();
        assert_eq!(breaches.len(), counts, "{breaches:?}");
        assert!(breaches.iter().all(|breach| breach.rule.contains("other faults")));
    }
}

#[test]
fn a_crate_whose_tests_no_script_runs_is_found() {
    let mut garden = Garden::new();
    let scripts = CLEAN.get("ci/lib.sh").unwrap().replace("tourbillon-cron ", "");
    garden.tree.put("ci/lib.sh", scripts);
    let breaches = check(&garden.tree).unwrap();
    assert!(breaches.iter().all(|breach| breach.rule == "a crate whose tests no script runs"));
    assert_eq!(breaches.len(), 1, "{breaches:?}");
}

#[test]
fn a_package_that_lacks_a_file_is_found() {
    for (file, text) in [
        ("crates/durable/LICENSE-MIT", ""),
        ("crates/tourbillond/LICENSE-APACHE", "another"),
        ("Cargo.toml", "[package]\nname = \"tourbillon-durable\"\n"),
    ] {
        let mut garden = Garden::new();
        let at = if file == "Cargo.toml" { "crates/planted/Cargo.toml" } else { file };
        garden.tree.put(at, text.to_owned());
        let breaches = check(&garden.tree).unwrap();
        let rule = "a package without its licences, changelog and README";
        assert!(!breaches.is_empty(), "{at}");
        assert!(breaches.iter().all(|breach| breach.rule == rule), "{breaches:?}");
    }
}

#[test]
fn a_file_that_is_not_in_the_package_is_found_unless_it_is_said_where_it_is() {
    let rule = "a file of a package names one that is in the repository alone";
    let mut cases = vec![
        ("SECURITY.md", "`ci/loom.sh 3` is not there.", true),
        ("SECURITY.md", "`platforms/web/` is not there.\n\nIt is in the repository.", true),
        ("SECURITY.md", "`ci/loom.sh`, in the repository, is not there.", false),
        ("SECURITY.md", "`src/wall.rs` and `docs/` are.", false),
        ("crates/http-limits/README.md", "`crates/tourbillond/` is not.", true),
        ("CONTRIBUTING.md", "`ci/loom.sh` is beside it.", false),
        ("src/tick.rs", "// Run by `ci/loom.sh 3`.", true),
        ("tests/costs.rs", "/// Run by `benches/`,\n/// in the\n/// repository.\nstruct X;", false),
        ("tests/it/clock_shim.c", "/* Run by ci/loom.sh. */", true),
        ("examples/keep_alive.rs", "#[ignore = \"run by ci/loom.sh\"]", true),
        ("examples/keep_alive.rs", "// As `crates/http-limits/` does.", true),
        ("xtask/src/main.rs", "// Run by `ci/loom.sh`.", false),
        ("crates/durable/tests/engine.rs", "// Of `tests/postgres/` and `src/wheel.rs`.", true),
        ("crates/durable/tests/engine.rs", "// Of `tests/postgres/`.", false),
    ];
    // One of each file at a time, because a file is found once.
    while !cases.is_empty() {
        let (mut garden, mut planted) = (Garden::new(), Vec::new());
        cases.retain(|(file, text, is_breach)| {
            let is_later = planted.contains(file);
            if !is_later {
                planted.push(*file);
                garden.plant(is_breach.then_some(rule), file, text);
            }
            is_later
        });
        garden.harvest();
    }
}

#[test]
fn another_order_of_release_is_found() {
    let mut garden = Garden::new();
    let text = garden.tree.get("RELEASING.md").unwrap();
    let swapped = text.replace("1. `tourbillon`", "3. `tourbillon`");
    let mut lines = swapped.lines().collect::<Vec<_>>();
    let first = lines.iter().position(|line| line.starts_with("3. `tourbillon`")).unwrap();
    let moved = lines.remove(first);
    lines.insert(first + 1, moved);
    garden.tree.put("RELEASING.md", lines.join("\n"));
    let breaches = check(&garden.tree).unwrap();
    assert!(breaches.len() == 1 && breaches[0].rule.contains("in their order"), "{breaches:?}");
}

#[test]
fn an_action_by_its_tag_is_found() {
    let mut garden = Garden::new();
    let rule = "an action that is not named by the hash of a commit";
    let workflow = ".github/workflows/ci.yml";
    garden.plant(rule, workflow, "      - uses: actions/checkout@v7");
    garden.plant(rule, workflow, "      - uses: actions/cache");
    garden.harvest();
}

#[test]
fn weight_above_a_limit_and_clearly_below_it_is_found() {
    let mut garden = Garden::new();
    let clauses = "// It is shown what is in it, one that is there, as it was.\n\n";
    for (file, text, row, column) in [
        ("src/wall.rs", "\n".repeat(301), "core", 0),
        ("crates/durable/tests/engine.rs", "\n".repeat(301), "crates/durable", 0),
        ("crates/metrics/src/lib.rs", clauses.repeat(20), "crates/metrics", 3),
        ("crates/tower/README.md", clauses.replace("// ", "- ").repeat(20), "crates/tower", 3),
        ("ci/planted.sh", String::new(), "scripts", 0),
        ("crates/planted/src/lib.rs", String::new(), "crates/planted", 0),
    ] {
        let mut tree = CLEAN.clone();
        let before = tree.get(file).unwrap_or_default().to_owned();
        tree.put(file, format!("{before}\n{text}"));
        let found = limits(&tree, None);
        let of_row = |breach: &&super::Breach| breach.found.contains(&format!(": {row}: "));
        assert_eq!(found.iter().filter(of_row).count(), column.max(1), "{found:?}");
        assert_eq!(found.iter().filter(|breach| !of_row(breach)).count(), 0, "{found:?}");
        // Written anew, it keeps a limit and takes a package that is new.
        tree.put(ratchets::FILE, ratchets::lowered(&tree));
        assert_eq!(limits(&tree, None).is_empty(), row == "crates/planted");
    }
    for (row, other) in [("scripts", "scripts 999"), ("core", "core 999900 99.9 99.9 99.9")] {
        let text = garden.tree.get(ratchets::FILE).unwrap();
        let lines = text.lines().map(|line| if line.starts_with(row) { other } else { line });
        let loose = lines.collect::<Vec<_>>().join("\n");
        garden.tree.put(ratchets::FILE, loose);
        assert!(limits(&garden.tree, None).iter().all(|breach| breach.found.contains("lowers")));
        assert!(!limits(&garden.tree, None).is_empty());
        garden.tree.put(ratchets::FILE, ratchets::lowered(&garden.tree));
        assert_eq!(limits(&garden.tree, None).len(), 0);
    }
}

#[test]
fn a_limit_that_rises_without_a_new_reason_is_found() {
    for (before, now, is_found) in [
        ("scripts 1", "scripts 2", true),
        ("scripts 1", "scripts 2 # needed", false),
        ("scripts 1 # needed", "scripts 2 # needed", true),
        ("scripts 1 # needed", "scripts 2 # needed too", false),
        ("core 100 1.0 1.0 1.0", "core 100 1.0 1.0 1.1", true),
        ("scripts 2", "scripts 1", false),
    ] {
        let mut tree = CLEAN.clone();
        tree.put(ratchets::FILE, now.to_owned());
        let history = History { commits: Vec::new(), limits: vec![before.to_owned()] };
        assert_eq!(history.faults(&tree).len(), usize::from(is_found), "{before} -> {now}");
    }
}

#[test]
fn a_merge_and_a_subject_without_an_area_are_found() {
    for (subject, is_right) in [
        ("wheel: fewer lists", true),
        ("durable, ci: two of them", true),
        ("fewer lists", false),
        (": fewer lists", false),
        ("style: a line of 100 columns", false),
        ("merge: small", false),
        ("Merge branch 'pagedata': into pageui", false),
    ] {
        assert_eq!(is_subject(subject), is_right, "{subject}");
    }
    assert!(is_subject(&format!("ci: {}", "x".repeat(68))));
    assert!(!is_subject(&format!("ci: {}", "x".repeat(69))));
    let commit = |parents, subject: &str| ("1a2b3c4".to_owned(), parents, subject.to_owned());
    let commits = vec![commit(1, "ci: right"), commit(2, "ci: joined"), commit(1, "wrong")];
    let history = History { commits, limits: Vec::new() };
    let found = history.faults(&CLEAN);
    let rules = found.iter().map(|(rule, _)| *rule).collect::<Vec<_>>();
    assert_eq!(rules, ["merge commits", "subjects that are not `area: what`"]);
}
