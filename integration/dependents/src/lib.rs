//! Nothing but the tests beside it: crates that use futures-timer, on tourbillon's timers.
