//! Tests of the public interface at sizes that suit Miri (`ci/miri.sh`, in the repository). What
//! behaviour they assert costs nothing: they are there to take every path to unsafe code, where
//! undefined behaviour is an error.

mod by_hand;
mod foreign_code;
mod queues;
mod sleeps;
mod streams;
mod support;
mod threads;
