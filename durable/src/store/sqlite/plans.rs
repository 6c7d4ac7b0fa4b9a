//! Tests of how statements find their rows: by an index, however many there are.

use rusqlite::Connection;

use super::{lists, nodes, schedules, schema, timers};

fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let count = explain.parameter_count();
    let rows = explain.query_map(rusqlite::params_from_iter(vec![0; count]), |row| row.get(3));
    rows.unwrap().map(Result::unwrap).collect()
}

fn tables() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    schema::migrate(&connection).unwrap();
    connection
}

#[test]
fn no_statement_walks_a_table() {
    let connection = tables();
    for sql in [
        nodes::JOIN,
        nodes::BEAT,
        nodes::LIVES,
        nodes::LEAVE,
        nodes::GIVE_BACK,
        nodes::ORPHANS,
        nodes::PROMOTE,
        timers::INSERT,
        timers::ENDED,
        timers::SCAN,
        timers::HELD,
        timers::CLAIM,
        timers::RECORD,
        timers::RETRY,
        timers::HAND_BACK,
        timers::RECORDED,
        timers::WITHDRAW,
        timers::DELETE,
        timers::RESCHEDULE,
        timers::GET,
        timers::FIND,
        schedules::BY_NAME,
        schedules::BY_ID,
        schedules::UPCOMING,
        schedules::OCCUPIED,
        schedules::IS_BUSY,
        schedules::REPLACE,
        schedules::REMOVE,
        schedules::MOVE,
        schedules::OF_SCHEDULE,
        schedules::IS_TAKEN,
        lists::PRUNE,
    ] {
        for step in plan(&connection, sql) {
            // `queue` is what another step has found by an index.
            let is_found = ["SCAN CONSTANT ROW", "SCAN queue"].contains(&&step[..]);
            let is_walk = step.starts_with("SCAN") && !is_found || step.contains("AUTOMATIC");
            assert!(!is_walk, "{sql}: {step}");
            assert!(!step.contains("TEMP B-TREE FOR ORDER BY"), "{sql}: {step}");
        }
    }
}

#[test]
fn what_is_due_is_found_by_its_index() {
    let connection = tables();
    let expected = "SEARCH tourbillon_timer USING INDEX tourbillon_timer_due (due>? AND due<?)";
    assert_eq!(plan(&connection, timers::SCAN), [expected]);
    let expected = "SEARCH tourbillon_schedule USING INDEX tourbillon_schedule_next (next<?)";
    assert_eq!(plan(&connection, schedules::UPCOMING)[0], expected);
}

#[test]
fn orphans_are_looked_for_among_what_runs() {
    let plan = plan(&tables(), nodes::ORPHANS);
    let search = "SEARCH timer USING COVERING INDEX tourbillon_timer_running (node>?)";
    assert!(plan.iter().any(|step| step == search), "{plan:?}");
}
