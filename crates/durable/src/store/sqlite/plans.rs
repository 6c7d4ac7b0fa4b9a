//! Tests of how statements find their rows: by an index, however many there are.

use rusqlite::Connection;

use super::{lanes, lists, nodes, overview, schedules, schema, timers, views, zones};
use crate::id::{SHARDS, TimerId};
use crate::record::Outcome;
use crate::store::{RecordQuery, ScheduleQuery, Search, State, TimerQuery};
use crate::time::Time;

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
        nodes::LEAVE,
        nodes::GIVE_BACK,
        nodes::ORPHANS,
        nodes::PROMOTE,
        nodes::STOPPED,
        lanes::NEXT,
        lanes::FRONT,
        lanes::FIRST,
        lanes::MOVE,
        timers::INSERT,
        timers::LIVES,
        timers::ENDED,
        timers::SCAN,
        timers::HELD,
        timers::CLAIM,
        timers::RECORD,
        timers::RETRY,
        timers::POSTPONE,
        timers::HAND_BACK,
        timers::RECORDED,
        timers::WITHDRAW,
        timers::DELETE,
        timers::DELETE_ENDED,
        timers::DELETE_PENDING,
        timers::RESCHEDULE,
        timers::AMEND,
        timers::GET,
        timers::FIND,
        schedules::BY_NAME,
        schedules::BY_ID,
        &schedules::UPCOMING,
        schedules::OCCUPIED,
        schedules::IS_BUSY,
        schedules::REPLACE,
        schedules::REMOVE,
        schedules::MOVE,
        schedules::OF_SCHEDULE,
        schedules::RENEW,
        schedules::STOP,
        schedules::IS_TAKEN,
        schedules::FORGET_SKIP,
        zones::ZONED,
        zones::IS_AS_READ,
        zones::FIRST_TO_COME,
        zones::DELETE_TO_COME,
        lists::NEWEST,
        lists::PRUNE,
        overview::DUE,
        overview::NEXT,
        overview::ENABLED,
        overview::DISABLED,
        overview::OUTCOMES,
        views::LATEST,
        views::TALLY,
        views::TALLY_NAMED,
    ] {
        for step in plan(&connection, sql) {
            // `queue`, and rows without a name, were found by another step through an index.
            let is_found = ["SCAN CONSTANT ROW", "SCAN queue"].contains(&&step[..])
                || step.starts_with("SCAN (subquery-");
            let is_walk = step.starts_with("SCAN") && !is_found || step.contains("AUTOMATIC");
            assert!(!is_walk, "{sql}: {step}");
            assert!(!step.contains("TEMP B-TREE FOR ORDER BY"), "{sql}: {step}");
        }
    }
}

