//! How many pods of the cluster one cycle may delete.

/// How many pods a cycle may delete, from a percentage of all pods: at least one, so that a small cluster is
/// cleaned too.
pub fn most_removals(pods: usize, percent: f64) -> usize {
    #[expect(clippy::cast_precision_loss, reason = "far fewer pods than a float can count")]
    let share = pods as f64 * percent / 100.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count"
    )]
    let most = share.max(1.0) as usize;
    most
}

/// How many more pods a cycle may delete; any number without a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowance(pub Option<usize>);

impl Allowance {
    /// How many of the `wanted` pods a pass may delete while `waiting` pods wait for later passes. Half of the
    /// rest, rounded up, is reserved for those that need it: a pass that always has work must not starve the
    /// others.
    pub fn take(&mut self, wanted: usize, waiting: usize) -> usize {
        let Some(left) = &mut self.0 else { return wanted };
        let kept = waiting.min(left.div_ceil(2));
        let taken = wanted.min(*left - kept);
        *left -= taken;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: PGC-131
    #[test]
    fn pass_leaves_half_of_the_share_to_later_passes_that_need_it() {
        // Columns: the remaining share, the wanted and the waiting pods; the granted number and the
        // new remaining share.
        let rows = [
            (None, 500, 500, 500, None),
            (Some(10), 4, 0, 4, Some(6)),
            (Some(10), 50, 0, 10, Some(0)),
            (Some(10), 50, 3, 7, Some(3)),
            (Some(10), 50, 50, 5, Some(5)),
            (Some(10), 2, 50, 2, Some(8)),
            (Some(9), 50, 50, 4, Some(5)),
            (Some(1), 50, 1, 0, Some(1)),
            (Some(0), 50, 50, 0, Some(0)),
        ];
        for (left, wanted, waiting, taken, after) in rows {
            let mut allowance = Allowance(left);
            let found = allowance.take(wanted, waiting);
            assert_eq!(
                (found, allowance),
                (taken, Allowance(after)),
                "{left:?} {wanted} {waiting}"
            );
        }
    }

    #[test]
    fn share_is_rounded_down_to_at_least_one() {
        let rows =
            [(1000, 10.0, 100), (1009, 10.0, 100), (5, 10.0, 1), (0, 10.0, 1), (200, 0.5, 1)];
        for (pods, percent, most) in rows {
            assert_eq!(most_removals(pods, percent), most, "{percent}% of {pods}");
        }
    }
}
