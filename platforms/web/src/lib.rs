//! Empty; see `tests/`.
