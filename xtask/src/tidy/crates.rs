//! The crates of the repository, and the rules that differ between them.

/// A crate.
#[derive(Debug)]
pub struct Crate {
    /// Name of its package.
    pub name: &'static str,
    /// Folder of its code, with a slash at the end.
    pub folder: &'static str,
    /// Files that its modules begin in, within the folder.
    pub roots: &'static [&'static str],
    /// Modules at its root, from the top: each may import from those behind it. Empty if it has no
    /// order yet.
    pub layers: &'static [&'static str],
    /// Document that draws the layers, if one does.
    pub drawn_in: Option<&'static str>,
    /// Pairs of modules that may import upward, or in a circle, all the same.
    pub upward: &'static [(&'static str, &'static str)],
    /// Paths that only some of its files may name.
    pub reserved: &'static [Reserved],
    /// Files that may have unsafe code, within the folder.
    pub unsafe_files: &'static [&'static str],
    /// Functions that may be long, by their files, within the folder.
    pub long_functions: &'static [(&'static str, &'static str)],
}

/// Paths that belong to some files of a crate.
#[derive(Debug)]
pub struct Reserved {
    /// Sentence to report.
    pub rule: &'static str,
    /// Patterns of paths: segments separated by `::`. `..` at the begin stands for any segments
    /// before, and each pattern for all that is below it.
    pub paths: &'static [&'static str],
    /// Files and folders, within the crate's, that may name them. A folder ends with a slash.
    pub files: &'static [&'static str],
}

impl Crate {
    /// Returns whether a file's place in the list of layers is at its root.
    pub fn module_of<'a>(&self, file: &'a str) -> &'a str {
        let inside = file.strip_prefix(self.folder).unwrap_or(file);
        inside.split(['/', '.']).next().unwrap_or(inside)
    }
}

impl Reserved {
    /// Returns whether a path is in the list.
    pub fn names(&self, path: &[String]) -> bool {
        self.paths.iter().any(|pattern| {
            let wanted = pattern.strip_prefix("..::").unwrap_or(pattern);
            let wanted = wanted.split("::").collect::<Vec<_>>();
            let at = |start: usize| {
                path.get(start..start + wanted.len())
                    .is_some_and(|part| part.iter().zip(&wanted).all(|(one, other)| one == other))
            };
            if pattern.starts_with("..::") { (0..path.len()).any(at) } else { at(0) }
        })
    }

    /// Returns whether a file, within the crate's folder, may name them.
    pub fn allows(&self, file: &str) -> bool {
        self.files.iter().any(|allowed| match allowed.strip_suffix('/') {
            Some(folder) => file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')),
            None => file == *allowed,
        })
    }
}

/// Files of the core that need an operating system.
const HOSTED: &[&str] = &[
    "clock.rs",
    "clock/",
    "wall.rs",
    "traits.rs",
    "traits/",
    "timer/drive_on.rs",
    "timer/scope.rs",
    "handle/scope.rs",
    "trace.rs",
    "sync.rs",
    "sync/",
    "foreign.rs",
    "engine/driven_by/task.rs",
    "engine/driven_by/thread.rs",
    "engine/parker.rs",
    "engine/parker/",
    "driver/event_loop.rs",
    "driver/hidden.rs",
    "driver/pacing.rs",
    "driver/reactor.rs",
    "driver/resume.rs",
    "driver/task.rs",
    "driver/thread.rs",
    "virtual_time/",
];

/// Crate without a rule of its own.
const PLAIN: Crate = Crate {
    name: "",
    folder: "",
    roots: &["lib.rs"],
    layers: &[],
    drawn_in: None,
    upward: &[],
    reserved: &[],
    unsafe_files: &[],
    long_functions: &[],
};

