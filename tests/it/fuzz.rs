//! The fuzz target `engine`, on every input that is kept for it and on 500 others, always the same.

mod engine;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::repeatable;

#[test]
fn the_engine_agrees_with_a_naive_model_on_every_kept_input() {
    engine::bytes::replay(engine::engine, "engine");
}

proptest! {
    #![proptest_config(repeatable(500))]

    #[test]
    fn the_engine_agrees_with_a_naive_model_on_random_inputs(data in vec(any::<u8>(), 0..500)) {
        engine::engine(&data);
    }
}
