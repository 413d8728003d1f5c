//! The OOM score of the agent.

use std::{fs, io};

const OWN: &str = "/proc/self/oom_score_adj";

/// Sets the OOM score adjustment of the agent, from -1000 (never killed) to 1000. Lowering it needs a
/// privilege.
pub fn set_oom_score_adj(adjust: i32) -> io::Result<()> {
    fs::write(OWN, adjust.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oom_score_is_written_and_invalid_values_are_refused() {
        let own = || fs::read_to_string(OWN).unwrap().trim().parse::<i32>().unwrap();
        let before = own();
        // Raising it is always allowed, and so is returning to the old value.
        for adjust in [1000, before] {
            set_oom_score_adj(adjust).unwrap();
            assert_eq!(own(), adjust);
        }
        assert_eq!(set_oom_score_adj(1001).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(own(), before);
    }
}
