//! Meanings of errors on a cluster, which `ci/durable-postgres.sh`, in the repository, makes.

use super::super::cluster::Database;
use super::super::schema::migrate;
use super::*;
use crate::error::StoreErrorKind::{self, Invalid, Schema, Unavailable};

/// Statements that this server refuses, each with its meaning and the text of the error.
const REFUSED: [(&str, StoreErrorKind, &str); 9] = [
    ("SELECT * FROM public.secret", Invalid, "permission denied for table secret"),
    ("SELECT FROM WHERE", Invalid, "syntax error at or near \"WHERE\""),
    ("SELECT 1 / 0", Invalid, "division by zero"),
    ("INSERT INTO tourbillon.version VALUES (true, 1, 1)", Invalid, "duplicate key"),
    ("SELECT pg_sleep(60)", Unavailable, "canceling statement due to statement timeout"),
    ("SELECT FROM tourbillon.no_table", Schema, "\"tourbillon.no_table\" does not exist"),
    ("SELECT oops FROM tourbillon.timer", Schema, "column \"oops\" does not exist"),
    ("SELECT tourbillon.no_function()", Schema, "function tourbillon.no_function() does not exist"),
    ("CREATE TABLE no_schema.one ()", Schema, "schema \"no_schema\" does not exist"),
];

/// A role that may not do all.
const ROLE: &str = "
    CREATE TABLE public.secret ();
    CREATE ROLE {};
    GRANT USAGE ON SCHEMA tourbillon TO {};
    GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA tourbillon TO {}";

#[test]
fn an_error_says_what_the_server_refuses() {
    let database = Database::new();
    let role = format!("role_of_{}", database.name());
    let mut link = connect(&database);
    let deadline = Instant::now() + LONG;
    link.call(deadline, async |session| migrate(session).await).unwrap();
    database.client().batch_execute(&ROLE.replace("{}", &role)).unwrap();
    let settings = format!("SET ROLE {role}; SET statement_timeout = '50ms'");
    link.call(deadline, async |session| session.batch(&settings).await).unwrap();
    for (sql, kind, says) in REFUSED {
        let refused = link.call(deadline, async |session| session.read_once(sql, &[]).await);
        let (error, is_usable) = refused.map(drop).unwrap_err();
        assert_eq!((error.kind(), is_usable), (kind, true), "{sql}: {error}");
        assert!(error.to_string().contains(says), "{sql}: {error}");
        let is_of_version = error.to_string().contains("of another version");
        assert_eq!(is_of_version, kind == Schema, "{sql}: {error}");
    }
    let dropped = format!("DROP OWNED BY {role}; DROP ROLE {role}");
    database.client().batch_execute(&dropped).unwrap();
}

/// The library numbers its statements, those of all connections of a process.
const CLASH: &str = "DO $$
    DECLARE last integer := (SELECT max(substr(name, 2)::integer) FROM pg_prepared_statements);
    BEGIN
        FOR number IN last + 1 .. last + 5000 LOOP
            EXECUTE format('PREPARE s%s AS SELECT 1', number);
        END LOOP;
    END $$";

#[test]
fn a_clash_of_prepared_statements_is_no_error_of_the_schema() {
    let database = Database::new();
    let mut link = connect(&database);
    let clash = async |session: &mut Session| {
        session.read("SELECT 1", &[]).await?;
        session.batch(CLASH).await?;
        session.read("SELECT 2", &[]).await
    };
    let refused = link.call(Instant::now() + LONG, clash);
    let (error, is_usable) = refused.map(drop).unwrap_err();
    assert_eq!((error.kind(), is_usable), (Unavailable, false), "{error}");
    assert!(error.to_string().contains("prepared statement"), "{error}");
    assert!(error.to_string().contains("already exists"), "{error}");
}

/// Long enough for no test to see its end.
const LONG: Duration = Duration::from_secs(600);

fn connect(database: &Database) -> Link {
    let server = Server::new(&database.address()).unwrap();
    Link::connect(&server, Instant::now() + LONG, None).unwrap()
}
