//! Programs that write in transactions of their own, and are killed in between: with sqlx of each
//! version, and with psycopg. `ci/durable-interfaces.sh` runs them, each night.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

use tourbillon_durable::Client;
use tourbillon_durable::store::{Postgres, TimerUpdate};

use super::{LOOK, Shop, psql};

/// Number of payments that are committed, that are rolled back, whose program is killed before it
/// commits, and whose program is killed at any time: so many of each.
const ROUNDS: usize = 100;

/// Longest time after which a program is killed at any time. A payment takes less.
const MEANWHILE: Duration = Duration::from_millis(10);

/// Bills, each with a reminder, a collection, and a check that runs on a node.
const BILLS: &str = "
    CREATE TABLE bill (number integer PRIMARY KEY, paid boolean NOT NULL DEFAULT false);
    INSERT INTO bill SELECT generate_series(0, :bills - 1);
    INSERT INTO tourbillon.node VALUES (gen_random_uuid(), 1, now() + interval '1 day', now());
    SELECT tourbillon.once('bill', 'infinity', name => what || '-' || number)
    FROM bill, unnest('{remind,collect,check}'::text[]) AS what;
    UPDATE tourbillon.timer SET attempt = 1, epoch = 1,
        node = (SELECT id FROM tourbillon.node WHERE expires > now() + interval '1 hour')
    WHERE name LIKE 'check-%';";

/// What became of each bill: whether it is paid, and how often its reminder was taken back, its
/// collection rescheduled, thanks made, its check completed, and what it was for shipped.
const ENDS: &str = "
    SELECT concat(b.paid, ': ',
        (SELECT count(*) FROM tourbillon.history WHERE name = 'remind-' || number AND outcome = 4),
        (SELECT count(*) FROM tourbillon.timer
         WHERE name = 'collect-' || number AND scheduled_for < 'infinity'),
        (SELECT count(*) FROM tourbillon.timer WHERE name = 'thank-' || number),
        (SELECT count(*) FROM tourbillon.history WHERE name = 'check-' || number AND outcome = 1),
        (SELECT count(*) FROM tourbillon.history
         WHERE name = 'shop/ship-' || number AND outcome = 1))
    FROM bill AS b ORDER BY number;";

/// What is still under way: transactions of programs that were killed, and callbacks.
const UNDER_WAY: &str = "
    SELECT (SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name = 'bills')
        + (SELECT count(*) FROM tourbillon.timer WHERE kind = 'http.shop');";

