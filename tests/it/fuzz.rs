//! The fuzz target `engine` on every input that is kept for it.

mod engine;

#[test]
fn the_engine_agrees_with_a_naive_model_on_every_kept_input() {
    engine::bytes::replay(engine::engine, "engine");
}
