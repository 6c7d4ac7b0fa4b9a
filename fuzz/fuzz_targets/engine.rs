#![no_main]

#[path = "../../tests/it/fuzz/engine.rs"]
mod engine;

libfuzzer_sys::fuzz_target!(|data: &[u8]| engine::engine(data));
