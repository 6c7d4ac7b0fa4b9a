//! Medians and percentiles.

use std::time::Duration;

pub(crate) fn median(figures: Vec<f64>) -> Option<f64> {
    percentile(figures, 0.5)
}

/// The figure that a share of `part` is at or below.
pub(crate) fn percentile(mut figures: Vec<f64>, part: f64) -> Option<f64> {
    let last = figures.len().checked_sub(1)?;
    let at = (last as f64 * part).round() as usize;
    Some(*figures.select_nth_unstable_by(at, f64::total_cmp).1)
}

/// Percentiles of times, in microseconds.
pub(crate) fn micros<const N: usize>(times: &[Duration], parts: [f64; N]) -> [f64; N] {
    let micros: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e6).collect();
    parts.map(|part| percentile(micros.clone(), part).expect("something was timed"))
}
