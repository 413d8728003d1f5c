//! The order in which the containers of a pod stop.

use k8s_openapi::api::core::v1::{Container, Pod};
use podspec::view;

/// For each running container, in order, the ones that must end before it is stopped; upstream's
/// `terminationOrdering`. A sidecar waits for all regular containers and for the next sidecar of the
/// spec; a container that does not run counts as ended. Other containers do not wait.
pub fn termination_order(pod: &Pod, running: &[&str]) -> Vec<Vec<usize>> {
    let places = |name: &str| -> Vec<usize> {
        let named = running.iter().enumerate().filter(|(_, one)| **one == name);
        named.map(|(place, _)| place).collect()
    };
    let regular: Vec<usize> =
        view::containers(pod).iter().flat_map(|container| places(&container.name)).collect();
    let sidecars: Vec<&Container> =
        view::init_containers(pod).iter().filter(|init| view::is_sidecar(init)).collect();
    let mut order = vec![Vec::new(); running.len()];
    for (number, sidecar) in sidecars.iter().enumerate() {
        let next = sidecars.get(number + 1).map(|next| places(&next.name)).unwrap_or_default();
        for place in places(&sidecar.name) {
            order[place] = regular.iter().chain(&next).copied().collect();
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decide::test_pods::{container, pod, sidecar, with_inits};

    /// The running containers, and for each the ones that must end first.
    type Row<'a> = (&'a [&'a str], &'a [&'a [usize]]);

    // behaviour: ACT-64
    #[test]
    fn sidecar_stops_after_regular_containers_and_later_sidecars() {
        let pod = with_inits(
            pod("Always", vec![container("a"), container("b")]),
            vec![container("init"), sidecar("s1"), sidecar("s2"), sidecar("s3")],
        );
        let rows: &[Row<'_>] = &[
            (&["a", "b"], &[&[], &[]]),
            (&["s1", "a", "b"], &[&[1, 2], &[], &[]]),
            (&["a", "s1", "s2", "s3"], &[&[], &[0, 2], &[0, 3], &[0]]),
            (&["s1", "s2"], &[&[1], &[]]),
            // The next one does not run, so it has ended: upstream looks no further.
            (&["s1", "s3"], &[&[], &[]]),
            (&["init", "s1"], &[&[], &[]]),
            (&["unknown", "s3", "b"], &[&[], &[2], &[]]),
            (&["a", "a", "s3"], &[&[], &[], &[0, 1]]),
        ];
        for (running, expected) in rows {
            assert_eq!(termination_order(&pod, running), *expected, "{running:?}");
        }
    }

    proptest! {
        #[test]
        fn every_container_gets_its_turn_to_stop(running in proptest::collection::vec(
            proptest::sample::select(&["a", "s1", "s2", "s3", "init"][..]), 0..8,
        )) {
            let pod = with_inits(
                pod("Always", vec![container("a")]),
                vec![container("init"), sidecar("s1"), sidecar("s2"), sidecar("s3")],
            );
            let order = termination_order(&pod, &running);
            let mut ended = vec![false; running.len()];
            for _ in 0..running.len() {
                for place in 0..running.len() {
                    ended[place] |= order[place].iter().all(|before| ended[*before]);
                }
            }
            prop_assert!(ended.iter().all(|ended| *ended), "{order:?}");
        }
    }
}