/// A program that pays bills. It says "open" when a transaction is written, and "ended" after that.
struct Program {
    child: Child,
    says: Lines<BufReader<ChildStdout>>,
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Program {
    fn start(mut command: Command, shop: &Shop) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let says = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut program = Self { child, says };
        program.tell(&format!("{}?application_name=bills {}", shop.store, shop.good()));
        program
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Returns whether it says this before it ends. The test harness may have left a line open.
    fn says(&mut self, word: &str) -> bool {
        self.says.by_ref().any(|line| line.unwrap().ends_with(word))
    }

    fn kill(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

/// Has programs that `command` starts pay bills. Each bill has all of its payment or nothing.
fn pays_all_or_nothing(command: impl Fn() -> Command) {
    let folder = tempfile::tempdir().unwrap();
    let shop = Shop::start(folder.path(), "NULL");
    psql(&shop.store, &["-v", &format!("bills={}", 4 * ROUNDS)], BILLS).unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let mut program = Program::start(command(), &shop);
    let mut expected = Vec::new();
    for number in 0..4 * ROUNDS {
        let end = ["commit", "commit", "rollback", "wait"][number % 4];
        program.tell(&format!("{number} {end}"));
        let is_told = if number % 4 == 1 {
            thread::sleep(MEANWHILE.mul_f64(random.f64()));
            program.kill();
            program.says("ended")
        } else {
            assert!(program.says("open"));
            end != "wait" && program.says("ended")
        };
        if number % 2 == 1 {
            program = Program::start(command(), &shop);
        } else {
            assert!(is_told);
        }
        // A commit whose answer did not come may have been carried out.
        expected.push((is_told || end != "commit").then_some(end == "commit"));
    }
    drop(program);
    while psql(&shop.store, &[], UNDER_WAY).unwrap() != ["0"] {
        thread::sleep(LOOK);
    }
    let ends = psql(&shop.store, &[], ENDS).unwrap();
    let paid = ends.iter().skip(1).step_by(4).filter(|end| end.starts_with('t')).count();
    println!("of {ROUNDS} that were killed at any time, {paid} had paid");
    assert_eq!(ends.len(), expected.len());
    for (number, (end, is_paid)) in ends.iter().zip(expected).enumerate() {
        let is_whole = ["t: 11111", "f: 00000"].contains(&&**end);
        assert!(
            is_whole && is_paid.is_none_or(|is_paid| end.starts_with('t') == is_paid),
            "bill {number}: {end}, paid: {is_paid:?}"
        );
    }
    assert!(shop.service.stop());
}

/// A test of programs with this version of sqlx, and such a program, which is this one again.
macro_rules! by_sqlx {
    ($sqlx:ident, $program:ident, $test:ident) => {
        #[test]
        #[ignore = "the test below runs it, in processes of their own"]
        fn $program() {
            use $sqlx::Connection as _;
            use $sqlx::postgres::PgConnection;

            const PAID: &str = "UPDATE bill SET paid = true WHERE number = $1";
            const COMPLETE: &str = "SELECT tourbillon.complete(t.id, t.attempt, t.node, t.epoch)
                FROM tourbillon.timer AS t WHERE t.name = $1";
            const CALL: &str = "SELECT tourbillond.call_shop($1, $2, NULL, now(), 'GET')";

            let mut lines = std::io::stdin().lines().map(Result::unwrap);
            let first = lines.next().unwrap();
            let (address, url) = first.split_once(' ').unwrap();
            let (store, _) = address.split_once('?').unwrap();
            // A busy machine may take longer than a connection has.
            let store = loop {
                if let Ok(store) = Postgres::connect(store) {
                    break store;
                }
                thread::sleep(LOOK);
            };
            let client = Client::new(Box::new(store)).unwrap();
            let later = SystemTime::UNIX_EPOCH + Duration::from_secs(7_226_582_400);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let mut own = PgConnection::connect(address).await.unwrap();
                for line in lines {
                    let (number, end) = line.split_once(' ').unwrap();
                    let name = |what: &str| format!("{what}-{number}");
                    let mut open = own.begin().await.unwrap();
                    let paid = $sqlx::query(PAID).bind(number.parse::<i32>().unwrap());
                    paid.execute(&mut *open).await.unwrap();
                    let taken = client.cancel_in(&mut open, &name("remind")).await.unwrap();
                    assert_eq!(taken, TimerUpdate::Done);
                    let moved = client.reschedule_in(&mut open, &name("collect"), later).await;
                    let thanks = client.once("bill", later).name(name("thank"));
                    let thanks = thanks.create_in(&mut open).await.unwrap();
                    let complete = $sqlx::query(COMPLETE).bind(name("check"));
                    complete.execute(&mut *open).await.unwrap();
                    let call = $sqlx::query(CALL).bind(name("ship")).bind(url);
                    call.execute(&mut *open).await.unwrap();
                    println!("\nopen");
                    match end {
                        "commit" => {
                            open.commit().await.unwrap();
                            moved.unwrap().committed();
                            thanks.committed();
                        }
                        "rollback" => open.rollback().await.unwrap(),
                        _ => std::future::pending().await,
                    }
                    println!("ended");
                }
            });
        }

        #[test]
        #[ignore = "takes a minute; ci/durable-interfaces.sh runs it"]
        fn $test() {
            pays_all_or_nothing(|| {
                let mut command = Command::new(std::env::current_exe().unwrap());
                let program = concat!("programs::", stringify!($program));
                command.args(["--exact", program, "--ignored", "--nocapture"]);
                command
            });
        }
    };
}

by_sqlx!(sqlx_0_8, pays_by_sqlx_0_8, a_payment_by_sqlx_0_8_is_whole_or_not_at_all);

by_sqlx!(sqlx_0_9, pays_by_sqlx_0_9, a_payment_by_sqlx_0_9_is_whole_or_not_at_all);

#[test]
#[ignore = "needs psycopg, which ci/durable-interfaces.sh installs"]
fn a_payment_by_psycopg_is_whole_or_not_at_all() {
    pays_all_or_nothing(|| {
        let mut command = Command::new("python3");
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sql/bills.py"));
        command
    });
}
