//! Standings: who has the most points, among all users or in a tournament, ever or in a season, a month or a matchday.
//!
//! Each of these tables is a [`Board`]. The counters of a user for all boards are in one item ([`UserTally`]), and a board is
//! built from the items of all users: [`table`] sorts the rows and packs them into blocks. With many users, several processes
//! sort a part of the rows each ([`run`]), and another one merges them.

mod board;
mod place;
mod previous;
pub mod run;
pub mod table;
mod user_tally;

pub use board::{Board, Period, Scope, Span};
pub use place::{Place, Row};
pub use previous::Previous;
pub use user_tally::UserTally;
