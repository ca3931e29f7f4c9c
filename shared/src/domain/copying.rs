//! How far a change is copied into the memberships of a user.
//!
//! A user can have thousands of memberships. So a change is copied in steps of limited size, in the order of room ids. The
//! order is a circle: after the last membership follows the first.

use super::room::RoomId;

/// What is copied into the memberships of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copied {
    Team,
    Stats,
    /// The prediction for a match, which is copied into the rooms about the match.
    Prediction {
        event: u32,
    },
}

/// The memberships that a change is still to be copied into. `None` is the place before the first room.
///
/// Copying continues after the room `after`, to the end of the list. It then begins again at the start of the list, and
/// ends with the room `until`. If `after` is before `until`, the end of the list has been passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyProgress {
    pub after: Option<RoomId>,
    pub until: Option<RoomId>,
}

impl CopyProgress {
    /// The progress before the first step: all memberships are left.
    pub const START: Self = Self { after: None, until: None };

    /// Plans the next step. `found` has the rooms that follow `after` in the list, in order, and `is_last` says that no
    /// others follow them. Returns to how many of these rooms the change is to be copied, and the progress after that, or
    /// `None` if nothing is left.
    #[must_use]
    pub fn next_step(&self, found: &[&RoomId], is_last: bool) -> (usize, Option<Self>) {
        let is_last = is_last || found.is_empty();
        let at = |after: Option<&RoomId>| Self { after: after.cloned(), until: self.until.clone() };
        let last = found.last().copied();
        if self.after < self.until {
            let until = self.until.as_ref();
            let count = found.partition_point(|room| Some(*room) <= until);
            let is_done = is_last || count < found.len() || last == until;
            return (count, (!is_done).then(|| at(last)));
        }
        let next = match (is_last, &self.until) {
            (false, _) => Some(at(last)),
            (true, Some(_)) => Some(at(None)),
            (true, None) => None,
        };
        (found.len(), next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rooms(count: u32) -> Vec<RoomId> {
        (0..count).map(|n| RoomId::parse(&format!("!{n:03}:s")).unwrap()).collect()
    }

    /// Plays all steps of a copy. Returns the rooms in the order in which they get the change.
    fn play(all: &[RoomId], mut progress: CopyProgress, size: usize) -> Vec<RoomId> {
        let mut copied = Vec::new();
        for _ in 0..100 {
            let start = all.partition_point(|room| Some(room) <= progress.after.as_ref());
            let found: Vec<&RoomId> = all[start..].iter().take(size).collect();
            let (count, next) = progress.next_step(&found, start + found.len() == all.len());
            copied.extend(found[..count].iter().map(|room| (*room).clone()));
            match next {
                Some(next) => progress = next,
                None => return copied,
            }
        }
        panic!("copying does not end: {progress:?}");
    }

    #[test]
    fn a_copy_that_begins_at_the_start_reaches_every_room_once() {
        for (count, size) in [(0, 1), (1, 1), (7, 1), (7, 3), (6, 3), (3, 100)] {
            let all = rooms(count);
            assert_eq!(play(&all, CopyProgress::START, size), all, "{count} rooms, {size} in a step");
        }
    }

    /// A change that arrives while an earlier one is copied sets `until` to `after`.
    #[test]
    fn a_copy_that_begins_anywhere_reaches_every_room_once() {
        let all = rooms(7);
        for size in 1..=8 {
            for start in 0..7 {
                let at = Some(all[start].clone());
                let copied = play(&all, CopyProgress { after: at.clone(), until: at }, size);
                let circle: Vec<RoomId> = all[start + 1..].iter().chain(&all[..=start]).cloned().collect();
                assert_eq!(copied, circle, "from {start}, {size} in a step");
            }
        }
    }

    #[test]
    fn a_copy_ends_if_the_room_at_which_it_was_to_end_is_gone() {
        let all = rooms(7);
        let gone = RoomId::parse("!002x:s").unwrap();
        let progress = CopyProgress { after: None, until: Some(gone) };
        assert_eq!(play(&all, progress, 2), all[..3]);
    }
}
