//! Which container instances are inspected.

use std::collections::{BTreeMap, BTreeSet};

use model::observed::{Container, ContainerState};

/// How many exited instances of each container are inspected: the last one and its predecessor.
const ENDED: usize = 2;

/// The positions of the containers to inspect, in a pod's list with the newest first. Of the exited ones only
/// the newest of each name count: the status needs no older ones, and there may be very many. Containers
/// in `gone` are left out.
pub fn to_inspect(containers: &[Container], gone: &BTreeSet<usize>) -> BTreeSet<usize> {
    let mut ended: BTreeMap<&str, usize> = BTreeMap::new();
    let listed = containers.iter().enumerate().filter(|(position, _)| !gone.contains(position));
    let chosen = listed.filter(|(_, container)| {
        if container.state != ContainerState::Exited {
            return true;
        }
        let newer = ended.entry(&container.name).or_default();
        *newer += 1;
        *newer <= ENDED
    });
    chosen.map(|(position, _)| position).collect()
}

#[cfg(test)]
mod tests {
    use testkit::observed::listed_container;

    use super::*;

    #[test]
    fn newest_two_exited_per_name_and_all_others_are_inspected() {
        use ContainerState::{Created, Exited, Running, Unknown};
        let listed = [
            ("a", Created),
            ("a", Exited),
            ("b", Running),
            ("a", Unknown),
            ("b", Exited),
            ("a", Exited),
            ("a", Exited),
            ("b", Exited),
            ("a", Created),
            ("b", Exited),
            ("a", Exited),
        ]
        .map(|(name, state)| listed_container("c", name, state));
        let inspected = |gone: &[usize]| {
            let chosen = to_inspect(&listed, &gone.iter().copied().collect());
            chosen.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(inspected(&[]), [0, 1, 2, 3, 4, 5, 7, 8]);
        assert_eq!(inspected(&[1]), [0, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(inspected(&[1, 5, 7, 3]), [0, 2, 4, 6, 8, 9, 10]);
    }
}
