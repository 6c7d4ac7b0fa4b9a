//! A program that sleeps once, as small as it can be.

use wasm_bindgen::prelude::*;

/// Resolves after 5 ms.
#[wasm_bindgen]
pub async fn wait() {
    #[cfg(feature = "sleep")]
    tourbillon::sleep(std::time::Duration::from_millis(5)).await;
}
