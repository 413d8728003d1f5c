//! When housekeeping compares all pods.

/// How many passes in a row may be skipped.
const MOST_SKIPPED: u32 = 4;

/// Skips passes of housekeeping that would find the same as the last one. It skips few in a row: a missed event
/// is repaired by the next pass.
#[derive(Debug, Default)]
pub struct Passes {
    /// Whether there was an event since the last pass.
    active: bool,
    /// The version of the runtime cache in the last pass.
    version: u64,
    skipped: u32,
}

impl Passes {
    /// There was an event: the next pass may find something.
    pub fn mark_active(&mut self) {
        self.active = true;
    }

    /// Whether a pass is due with this version of the runtime cache; then it begins.
    pub fn begin(&mut self, version: u64) -> bool {
        let is_due = self.active || version != self.version || self.skipped >= MOST_SKIPPED;
        if is_due {
            *self = Self { active: false, version, skipped: 0 };
        } else {
            self.skipped += 1;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: WRK-20
    #[test]
    fn idle_passes_are_skipped_except_every_fifth() {
        let mut passes = Passes::default();
        let mut begins = |is_active: bool, version| {
            if is_active {
                passes.mark_active();
            }
            passes.begin(version)
        };
        assert!(begins(true, 0));
        assert!(begins(false, 1), "the cache changed");
        assert!(begins(true, 1), "there was an event");
        let quiet: Vec<bool> = (0..10).map(|_| begins(false, 1)).collect();
        let every_fifth = [false, false, false, false, true];
        assert_eq!(quiet, every_fifth.repeat(2));
    }
}
