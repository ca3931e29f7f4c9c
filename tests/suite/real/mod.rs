//! Tests against components that are not part of the repository. `tests/real-components` starts the components and runs
//! these tests; without the components they fail.

mod matrix;
mod roles;
mod sns;

/// Returns the value of a variable that `tests/real-components` sets.
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run tests/real-components"))
}