/// All crates whose code is checked.
pub const CRATES: &[Crate] = &[
    Crate {
        name: "tourbillon",
        folder: "src/",
        roots: &["lib.rs"],
        layers: &[
            "lib",
            "models",
            "compat",
            "traits",
            "stream",
            "future_ext",
            "queue",
            "callback",
            "timer",
            "wall",
            "interval",
            "timeout",
            "spin",
            "sleep",
            "handle",
            "virtual_time",
            "driver",
            "engine",
            "platform",
            "wheel",
            "timer_fd",
            "clock",
            "tolerance",
            "tick",
            "deadline",
            "stats",
            "trace",
            "error",
            "fork",
            "foreign",
            "sync",
            "time",
        ],
        drawn_in: Some("ARCHITECTURE.md"),
        // A driver that is turned by hand holds its timer.
        upward: &[("driver", "timer")],
        reserved: &[
            Reserved {
                rule: "threads and atomics come from sync.rs alone",
                paths: &[
                    "std::sync",
                    "core::sync",
                    "alloc::sync",
                    "std::thread",
                    "loom",
                    "critical_section",
                ],
                files: &["sync.rs", "sync/"],
            },
            // The thread that makes a value while others wait for it may not be there after a fork.
            Reserved {
                rule: "once-cells that threads wait for",
                paths: &[
                    "..::OnceLock",
                    "..::LazyLock",
                    "..::LazyCell",
                    "..::ReentrantLock",
                    "..::Barrier",
                    "..::sync::Once",
                ],
                files: &["sync/set_once.rs"],
            },
            Reserved {
                rule: "the time is read under clock/ alone",
                paths: &["..::Instant::now", "..::SystemTime::now"],
                files: &["clock.rs", "clock/"],
            },
            Reserved {
                rule: "instants and times of day come from time.rs, for browsers",
                paths: &["std::time::Instant", "std::time::SystemTime"],
                files: &["time.rs", "traits/aws_smithy_async.rs", "traits/hyper.rs"],
            },
            Reserved {
                rule: "std is named for what core has, in a module that builds without an \
                       operating system",
                paths: &[
                    "std::array",
                    "std::cell",
                    "std::cmp",
                    "std::convert",
                    "std::error",
                    "std::fmt",
                    "std::future",
                    "std::hash",
                    "std::iter",
                    "std::mem",
                    "std::num",
                    "std::ops",
                    "std::pin",
                    "std::ptr",
                    "std::task",
                    "std::time::Duration",
                ],
                files: HOSTED,
            },
            Reserved {
                rule: "tracing is named in trace.rs alone",
                paths: &["tracing"],
                files: &["trace.rs"],
            },
        ],
        unsafe_files: &[
            "clock/notices.rs",
            "clock/system/boottime.rs",
            "clock/system/coarse.rs",
            "driver/thread.rs",
            "engine/entry.rs",
            "engine/insert.rs",
            "engine/parker/event_loop.rs",
            "engine/parker/futex.rs",
            "engine/parker/windows.rs",
            "engine/parker/windows/resumes.rs",
            "engine/shard.rs",
            "engine/drop_by_pointer.rs",
            "engine/wake_batch.rs",
            "fork.rs",
            "handle.rs",
            "handle/scope.rs",
            "sleep.rs",
            "sync/bare.rs",
            "sync/lock.rs",
            "sync/processors.rs",
            "sync/set_once.rs",
            "sync/signals.rs",
            "timer_fd.rs",
        ],
        ..PLAIN
    },
    Crate {
        name: "tourbillon-cron",
        folder: "crates/cron/src/",
        layers: &[
            "lib",
            "expression",
            "schedule",
            "zoned_time",
            "zone",
            "zones",
            "field",
            "missed",
            "error",
            "time",
        ],
        ..PLAIN
    },
    Crate {
        name: "tourbillon-crontab",
        folder: "crates/crontab/src/",
        roots: &["lib.rs", "main.rs"],
        layers: &["main", "program", "lib", "table", "visible"],
        unsafe_files: &["program/process.rs", "program/user.rs"],
        ..PLAIN
    },
    Crate {
        name: "tourbillon-durable",
        folder: "crates/durable/src/",
        layers: &[
            "lib",
            "metrics_0_24",
            "engine",
            "client",
            "node",
            "plan",
            "store",
            "trace",
            "threads",
            "record",
            "rule",
            "policy",
            "schedule",
            "wall",
            "span",
            "error",
            "id",
            "time",
        ],
        // The conformance suite stops schedules as a client does. The channels of a node have fires
        // in them, which hand themselves back to it wherever they are dropped.
        upward: &[("store", "client"), ("node::shared", "node::fire")],
        long_functions: &[
            ("node/planner.rs", "advance"),
            ("node/scanner.rs", "fill"),
            // Tests that are a part of the library.
            ("store/conformance/nodes.rs", "a_scan_says_no_to_none_who_has_work"),
            ("store/conformance/timers.rs", "a_reschedule_needs_the_version_it_was_made_for"),
            ("store/conformance/views.rs", "records_are_counted_in_parts_of_time"),
        ],
        drawn_in: Some("crates/durable/ARCHITECTURE.md"),
        reserved: &[Reserved {
            rule: "tracing is named in trace.rs alone",
            paths: &["tracing"],
            files: &["trace.rs"],
        }],
        ..PLAIN
    },
    Crate {
        name: "tourbillond",
        folder: "crates/tourbillond/src/",
        roots: &["lib.rs", "main.rs", "bin/tourbillonctl.rs"],
        layers: &[
            "main",
            "bin",
            "lib",
            "ctl",
            "http",
            "routes",
            "xtimer",
            "page",
            "api",
            "dispatch",
            "service",
            "audit",
            "catalog",
            "callback",
            "metrics",
            "config",
            "model",
            "net",
            "answers",
            "descriptors",
            "private",
            "pem",
            "manual",
        ],
        reserved: &[
            Reserved {
                rule: "requests and answers of the service's own stop above the catalog",
                paths: &["axum"],
                files: &[
                    "http.rs",
                    "http/",
                    "routes.rs",
                    "routes/",
                    "xtimer.rs",
                    "xtimer/",
                    "page.rs",
                    "page/",
                    "api.rs",
                    "api/",
                    "metrics/requests.rs",
                    "answers.rs",
                ],
            },
            Reserved {
                rule: "rows of the store are read by the catalog alone",
                paths: &["tourbillon_durable::store"],
                files: &[
                    "catalog.rs",
                    "catalog/",
                    "service.rs",
                    "service/clock.rs",
                    "metrics/timed.rs",
                ],
            },
        ],
        ..PLAIN
    },
    Crate {
        name: "tourbillon-durable-harness",
        folder: "crates/durable-harness/src/",
        roots: &["lib.rs", "main.rs"],
        long_functions: &[
            ("checker/history.rs", "new"),
            ("checker/history.rs", "facts"),
            ("storm.rs", "start"),
        ],
        ..PLAIN
    },
    Crate {
        name: "tourbillon-http-limits",
        folder: "crates/http-limits/src/",
        layers: &["lib", "socket", "watch", "limits"],
        ..PLAIN
    },
    Crate {
        name: "tourbillon-compat-tokio",
        folder: "crates/compat-tokio/src/",
        layers: &["lib", "util", "stream", "delay_queue", "future_ext", "time"],
        ..PLAIN
    },
    Crate { name: "tourbillon-metrics", folder: "crates/metrics/src/", ..PLAIN },
    Crate { name: "tourbillon-tokio", folder: "crates/tokio/src/", ..PLAIN },
    Crate {
        name: "tourbillon-tower",
        folder: "crates/tower/src/",
        layers: &["lib", "interceptor", "deadline", "or_else"],
        ..PLAIN
    },
    Crate { name: "tourbillon-wasip3", folder: "crates/wasip3/src/", ..PLAIN },
    Crate { name: "tourbillon-wstd", folder: "crates/wstd/src/", ..PLAIN },
    Crate {
        name: "xtask",
        folder: "xtask/src/",
        roots: &["main.rs"],
        layers: &["main", "tidy", "checks", "history", "ratchets", "figures", "tree"],
        ..PLAIN
    },
];
