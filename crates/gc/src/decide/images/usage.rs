//! Disk usage.

use model::ports::disk::DiskSpace;

use crate::decide::images::Policy;

/// The usage of a disk with a capacity above 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// The measurement; available space is capped at the capacity.
    pub space: DiskSpace,
    /// The used space in percent, rounded up.
    pub percent: u32,
}

impl Usage {
    /// The usage of a disk; `None` if its capacity is 0.
    pub fn of(space: DiskSpace) -> Option<Self> {
        if space.capacity == 0 {
            return None;
        }
        let available = space.available.min(space.capacity);
        let space = DiskSpace { available, ..space };
        let free = share(available, 100, space.capacity);
        let percent = 100 - u32::try_from(free).unwrap_or(100);
        Some(Self { space, percent })
    }

    /// The usage with this much more space available.
    #[must_use]
    pub fn with(self, bytes: u64) -> Self {
        let available = self.space.available.saturating_add(bytes);
        Self::of(DiskSpace { available, ..self.space }).unwrap_or(self)
    }

    /// Whether images must be removed.
    pub fn is_too_much(&self, policy: &Policy) -> bool {
        self.percent >= policy.high_threshold
    }

    /// The available space at which removals end.
    pub fn target(&self, policy: &Policy) -> u64 {
        share(self.space.capacity, u64::from(100 - policy.low_threshold.min(100)), 100)
    }
}

/// `amount * numerator / denominator`, rounded down, without overflow.
fn share(amount: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(amount) * u128::from(numerator);
    u64::try_from(product / u128::from(denominator)).unwrap_or(u64::MAX)
}

/// A size for display.
pub fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let steps = UNITS.len().min(usize::try_from(bytes.ilog2() / 10).unwrap_or(usize::MAX));
    #[expect(clippy::cast_precision_loss, reason = "one decimal place is shown")]
    let size = bytes as f64 / (1_u64 << (10 * steps)) as f64;
    format!("{size:.1} {}", UNITS[steps - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percent(capacity: u64, available: u64) -> Option<u32> {
        Usage::of(DiskSpace { capacity, available, ..DiskSpace::default() })
            .map(|usage| usage.percent)
    }

    // behaviour: IMG-19, IMG-20
    #[test]
    fn disk_usage_percent_is_rounded_up() {
        let rows = [
            (100, 15, Some(85)),
            (10_000, 1_599, Some(85)),
            (10_000, 1_600, Some(84)),
            (100, 0, Some(100)),
            (100, 100, Some(0)),
            (100, 500, Some(0)),
            (u64::MAX, u64::MAX / 2, Some(51)),
            (0, 0, None),
            (0, 7, None),
        ];
        for (capacity, available, expected) in rows {
            assert_eq!(percent(capacity, available), expected, "{available} of {capacity}");
        }
    }

    // behaviour: IMG-33
    #[test]
    fn sizes_are_formatted_in_the_largest_unit() {
        let rows = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (1 << 20, "1.0 MiB"),
            (10 << 30, "10.0 GiB"),
            (5 << 40, "5.0 TiB"),
            (5 << 50, "5120.0 TiB"),
        ];
        for (bytes, expected) in rows {
            assert_eq!(human_size(bytes), expected);
        }
    }

    #[test]
    fn needed_space_follows_from_the_low_threshold() {
        let policy = Policy { low_threshold: 80, ..Policy::default() };
        let usage = |capacity| Usage::of(DiskSpace { capacity, ..DiskSpace::default() }).unwrap();
        assert_eq!(usage(1000).target(&policy), 200);
        assert_eq!(usage(1004).target(&policy), 200);
        assert_eq!(usage(u64::MAX).target(&policy), u64::MAX / 5);
    }
}
