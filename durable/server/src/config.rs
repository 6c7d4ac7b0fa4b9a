//! What an operator sets: flags, environment, a file.
