//! UniFFI's program that writes the other language's half.

fn main() {
    uniffi::uniffi_bindgen_main();
}
