//! Empty: the tests are all.
