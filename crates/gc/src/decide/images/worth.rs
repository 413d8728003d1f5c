//! What a removal was worth, as far as the disk shows.

use crate::decide::images::Shown;

/// Others who write less than this part of an image while it goes do not hide what it gave back.
const NOTICEABLE: u64 = 64;

/// What a removal was worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worth {
    /// So many bytes became available.
    Gained(u64),
    /// Nothing became available.
    Nothing,
    /// Others took room meanwhile, perhaps all that it gave back.
    Unclear,
}

/// What the removal of an image of that size was worth, with so much available before. A disk is
/// shared: if clearly less is available than before, another process writes, and the gain cannot be
/// measured.
pub fn worth(size: u64, before: u64, shown: Shown) -> Worth {
    let Shown { available, most } = shown;
    match most.max(available).checked_sub(before) {
        Some(gained) if gained > 0 => Worth::Gained(gained),
        _ if before.saturating_sub(available) > size / NOTICEABLE => Worth::Unclear,
        _ => Worth::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: IMG-60
    #[test]
    fn removal_is_fruitless_only_without_other_writers() {
        let rows = [
            // Size, before, now, the most since; worth.
            (640, 100, 740, 740, Worth::Gained(640)),
            (640, 100, 101, 101, Worth::Gained(1)),
            (640, 100, 100, 100, Worth::Nothing),
            // A few lines of a log.
            (640, 100, 90, 100, Worth::Nothing),
            (640, 100, 89, 100, Worth::Unclear),
            (640, 100, 0, 100, Worth::Unclear),
            // It was seen before it was taken.
            (640, 100, 50, 300, Worth::Gained(200)),
            // Nothing is left to take.
            (640, 0, 0, 0, Worth::Nothing),
            (0, 100, 100, 100, Worth::Nothing),
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
