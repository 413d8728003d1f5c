//! When all pods are gone through.

use crate::decide::housekeeping::is_due;

/// What happened since all pods were gone through.
#[derive(Debug, Default)]
pub(super) struct Passes {
    /// Whether anything was heard or found.
    stirred: bool,
    /// What the cache's version was.
    version: u64,
    /// How often it was left out.
    left_out: u32,
}

impl Passes {
    /// Something was heard or found: what the next pass finds may be new.
    pub(super) fn stir(&mut self) {
        self.stirred = true;
    }

    /// Whether it is time for a pass, with this version of the cache; then it begins.
    pub(super) fn begin(&mut self, version: u64) -> bool {
        let is_due = is_due(self.stirred || version != self.version, self.left_out);
        if is_due {
            *self = Self { stirred: false, version, left_out: 0 };
        } else {
            self.left_out += 1;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: WRK-20
    #[test]
    fn a_pass_is_left_out_while_nothing_stirs_but_not_for_ever() {
        let mut passes = Passes::default();
        let mut begins = |stirs: bool, version| {
            if stirs {
                passes.stir();
            }
            passes.begin(version)
        };
        assert!(begins(true, 0));
        assert!(begins(false, 1), "the cache changed");
        assert!(begins(true, 1), "something was heard");
        let quiet: Vec<bool> = (0..10).map(|_| begins(false, 1)).collect();
        let every_fifth = [false, false, false, false, true];
        assert_eq!(quiet, every_fifth.repeat(2));
    }
}
