//! Shortens a history that breaks an invariant: irrelevant parts are left out.

use crate::plan::{Plan, Step};
use crate::run::{Failure, run};

/// The limit of tried histories.
const TRIES: usize = 250;

/// The shortest found plan whose history breaks the same invariant, with its failure. `None` if the plan's own
/// history succeeds.
pub fn shrink(plan: &Plan) -> Option<(Plan, Box<Failure>)> {
    let mut failure = run(plan).err()?;
    let steps = shortest(plan.steps.clone(), TRIES, |steps| {
        let shorter = Plan { steps: steps.to_vec(), ..plan.clone() };
        match run(&shorter) {
            Err(other) if other.broken.invariant == failure.broken.invariant => {
                failure = other;
                true
            }
            _ => false,
        }
    });
    Some((Plan { steps, ..plan.clone() }, failure))
}

/// Leaves out as much as possible, in ever smaller pieces, while the history still fails.
fn shortest(
    mut steps: Vec<Step>,
    tries: usize,
    mut fails: impl FnMut(&[Step]) -> bool,
) -> Vec<Step> {
    let mut left = tries;
    let mut size = steps.len().div_ceil(2);
    loop {
        let mut start = 0;
        let mut gained = false;
        while start < steps.len() && left > 0 {
            let end = (start + size).min(steps.len());
            let shorter = [&steps[..start], &steps[end..]].concat();
            left -= 1;
            if fails(&shorter) {
                steps = shorter;
                gained = true;
            } else {
                start = end;
            }
        }
        if left == 0 || (size == 1 && !gained) {
            return steps;
        }
        size = size.div_ceil(2);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::plan::ActionKind;

    #[test]
    fn shrinking_leaves_out_irrelevant_actions() {
        let step =
            |second| Step { at: Duration::from_secs(second), what: ActionKind::RestartAgent };
        let steps: Vec<Step> = (0..40).map(step).collect();
        let has = |steps: &[Step], second| steps.iter().any(|step| step.at.as_secs() == second);
        let mut tried = 0;
        let left = shortest(steps.clone(), 200, |steps| {
            tried += 1;
            has(steps, 7) && has(steps, 31)
        });
        let seconds: Vec<u64> = left.iter().map(|step| step.at.as_secs()).collect();
        assert_eq!(seconds, [7, 31]);
        assert!(tried <= 200);
        assert_eq!(shortest(steps, 3, |_| false).len(), 40);
    }
}
