//! The API from a terminal.
