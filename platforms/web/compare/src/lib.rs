//! What is here is in `tests/`.
