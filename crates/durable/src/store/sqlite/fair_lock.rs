//! [`FairLock`]: who of one process writes next.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Lets in one after the other, in the order that they came, each until its deadline.
///
/// Between processes SQLite's lock decides. It is not fair, and has to be polled.
#[derive(Debug, Default)]
pub(super) struct FairLock {
    line: Mutex<Line>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Line {
    next: u64,
    /// The caller that is in, and behind it the waiting ones.
    places: VecDeque<u64>,
}

impl FairLock {
    /// Waits until all are out that came before; `None` if the deadline comes first.
    pub(super) fn enter(&self, deadline: Instant) -> Option<Inside<'_>> {
        let mut line = self.lock();
        let place = line.next;
        line.next += 1;
        line.places.push_back(place);
        while line.places.front() != Some(&place) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                line.places.retain(|other| *other != place);
                return None;
            }
            let waited = self.moved.wait_timeout(line, left);
            line = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(Inside { lock: self })
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to write, until it is dropped.
#[derive(Debug)]
pub(super) struct Inside<'a> {
    lock: &'a FairLock,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.lock.lock().places.pop_front();
        self.lock.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::FairLock;

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(600)
    }

    fn waiting(lock: &FairLock) -> usize {
        lock.lock().places.len()
    }

    #[test]
    fn each_is_let_in_when_it_came() {
        let (lock, (sender, entered)) = (FairLock::default(), mpsc::channel());
        thread::scope(|scope| {
            let inside = lock.enter(later());
            for n in 0..4 {
                let (lock, sender) = (&lock, sender.clone());
                scope.spawn(move || {
                    let _inside = lock.enter(later()).unwrap();
                    sender.send(n).unwrap();
                });
                while waiting(lock) < n + 2 {
                    thread::yield_now();
                }
            }
            drop(inside);
        });
        drop(sender);
        assert_eq!(entered.iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn one_that_gave_up_keeps_nobody_waiting() {
        let lock = FairLock::default();
        let inside = lock.enter(later()).unwrap();
        assert!(lock.enter(Instant::now()).is_none());
        drop(inside);
        assert!(lock.enter(Instant::now()).is_some());
        assert_eq!(waiting(&lock), 0);
    }
}
