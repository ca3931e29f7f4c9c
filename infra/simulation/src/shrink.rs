use crate::world::{Plan, play};

/// Makes a failing world smaller: fewer people, fewer requests, fewer matches, fewer faults. Returns a failing plan of which
/// no smaller candidate fails. A smaller world can fail for another reason.
#[must_use]
pub fn shrink(plan: Plan) -> Plan {
    let mut smallest = plan;
    loop {
        let smaller =
            candidates(smallest).into_iter().find(|candidate| !play(*candidate, false).violations.is_empty());
        match smaller {
            Some(smaller) => smallest = smaller,
            None => return smallest,
        }
    }
}

/// Returns smaller plans: first with half of something, then with two thirds, then with three quarters.
fn candidates(plan: Plan) -> Vec<Plan> {
    let mut plans = Vec::new();
    for part in [2, 3, 4] {
        // A half, two thirds, three quarters.
        let less = |number: u32| number * (part - 1) / part;
        plans.extend([
            Plan { faults: less(plan.faults), ..plan },
            Plan { people: less(plan.people), ..plan },
            Plan { requests: less(plan.requests), ..plan },
            Plan { matches: less(plan.matches).max(1), ..plan },
        ]);
    }
    plans.retain(|smaller| *smaller != plan);
    plans.dedup();
    plans
}
