//! The lines that the stack prints for the developer.

use std::fmt::Display;
use std::io::{Write as _, stdout};

/// Prints a line. Ignores that nobody reads it any more, as in `cargo run | head`.
pub fn line(line: impl Display) {
    let _ = writeln!(stdout(), "{line}");
}
