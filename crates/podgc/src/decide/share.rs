//! How much of the cluster one cycle may remove.

/// How many pods a cycle may remove when it may remove that many percent of all: at least one, so
/// that a small cluster gets clean too.
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

#[cfg(test)]
mod tests {
    use super::most_removals;

    #[test]
    fn a_share_is_rounded_down_but_never_to_nothing() {
        let rows =
            [(1000, 10.0, 100), (1009, 10.0, 100), (5, 10.0, 1), (0, 10.0, 1), (200, 0.5, 1)];
        for (pods, percent, most) in rows {
            assert_eq!(most_removals(pods, percent), most, "{percent}% of {pods}");
        }
    }
}
