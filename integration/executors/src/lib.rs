//! How a timer is turned by hand in the loop of an executor that has a reactor of its own. See the
//! examples, one for each; all of them end in assertions.
