//! Lists of CPUs: `0-3,8`.

use std::collections::BTreeSet;

/// More CPUs than any machine has.
const MOST: u32 = 1 << 16;

/// How many CPUs a list names, if it is one.
pub(crate) fn cpu_count(text: &str) -> Option<usize> {
    let mut cpus = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= MOST {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_list_has_numbers_and_ranges() {
        for (text, count) in [
            ("0", Some(1)),
            ("0-3,8", Some(5)),
            ("1,1,0-1", Some(2)),
            ("", None),
            ("3-1", None),
            ("a", None),
            ("1,", None),
            ("0-4294967295", None),
        ] {
            assert_eq!(cpu_count(text), count, "{text:?}");
        }
    }
}