#[test]
fn a_list_by_what_it_has_an_index_for_walks_no_table_and_sorts_nothing() {
    let connection = tables();
    let (time, id) = (Time::from_micros(1), TimerId::from_bits(1));
    let kind = TimerQuery::new().kind("mail");
    let span = kind.clone().since(time).until(time);
    let prefix = kind.clone().by_name("a/", None);
    let later = kind.clone().after(time, id);
    let further = kind.clone().by_name("a/", Some("a/7".to_owned()));
    let spanned = RecordQuery::new().kind("mail").since(time).until(time);
    let newest = spanned.clone().newest_first().after(time, id);
    let dead = newest.clone().outcome(Outcome::Dead);
    let name = RecordQuery::new().kind("mail").name("a/1");
    let timer = "SEARCH tourbillon_timer USING INDEX tourbillon_timer_";
    let history = "SEARCH tourbillon_history USING INDEX tourbillon_history_";
    for (list, expected) in [
        (lists::timers(&kind), format!("{timer}kind (kind=?)")),
        (lists::timers(&span), format!("{timer}kind (kind=? AND due>? AND due<?)")),
        (lists::timers(&later), format!("{timer}kind (kind=? AND (due,id)>(?,?))")),
        (lists::timers(&prefix), format!("{timer}name (name>? AND name<?)")),
        (lists::timers(&further), format!("{timer}name (name>? AND name<?)")),
        (lists::records(&spanned), format!("{history}kind (kind=? AND recorded>? AND recorded<?)")),
        (lists::records(&newest), format!("{history}kind (kind=? AND recorded>? AND recorded<?)")),
        (
            lists::records(&dead),
            format!("{history}outcome (kind=? AND outcome=? AND recorded>? AND recorded<?)"),
        ),
        (lists::records(&name), format!("{history}name (name=?)")),
    ] {
        assert_eq!(plan(&connection, list.sql()), [expected], "{}", list.sql());
    }
    let held = prefix.clone().since(Time::NEVER);
    let sort = "USE TEMP B-TREE FOR ORDER BY";
    for (list, expected) in [
        (lists::timers(&prefix.state(State::Running)), format!("{timer}running (node>?)")),
        (lists::timers(&held), format!("{timer}kind (kind=? AND due>?)")),
    ] {
        assert_eq!(plan(&connection, list.sql()), [&*expected, sort], "{}", list.sql());
    }
    let schedule = "SEARCH tourbillon_schedule USING INDEX sqlite_autoindex_tourbillon_schedule_2";
    for search in [Search::new("a/"), Search::new("a/").after("a/7")] {
        for (list, expected) in [
            (lists::names_of_schedules(&search), format!("{schedule} (name>? AND name<?)")),
            (lists::names_of_timers(&search), format!("{timer}name (name>? AND name<?)")),
        ] {
            assert_eq!(plan(&connection, list.sql()), [expected], "{}", list.sql());
        }
    }
    let kind = || ScheduleQuery::new().kind("mail");
    // A page of the schedules in a state, as the service asks for it.
    let by = "SEARCH tourbillon_schedule USING INDEX tourbillon_schedule_";
    for (is_enabled, index) in [(true, "enabled"), (false, "disabled")] {
        let of_state = kind().prefix("a/").enabled(is_enabled);
        for query in [of_state.clone(), of_state.after("a/7")] {
            let list = lists::schedules(&query);
            let expected = format!("{by}{index} (kind=? AND name>? AND name<?)");
            assert_eq!(plan(&connection, list.sql()), [expected], "{query:?}");
        }
    }
    for query in [kind(), kind().prefix("a/"), kind().name("a/1"), kind().enabled(true)] {
        for step in plan(&connection, lists::schedules(&query).sql()) {
            let is_bad = step.starts_with("SCAN") || step.contains("TEMP B-TREE");
            assert!(!is_bad, "{query:?}: {step}");
        }
    }
}

#[test]
fn what_is_due_is_found_by_its_index() {
    let connection = tables();
    let kind = "SEARCH tourbillon_timer USING INDEX tourbillon_timer_kind";
    let expected = format!("{kind} (kind=? AND due>? AND due<?)");
    assert_eq!(plan(&connection, timers::SCAN), [expected]);
    let steps = plan(&connection, &schedules::UPCOMING);
    let search = "SEARCH tourbillon_schedule USING INDEX tourbillon_schedule_next \
                  (shard=? AND (next,id)>(?,?) AND next<?)";
    assert_eq!(steps.iter().filter(|step| **step == search).count(), usize::from(SHARDS));
    let merges = ["MERGE (UNION ALL)", "LEFT", "RIGHT", search];
    assert!(steps.iter().all(|step| merges.contains(&&step[..])), "{steps:?}");
}

#[test]
fn orphans_are_looked_for_among_what_runs() {
    let plan = plan(&tables(), nodes::ORPHANS);
    let search = "SEARCH timer USING COVERING INDEX tourbillon_timer_running (node>?)";
    assert!(plan.iter().any(|step| step == search), "{plan:?}");
}
