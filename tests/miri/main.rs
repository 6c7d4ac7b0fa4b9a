//! Tests of the public interface at sizes that suit Miri (`ci/miri.sh`, in the repository). The
//! asserts cost nothing: the tests are there to take every path to unsafe code, where undefined
//! behaviour is an error.

mod by_hand;
mod foreign_code;
mod queues;
mod sleeps;
mod streams;
mod support;
mod threads;
