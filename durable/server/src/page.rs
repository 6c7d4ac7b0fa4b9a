//! The operator's page, embedded.
