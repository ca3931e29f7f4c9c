//! For the tests of the functions: an app on a real store, with a clock that obeys, randomness that
//! repeats, a phone that can be read, and faults on demand.

mod app;
mod clock;
mod faults;
mod random;
mod sns;

pub use app::{Answer, Builder, TestApp};
pub use clock::TestClock;
pub use faults::{Fault, Faults};
pub use random::SeededRandom;
pub use sns::SnsStandIn;
