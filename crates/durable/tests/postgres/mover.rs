//! A place is moved between databases.

use crate::cluster::Database;
use crate::{Elsewhere, moves};

#[test]
fn a_place_is_moved_away_and_back() {
    moves::a_place_is_moved_away_and_back(&Elsewhere(Database::new()));
}

#[test]
fn what_is_due_while_its_place_is_moved_runs_once() {
    let databases = [Database::new(), Database::new()];
    let stores = databases.each_ref().map(|database| Box::new(database.connect()) as _);
    moves::what_is_due_while_its_place_is_moved_runs_once(stores);
}
