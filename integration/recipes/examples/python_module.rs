//! A module for Python, whose coroutines sleep in asyncio, or in any other loop of that interface.
//! `examples/python_module.py` uses it, also after a fork.

use pyo3::pymodule;

/// Functions for Python.
#[pymodule]
mod recipe {
    use std::sync::LazyLock;
    use std::time::Duration;

    use pyo3::prelude::*;
    use tourbillon::Timer;

    /// The timer of Python's tasks alone: to wake one takes the GIL, and its driver waits for that.
    static TIMER: LazyLock<Timer> =
        LazyLock::new(|| Timer::builder().build().expect("the options are valid"));

    /// Made at the import, so that no fork finds it half made.
    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        LazyLock::force(&TIMER);
        Ok(())
    }

    #[pyfunction]
    async fn sleep(seconds: f64) {
        TIMER.sleep(Duration::from_secs_f64(seconds)).await;
    }

    /// For threads: without the GIL while it waits.
    #[pyfunction]
    fn sleep_blocking(py: Python<'_>, seconds: f64) {
        py.detach(|| pollster::block_on(TIMER.sleep(Duration::from_secs_f64(seconds))));
    }

    /// Keeps the GIL until a thread without Python has slept on the process-wide timer.
    #[pyfunction]
    fn keep_gil(seconds: f64) {
        let nap = tourbillon::sleep(Duration::from_secs_f64(seconds));
        std::thread::spawn(|| pollster::block_on(nap)).join().expect("it has slept");
    }
}
