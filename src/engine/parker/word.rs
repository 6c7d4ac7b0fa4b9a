//! A token in one word. A thread that leaves it makes a system call only where another waits.

use std::time::Duration;

use crate::sync::{AtomicU32, Ordering};

/// There is no token, and nobody waits for one.
const EMPTY: u32 = 0;
/// There is none, and the driver waits or is about to.
const PARKED: u32 = 1;
/// There is one.
const TOKEN: u32 = 2;

/// Waits for a word to change. The models have another than the kernel's.
pub(crate) trait Wait {
    /// Waits until it is woken, if the word is `expected` by then, but no longer than `limit`. May
    /// return spuriously.
    fn wait(&self, word: &AtomicU32, expected: u32, limit: Option<Duration>);

    /// Wakes the thread that waits for the word to change.
    fn wake(&self, word: &AtomicU32);
}

/// A token that a thread leaves and another takes. Transitions, by the driver unless said:
///
/// ```text
/// EMPTY   --take-->            PARKED, and waits
/// PARKED  --take-->            EMPTY, after a wait that ended by its limit, or spuriously
/// TOKEN   --take-->            EMPTY
/// EMPTY   --leave (anyone)-->  TOKEN
/// PARKED  --leave (anyone)-->  TOKEN, and wakes
/// TOKEN   --leave (anyone)-->  TOKEN
/// ```
///
/// The word changes before the wake: a wait that begins in between finds that it has changed.
#[derive(Debug, Default)]
pub(crate) struct Token<W> {
    word: AtomicU32,
    waiting: W,
}

impl<W: Wait> Token<W> {
    /// Waits for the token, but no longer than `limit`, and takes it if it is there. May return
    /// without it. To be called by one thread at a time.
    pub(crate) fn take(&self, limit: Option<Duration>) {
        // ORDERING: Relaxed, twice; it publishes nothing, and a token that it finds is taken below.
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        if limit != Some(Duration::ZERO)
            && self.word.compare_exchange(EMPTY, PARKED, success, failure).is_ok()
        {
            self.waiting.wait(&self.word, PARKED, limit);
        }
        // ORDERING: Acquire, the partner of the Release in `leave`. Loom
        // `a_token_in_a_word_races_park`.
        self.word.swap(EMPTY, Ordering::Acquire);
    }

    /// Leaves the token, and wakes the thread that waits for it, if one does.
    pub(crate) fn leave(&self) {
        // ORDERING: Release, for the thread that takes the token. This exchange continues those
        // before it. Loom `a_token_in_a_word_races_park`.
        if self.word.swap(TOKEN, Ordering::Release) == PARKED {
            self.waiting.wake(&self.word);
        }
    }

    #[cfg(all(test, not(tourbillon_model)))]
    pub(super) fn is_left(&self) -> bool {
        // ORDERING: Relaxed; the test has one thread.
        self.word.load(Ordering::Relaxed) == TOKEN
    }
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Counts calls, and waits for nothing.
    #[derive(Debug, Default)]
    struct Counted {
        waits: Cell<u32>,
        wakes: Cell<u32>,
    }

    impl Wait for &Counted {
        fn wait(&self, word: &AtomicU32, expected: u32, _: Option<Duration>) {
            // ORDERING: Relaxed; the test has one thread.
            assert_eq!(word.load(Ordering::Relaxed), expected);
            self.waits.set(self.waits.get() + 1);
        }

        fn wake(&self, _: &AtomicU32) {
            self.wakes.set(self.wakes.get() + 1);
        }
    }

    #[test]
    fn a_token_that_nobody_waits_for_wakes_nobody() {
        let counted = Counted::default();
        let token = Token { word: AtomicU32::new(EMPTY), waiting: &counted };
        for _ in 0..3 {
            token.leave();
            token.leave();
            token.take(None);
        }
        assert_eq!((counted.waits.get(), counted.wakes.get()), (0, 0));
    }
}

#[cfg(all(test, tourbillon_model))]
mod models {
    use loom::thread;

    use super::*;
    use crate::sync::{Arc, AtomicBool, Condvar, Mutex, lock, wait};

    /// A wait as the kernel's: it compares the word under a lock that each wake takes.
    #[derive(Default)]
    struct Kernel {
        sleepers: Mutex<()>,
        woken: Condvar,
    }

    impl Wait for Kernel {
        fn wait(&self, word: &AtomicU32, expected: u32, _: Option<Duration>) {
            let sleepers = lock(&self.sleepers);
            // ORDERING: Relaxed; the lock orders it after each wake that did not find the sleeper.
            if word.load(Ordering::Relaxed) == expected {
                drop(wait(&self.woken, sleepers));
            }
        }

        fn wake(&self, _: &AtomicU32) {
            let _sleepers = lock(&self.sleepers);
            self.woken.notify_one();
        }
    }

    /// Two threads leave the token while one takes it until it knows of both. Oracles: deadlock, if
    /// a token is lost or publishes nothing; and how often the taking ends.
    #[test]
    fn a_token_in_a_word_races_park() {
        loom::model(|| {
            let token = Arc::new(Token::<Kernel>::default());
            let flags = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
            for flag in flags.clone() {
                let token = Arc::clone(&token);
                thread::spawn(move || {
                    // ORDERING: Relaxed; the token publishes it.
                    flag.store(true, Ordering::Relaxed);
                    token.leave();
                });
            }
            let mut takes = 0;
            // ORDERING: Relaxed; as above.
            while !flags.iter().all(|flag| flag.load(Ordering::Relaxed)) {
                token.take(None);
                takes += 1;
                // A wake that comes after its token was taken may end one more.
                assert!(takes <= 4, "there are two tokens");
            }
        });
    }
}
