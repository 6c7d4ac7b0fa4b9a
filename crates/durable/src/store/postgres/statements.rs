//! Searches every statement of this folder for forms that Citus refuses on distributed tables.

use std::fs;
use std::path::Path;

/// Functions that are volatile: their value changes within a statement.
const VOLATILE: [&str; 5] =
    ["clock_timestamp(", "gen_random_uuid(", "nextval(", "random(", "timeofday("];

/// Names of rows that statements put together before they insert them.
const BEFORE: [&str; 5] = ["new", "ended", "gone", "mine", "withdrawn"];

/// Returns the forms in a text of statements that Citus refuses: in a subquery an empty list of
/// columns; in an upsert a function among the new values; in an update a volatile function, `now`
/// in a `CASE` or `coalesce`, or `now` and a column; and an insert that selects from tables or from
/// a function of a parameter.
fn refused(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.contains("SELECT FROM") {
        found.push("SELECT FROM".to_owned());
    }
    // Of each insert: a list of columns, and values or a select from rows that stand before it.
    for (at, _) in text.match_indices("INSERT INTO ") {
        let insert = &text[at..];
        let Some((columns, rows)) = insert.split_once(") ") else { continue };
        let selected = rows.strip_prefix("SELECT ").and_then(|rows| rows.split_once(" FROM "));
        let from = selected.map(|(_, from)| from.split([' ', '"', ')', ';']).next());
        if columns.contains('(') && from.is_some_and(|from| !BEFORE.contains(&from.unwrap_or(""))) {
            found.push("INSERT that selects from no rows before it".to_owned());
        }
    }
    // A statement ends with its literal, or with a semicolon.
    for statement in text.split(['"', ';']) {
        for (at, _) in statement.match_indices("UPDATE ") {
            let update = &statement[at..];
            let is_upsert = statement[..at].ends_with("DO ");
            let end = update.find(" WHERE ").unwrap_or(update.len());
            if is_upsert && update[..end].contains("now()") {
                found.push("now() in an upsert".to_owned());
            }
            let mut cases =
                update.split("CASE ").skip(1).filter_map(|case| case.split_once(" END"));
            if cases.any(|(case, _)| case.contains("now()")) || update.contains("coalesce(now()") {
                found.push("now() in a CASE or coalesce of an update".to_owned());
            }
            // The sign is followed by a parameter, or by the name of rows, a dot and a column.
            let mut sums = update.split("now() + ").skip(1).filter_map(|sum| sum.split(' ').next());
            if sums.any(|second| second.contains('.')) {
                found.push("now() and a column in an update".to_owned());
            }
            let volatile = VOLATILE.iter().filter(|function| update.contains(**function));
            found.extend(volatile.map(|function| format!("{function}) in an update")));
        }
    }
    found
}

#[test]
fn no_statement_is_one_that_citus_refuses() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/postgres");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() && !path.ends_with("statements.rs") {
            let text = fs::read_to_string(&path).unwrap();
            count += text.matches("UPDATE ").count();
            assert_eq!(refused(&text), [""; 0], "{}", path.display());
        }
    }
    assert!(count > 10, "the statements are elsewhere: {count}");
}

#[test]
fn what_citus_refuses_is_found() {
    let planted = [
        ("SELECT id WHERE NOT EXISTS (SELECT\n FROM t)", "SELECT FROM"),
        ("ON CONFLICT (id) DO UPDATE SET seen = now() WHERE i.epoch < 1", "now() in an upsert"),
        ("UPDATE t SET node = gen_random_uuid() WHERE id = $1", "gen_random_uuid() in an update"),
        (
            "UPDATE t SET due = now() WHERE due < clock_timestamp()",
            "clock_timestamp() in an update",
        ),
        (
            "UPDATE t SET due = CASE WHEN id = $1 THEN due ELSE greatest($2, now()) END",
            "now() in a CASE or coalesce of an update",
        ),
        (
            "UPDATE t SET due = coalesce(now() + $1, due)",
            "now() in a CASE or coalesce of an update",
        ),
        ("UPDATE t SET due = now() + e.pause FROM e", "now() and a column in an update"),
    ];
    for (statement, refusal) in planted {
        assert_eq!(refused(statement), [refusal]);
    }
    let insert = "INSERT INTO t (id) SELECT n.id FROM unnest($1) AS n (id) ON CONFLICT DO NOTHING";
    assert_eq!(refused(insert), ["INSERT that selects from no rows before it"]);
    assert_eq!(refused(&insert.replace("unnest($1)", "new")), [""; 0]);
    let good = "UPDATE t SET due = now() WHERE NOT EXISTS (SELECT 1 FROM u)";
    assert_eq!(refused(good), [""; 0]);
}
