//! Meanings of the server's codes.

use super::*;
use crate::error::StoreErrorKind::{Conflict, Invalid, Schema, Unavailable};

/// Codes, each with the caller's remedy, and whether the connection may be used again.
const MEANINGS: [(&str, StoreErrorKind, bool); 34] = [
    // Conflicts with a concurrent transaction: serialization, a deadlock, a lock.
    ("40001", Conflict, true),
    ("40P01", Conflict, true),
    ("55P03", Conflict, true),
    // A statement that took too long.
    ("57014", Unavailable, true),
    // Tables of another version: a schema, a table, a column, a function.
    ("3F000", Schema, true),
    ("42P01", Schema, true),
    ("42703", Schema, true),
    ("42883", Schema, true),
    // Refusals that a repeat meets again: permission, syntax, an ambiguous or unknown name, values,
    // constraints, limits.
    ("42501", Invalid, true),
    ("42601", Invalid, true),
    ("42702", Invalid, true),
    ("42704", Invalid, true),
    ("42P07", Invalid, true),
    ("42P18", Invalid, true),
    ("22001", Invalid, true),
    ("22012", Invalid, true),
    ("22P02", Invalid, true),
    ("23502", Invalid, true),
    ("23505", Invalid, true),
    ("23514", Invalid, true),
    ("54000", Invalid, true),
    // Prepared statements of another session, or that the server has forgotten.
    ("42P05", Unavailable, false),
    ("26000", Unavailable, false),
    // A standby, or a server that takes no writes.
    ("25006", Unavailable, false),
    // A login, or a database, that is refused; a server that has no room, memory or disk.
    ("28000", Unavailable, false),
    ("28P01", Unavailable, false),
    ("3D000", Unavailable, false),
    ("53100", Unavailable, false),
    ("53200", Unavailable, false),
    ("53300", Unavailable, false),
    // A server that stops, has stopped or starts; a connection that is over.
    ("57P01", Unavailable, false),
    ("57P03", Unavailable, false),
    ("08006", Unavailable, false),
    // The server's own fault.
    ("XX000", Unavailable, false),
];

#[test]
fn codes_mean_what_a_caller_can_do() {
    for (code, kind, is_good) in MEANINGS {
        assert_eq!(meaning(&SqlState::from_code(code)), (kind, is_good), "{code}");
    }
}
