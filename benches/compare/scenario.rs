//! Scenarios, and the way to measure them.

use std::env;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::peers::{AsyncIo, FuturesTimer, Peer, Tokio, Tourbillon};
use crate::common::work::Work;
use crate::statistics;

/// Columns of the table. The last one is `std::thread::sleep`, where that is a measure.
pub(crate) const COLUMNS: [&str; 5] =
    [Tourbillon::NAME, Tokio::NAME, AsyncIo::NAME, FuturesTimer::NAME, "std"];
pub(crate) const OURS: usize = 0;
pub(crate) const TOKIO: usize = 1;
pub(crate) const STD: usize = 4;

/// The argument that makes a process measure one column of one scenario.
pub(crate) const CHILD: &str = "--child";

/// One round of [`How::Work`] takes one column about so long...
const ROUND: Duration = Duration::from_millis(10);
/// ...and if it has to wait for timers, no longer than this.
const ROUND_MAX: Duration = Duration::from_millis(150);
/// Before each round: the column before may have left its own thread with work to finish, and that
/// must not burden this column. Then an eighth of the work, because the processor was at rest.
const SETTLE: Duration = Duration::from_millis(20);

/// A result does not repeat if a third of the rounds gives one further off than this.
const REPEATS_WITHIN: f64 = 0.15;

/// Amount of work to measure.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    /// Argument that asks for it, of child processes too.
    pub(crate) argument: Option<&'static str>,
    /// Rounds of [`How::Work`], each column once in each.
    works: usize,
    /// Rounds of measurements in processes of their own.
    probes: usize,
    /// Timers in a mass.
    pub(crate) mass: usize,
    /// Span of a probe's sleeps, again and again, or of its rest.
    pub(crate) span: Duration,
}

pub(crate) const FULL: Effort = Effort {
    argument: None,
    works: 15,
    probes: 3,
    mass: 1_000_000,
    span: Duration::from_millis(750),
};

pub(crate) const QUICK: Effort = Effort {
    argument: Some("--quick"),
    works: 3,
    probes: 1,
    mass: 100_000,
    span: Duration::from_millis(100),
};

/// Name of a row of the table, empty if that is what its scenario is called, and the unit.
/// Less is better everywhere.
pub(crate) type Metric = (&'static str, &'static str);

/// One function a column, `None` where there is nothing to measure.
pub(crate) type Columns<R> = [Option<Box<dyn Fn() -> R>>; COLUMNS.len()];

pub(crate) enum How {
    /// Timed here, in turn with the others; the metric is nanoseconds each.
    Work(Columns<Work>),
    /// Measured in a process of its own; one figure for each metric.
    Probe(Columns<Vec<f64>>),
    /// Probe for processes of all columns at a time, since they rest.
    AtRest(Columns<Vec<f64>>),
    /// Probe that runs once, since its figure hardly changes.
    Once(Columns<Vec<f64>>),
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
    pub(crate) figures: [Option<Figure>; COLUMNS.len()],
}

#[derive(Clone, Copy)]
pub(crate) struct Figure {
    pub(crate) median: f64,
    /// True if the first, second and last third of the rounds have about the same figure.
    pub(crate) repeats: bool,
}

impl Figure {
    fn of(rounds: &[f64]) -> Option<Self> {
        let median = statistics::median(rounds.to_vec()).filter(|figure| figure.is_finite())?;
        let thirds = rounds.chunks(rounds.len().div_ceil(3));
        let off = |part: &[f64]| Some((statistics::median(part.to_vec())? - median).abs());
        let most = thirds.filter_map(off).fold(0.0, f64::max);
        Some(Self { median, repeats: most <= median.abs() * REPEATS_WITHIN })
    }
}

impl Row {
    /// Our figure as a multiple of tokio's.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let (own, tokio) = (self.figures[OURS]?.median, self.figures[TOKIO]?.median);
        (tokio > 0.0).then(|| own / tokio)
    }
}

impl Scenario {
    pub(crate) fn measure(&self, effort: Effort) -> Vec<Row> {
        let samples = match &self.how {
            How::Work(columns) => measure_work(columns, effort.works),
            How::Probe(columns) => self.measure_probes(columns, effort, effort.probes, 1),
            How::AtRest(columns) => {
                self.measure_probes(columns, effort, effort.probes, columns.len())
            }
            How::Once(columns) => self.measure_probes(columns, effort, 1, 1),
        };
        let row = |(index, &(what, unit)): (usize, &Metric)| Row {
            name: match what {
                "" => self.name.clone(),
                _ => format!("{}: {what}", self.name),
            },
            unit,
            figures: samples.each_ref().map(|rounds| {
                let figures: Vec<f64> = rounds.iter().map(|round| round[index]).collect();
                Figure::of(&figures)
            }),
        };
        self.metrics.iter().enumerate().map(row).collect()
    }

    /// So many columns at a time.
    fn measure_probes(
        &self,
        columns: &Columns<Vec<f64>>,
        effort: Effort,
        rounds: usize,
        at_a_time: usize,
    ) -> Samples {
        let mut samples = Samples::default();
        for round in 0..rounds {
            let columns: Vec<usize> = in_turn(round).filter(|at| columns[*at].is_some()).collect();
            for together in columns.chunks(at_a_time) {
                let children: Vec<_> =
                    together.iter().map(|at| (*at, self.start_child(*at, effort))).collect();
                for (column, child) in children {
                    samples[column].push(self.figures_of(column, child));
                }
            }
        }
        samples
    }

    fn start_child(&self, column: usize, effort: Effort) -> Child {
        let own_path = env::current_exe().expect("the bench knows its path");
        Command::new(own_path)
            .args([CHILD, self.name.as_str(), COLUMNS[column]])
            .args(effort.argument)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the bench can start itself")
    }

    fn figures_of(&self, column: usize, child: Child) -> Vec<f64> {
        let output = child.wait_with_output().expect("it ends");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} of {}: {error}", self.name, COLUMNS[column]);
        let figures = String::from_utf8(output.stdout).expect("it prints figures");
        let parse = |figure: &str| figure.parse().expect("it prints figures");
        let figures: Vec<f64> = figures.split_whitespace().map(parse).collect();
        assert_eq!(figures.len(), self.metrics.len(), "{}: figures", self.name);
        figures
    }
}

/// Figures by column and round, one for each metric.
type Samples = [Vec<Vec<f64>>; COLUMNS.len()];

/// The columns, beginning with another one in each round.
fn in_turn(round: usize) -> impl Iterator<Item = usize> {
    (0..COLUMNS.len()).map(move |column| (column + round) % COLUMNS.len())
}

fn measure_work(columns: &Columns<Work>, rounds: usize) -> Samples {
    let mut works = columns.each_ref().map(|column| {
        column.as_ref().map(|prepare| {
            let mut work = prepare();
            let times = calibrate(&mut work);
            (work, times)
        })
    });
    let mut samples = Samples::default();
    for round in 0..rounds {
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
    let (How::Probe(columns) | How::AtRest(columns) | How::Once(columns)) = &scenario.how else {
        panic!("{name} is no probe")
    };
    let probe = columns[column].as_ref().expect("it is measured");
    probe().iter().for_each(|figure| print!("{figure} "));
}
