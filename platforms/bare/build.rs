//! Makes the linker lay the programs out for the machine that they run on.

use std::env;

fn main() {
    let machine = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("riscv32") => "riscv",
        _ => "cortex-m",
    };
    println!("cargo:rustc-link-search={}/{machine}", env!("CARGO_MANIFEST_DIR"));
    println!("cargo:rustc-link-arg-bins=-Tlink.x");
    println!("cargo:rerun-if-changed={machine}/memory.x");
}
