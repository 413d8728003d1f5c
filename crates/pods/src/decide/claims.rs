//! Decides which of several manifests gets a pod name that more than one uses.

use std::collections::BTreeMap;

use model::ids::{PodName, PodUid};

/// The claim of a manifest to a pod name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The pod's name.
    pub pod: PodName,
    /// The pod's uid.
    pub uid: PodUid,
    /// Its priority: the manifest whose pod already has the name has the highest.
    pub strength: u8,
}

/// For each claim, the one that it lost its name or uid to. The highest priority wins, and of equal ones
/// the first; so a copy of a manifest never replaces an existing pod.
pub fn contest(claims: &[Claim]) -> Vec<Option<usize>> {
    let mut order: Vec<usize> = (0..claims.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(claims[*index].strength));
    let (mut names, mut uids) = (BTreeMap::new(), BTreeMap::new());
    let mut winners = vec![None; claims.len()];
    for index in order {
        let claim = &claims[index];
        let winner = names.get(&claim.pod).or_else(|| uids.get(&claim.uid)).copied();
        winners[index] = winner;
        if winner.is_none() {
            names.insert(&claim.pod, index);
            uids.insert(&claim.uid, index);
        }
    }
    winners
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn claim(name: &str, uid: &str, strength: u8) -> Claim {
        Claim { pod: PodName::new("default", name), uid: uid.into(), strength }
    }

    // behaviour: SRC-34
    #[test]
    fn strongest_claim_wins_and_first_of_equals() {
        let rows = [
            (vec![claim("x", "a", 0), claim("y", "b", 0)], vec![None, None]),
            (vec![claim("x", "a", 0), claim("x", "b", 0)], vec![None, Some(0)]),
            (vec![claim("x", "a", 0), claim("x", "b", 3)], vec![Some(1), None]),
            (vec![claim("x", "a", 1), claim("x", "b", 2)], vec![Some(1), None]),
            (vec![claim("x", "a", 0), claim("y", "a", 0)], vec![None, Some(0)]),
            (
                vec![claim("x", "a", 0), claim("x", "b", 3), claim("x", "c", 0)],
                vec![Some(1), None, Some(1)],
            ),
        ];
        for (claims, expected) in rows {
            assert_eq!(contest(&claims), expected, "{claims:?}");
        }
    }

    proptest! {
        #[test]
        fn names_and_uids_are_unique_and_only_winners_displace_claims(
            wanted in proptest::collection::vec((0u8..3, 0u8..4, 0u8..3), 0..8),
        ) {
            let claims: Vec<Claim> = wanted
                .iter()
                .map(|(name, uid, strength)| claim(&name.to_string(), &uid.to_string(), *strength))
                .collect();
            let winners = contest(&claims);
            let had: Vec<&Claim> =
                claims.iter().zip(&winners).filter(|(_, by)| by.is_none()).map(|(claim, _)| claim).collect();
            for (index, one) in had.iter().enumerate() {
                for other in &had[index + 1..] {
                    prop_assert!(one.pod != other.pod && one.uid != other.uid);
                }
            }
            for (claim, winner) in claims.iter().zip(&winners) {
                let Some(winner) = winner else { continue };
                prop_assert!(winners[*winner].is_none());
                prop_assert!(claims[*winner].strength >= claim.strength);
            }
        }
    }
}
