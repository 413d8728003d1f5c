//! Converts millicores to the units of the kernel.

/// Shares of one CPU, and the minimum and maximum of the kernel.
const SHARES_PER_CPU: i64 = 1024;
/// The minimum of shares, which is that of a pod without a CPU request.
pub const LEAST_SHARES: u64 = 2;
const MOST_SHARES: u64 = 262_144;

/// The maximum of the CPU weight of cgroup v2; the minimum is 1.
const MOST_WEIGHT: u64 = 10_000;

/// The shortest quota that the kernel accepts, in microseconds.
const LEAST_QUOTA: i64 = 1000;

/// Shares for millicores.
pub fn shares(milli: i64) -> u64 {
    let shares = milli.max(0).saturating_mul(SHARES_PER_CPU) / 1000;
    shares.unsigned_abs().clamp(LEAST_SHARES, MOST_SHARES)
}

/// The quota in microseconds per period; 0 for no limit.
pub fn quota(milli: i64, period: i64) -> i64 {
    if milli == 0 {
        return 0;
    }
    (milli.saturating_mul(period) / 1000).max(LEAST_QUOTA)
}

/// The millicores of these shares.
pub fn milli_of_shares(shares: i64) -> i64 {
    if shares < LEAST_SHARES.cast_signed() {
        return 0;
    }
    let milli = shares.saturating_mul(1000);
    milli / SHARES_PER_CPU + i64::from(milli % SHARES_PER_CPU != 0)
}

/// The millicores of a quota per period; 0 for no limit.
pub fn milli_of_quota(quota: i64, period: i64) -> i64 {
    if quota <= 0 || period <= 0 {
        return 0;
    }
    quota.saturating_mul(1000) / period
}

/// The CPU weight of cgroup v2 for these shares.
pub fn weight(shares: u64) -> u64 {
    if shares >= MOST_SHARES {
        return MOST_WEIGHT;
    }
    1 + shares.saturating_sub(LEAST_SHARES) * (MOST_WEIGHT - 1) / (MOST_SHARES - LEAST_SHARES)
}

/// The shares of a CPU weight: the fewest with this weight.
pub fn shares_of_weight(weight: u64) -> u64 {
    let above = weight.clamp(1, MOST_WEIGHT) - 1;
    LEAST_SHARES + (above * (MOST_SHARES - LEAST_SHARES)).div_ceil(MOST_WEIGHT - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn millicores_become_shares_and_weights() {
        let rows = [
            (0, 2, 1),
            (1, 2, 1),
            (2, 2, 1),
            (3, 3, 1),
            (100, 102, 4),
            (250, 256, 10),
            (500, 512, 20),
            (1000, 1024, 39),
            (1500, 1536, 59),
            (4000, 4096, 157),
            (255_999, 262_142, 9999),
            (256_000, 262_144, 10_000),
            (1_000_000, 262_144, 10_000),
            (i64::MAX, 262_144, 10_000),
            (-5, 2, 1),
        ];
        for (milli, expected, expected_weight) in rows {
            assert_eq!(shares(milli), expected, "{milli}");
            assert_eq!(weight(expected), expected_weight, "{milli}");
        }
        assert_eq!(weight(0), 1);
    }

    #[test]
    fn millicores_become_a_quota_of_a_period() {
        let rows = [
            (0, 100_000, 0),
            (1, 100_000, 1000),
            (9, 100_000, 1000),
            (10, 100_000, 1000),
            (11, 100_000, 1100),
            (200, 100_000, 20_000),
            (500, 100_000, 50_000),
            (1000, 100_000, 100_000),
            (1500, 100_000, 150_000),
            (200, 10_000, 2000),
            (100, 10_000, 1000),
        ];
        for (milli, period, expected) in rows {
            assert_eq!(quota(milli, period), expected, "{milli} of {period}");
        }
    }

    proptest! {
        #[test]
        fn shares_grow_with_the_request(a in 0_i64..400_000, b in 0_i64..400_000) {
            let (less, more) = (a.min(b), a.max(b));
            prop_assert!(shares(less) <= shares(more));
            prop_assert!(weight(shares(less)) <= weight(shares(more)));
            prop_assert!((1..=MOST_WEIGHT).contains(&weight(shares(a))));
            prop_assert!(quota(less, 100_000) <= quota(more, 100_000));
        }

        #[test]
        fn weight_converts_back_to_shares_with_that_weight(weight in 1..=MOST_WEIGHT) {
            prop_assert_eq!(super::weight(shares_of_weight(weight)), weight);
        }

        #[test]
        fn shares_and_quotas_convert_back_to_millicores(milli in 10_i64..256_000) {
            prop_assert_eq!(milli_of_shares(shares(milli).cast_signed()), milli);
            prop_assert_eq!(milli_of_quota(quota(milli, 100_000), 100_000), milli);
        }
    }
}
