//! The space gained by a removal, as measured on the disk.

use crate::decide::images::Shown;

/// If other processes write less than this fraction of an image during its removal, the gain is still visible.
const NOTICEABLE: u64 = 64;

/// The gain of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovalGain {
    /// Bytes that became available.
    Gained(u64),
    /// Nothing became available.
    Nothing,
    /// Other processes used space meanwhile, perhaps all that the removal freed.
    Unclear,
}

/// The gain from the removal of an image of this size, with `before` bytes available before. A disk is shared:
/// if clearly less is available than before, another process writes, and the gain cannot be measured.
pub fn worth(size: u64, before: u64, shown: Shown) -> RemovalGain {
    let Shown { available, most } = shown;
    match most.max(available).checked_sub(before) {
        Some(gained) if gained > 0 => RemovalGain::Gained(gained),
        _ if before.saturating_sub(available) > size / NOTICEABLE => RemovalGain::Unclear,
        _ => RemovalGain::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: IMG-60
    #[test]
    fn removal_is_fruitless_only_without_other_writers() {
        let rows = [
            // Size, available before, available now, largest since; gain.
            (640, 100, 740, 740, RemovalGain::Gained(640)),
            (640, 100, 101, 101, RemovalGain::Gained(1)),
            (640, 100, 100, 100, RemovalGain::Nothing),
            // A few lines of a log.
            (640, 100, 90, 100, RemovalGain::Nothing),
            (640, 100, 89, 100, RemovalGain::Unclear),
            (640, 100, 0, 100, RemovalGain::Unclear),
            // The gain was measured before another process used it.
            (640, 100, 50, 300, RemovalGain::Gained(200)),
            // No space is left.
            (640, 0, 0, 0, RemovalGain::Nothing),
            (0, 100, 100, 100, RemovalGain::Nothing),
        ];
        for (size, before, available, most, expected) in rows {
            assert_eq!(
                worth(size, before, Shown { available, most }),
                expected,
                "{available} {most}"
            );
        }
    }
}
