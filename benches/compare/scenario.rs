//! What is measured, and how.

use std::env;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::peers::{AsyncIo, FuturesTimer, Peer, Tokio, Tourbillon};
use crate::common::work::Work;
use crate::statistics::median;

/// Columns of the table. The last one is `std::thread::sleep`, where that is a measure.
pub(crate) const COLUMNS: [&str; 5] =
    [Tourbillon::NAME, Tokio::NAME, AsyncIo::NAME, FuturesTimer::NAME, "std"];
pub(crate) const OURS: usize = 0;
pub(crate) const TOKIO: usize = 1;
pub(crate) const ASYNC_IO: usize = 2;

/// The argument that makes a process measure one column of one scenario.
pub(crate) const CHILD: &str = "--child";

/// Rounds of [`How::Work`], each column once in each.
const ROUNDS: usize = 25;
/// One round of one column takes about so long...
const ROUND: Duration = Duration::from_millis(10);
/// ...and if it has to wait for timers, no longer than this.
const ROUND_MAX: Duration = Duration::from_millis(150);
/// Before each round: the column before may have left its own thread with work to finish, which is
/// not to be this column's burden. Then an eighth of the work, as the processor was at rest.
const SETTLE: Duration = Duration::from_millis(20);

/// What a row of the table measures, empty if its scenario has one row only, and the unit. Less is
/// better everywhere.
pub(crate) type Metric = (&'static str, &'static str);

/// One function a column, `None` where there is nothing to measure.
pub(crate) type Columns<R> = [Option<fn() -> R>; COLUMNS.len()];

pub(crate) enum How {
    /// Timed here, in turn with the others; the metric is nanoseconds each.
    Work(Columns<Work>),
    /// Measured in a process of its own, so many times; one figure for each metric.
    Probe(usize, Columns<Vec<f64>>),
}

pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) metrics: &'static [Metric],
    pub(crate) how: How,
}

/// A metric with its figures.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) figures: [Option<f64>; COLUMNS.len()],
}

impl Row {
    /// A column's figure as a multiple of tokio's.
    pub(crate) fn ratio(&self, column: usize) -> Option<f64> {
        let (own, tokio) = (self.figures[column]?, self.figures[TOKIO]?);
        (tokio > 0.0).then(|| own / tokio)
    }
}

impl Scenario {
    pub(crate) fn measure(&self) -> Vec<Row> {
        let samples = match &self.how {
            How::Work(columns) => measure_work(columns),
            How::Probe(rounds, columns) => self.measure_probes(*rounds, columns),
        };
        let row = |(index, (what, unit)): (usize, &Metric)| Row {
            name: match *what {
                "" => self.name.clone(),
                what => format!("{}: {what}", self.name),
            },
            unit,
            figures: samples.each_ref().map(|rounds| {
                let figures: Vec<f64> = rounds.iter().map(|round| round[index]).collect();
                median(figures).filter(|figure| figure.is_finite())
            }),
        };
        self.metrics.iter().enumerate().map(row).collect()
    }

    fn measure_probes(&self, rounds: usize, columns: &Columns<Vec<f64>>) -> Samples {
        let mut samples = Samples::default();
        for round in 0..rounds {
            for column in in_turn(round) {
                if columns[column].is_some() {
                    samples[column].push(self.ask_child(column));
                }
            }
        }
        samples
    }

    fn ask_child(&self, column: usize) -> Vec<f64> {
        let own_path = env::current_exe().expect("the bench knows its path");
        let output = Command::new(own_path)
            .args([CHILD, self.name.as_str(), COLUMNS[column]])
            .output()
            .expect("the bench can start itself");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} of {}: {error}", self.name, COLUMNS[column]);
        let figures = String::from_utf8(output.stdout).expect("it prints figures");
        let parse = |figure: &str| figure.parse().expect("it prints figures");
        let figures: Vec<f64> = figures.split_whitespace().map(parse).collect();
        assert_eq!(figures.len(), self.metrics.len(), "{}: figures", self.name);
        figures
    }
}

/// By column and round, one figure for each metric.
type Samples = [Vec<Vec<f64>>; COLUMNS.len()];

/// The columns, beginning with another one in each round.
fn in_turn(round: usize) -> impl Iterator<Item = usize> {
    (0..COLUMNS.len()).map(move |column| (column + round) % COLUMNS.len())
}

fn measure_work(columns: &Columns<Work>) -> Samples {
    let mut works = columns.map(|column| {
        column.map(|prepare| {
            let mut work = prepare();
            let times = calibrate(&mut work);
            (work, times)
        })
    });
    let mut samples = Samples::default();
    for round in 0..ROUNDS {
        for column in in_turn(round) {
            if let Some((work, times)) = &mut works[column] {
                thread::sleep(SETTLE);
                work(*times / 8);
                let each = work(*times).as_nanos() as f64 / *times as f64;
                samples[column].push(vec![each]);
            }
        }
    }
    samples
}

fn calibrate(work: &mut Work) -> u64 {
    let mut times = 4_096;
    loop {
        let start = Instant::now();
        let taken = work(times);
        if taken * 2 > ROUND || start.elapsed() > ROUND_MAX {
            return times;
        }
        times *= 2;
    }
}

/// Measures one column of one scenario and prints the figures.
pub(crate) fn run_child(scenarios: &[Scenario], name: &str, column: &str) {
    let scenario = scenarios.iter().find(|scenario| scenario.name == name).expect("it exists");
    let column = COLUMNS.iter().position(|own| *own == column).expect("it exists");
    let How::Probe(_, columns) = &scenario.how else { panic!("{name} is no probe") };
    let probe = columns[column].expect("it is measured");
    probe().iter().for_each(|figure| print!("{figure} "));
}
