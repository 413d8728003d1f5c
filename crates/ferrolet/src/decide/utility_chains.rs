//! Which packet filter chains and rules other programs expect of a kubelet, and which of them are missing.

use std::collections::BTreeSet;

use model::ports::packet_filter::{Addition, Family, FilterChain, FilterRule, Place, Table};

/// A built-in chain: every machine with usable tables has it.
pub(crate) const ALWAYS_THERE: FilterChain = FilterChain { table: Table::Nat, name: "POSTROUTING" };

/// A hint for other programs: which iptables backend this machine uses.
const HINT: FilterChain = FilterChain { table: Table::Mangle, name: "KUBE-IPTABLES-HINT" };

const FIREWALL: FilterChain = FilterChain { table: Table::Filter, name: "KUBE-FIREWALL" };

const INPUT: FilterChain = FilterChain { table: Table::Filter, name: "INPUT" };
const OUTPUT: FilterChain = FilterChain { table: Table::Filter, name: "OUTPUT" };

/// Canary chains: a flush of a table removes them too. The first one is checked.
pub(crate) const CANARIES: [FilterChain; 3] =
    [canary(Table::Mangle), canary(Table::Nat), canary(Table::Filter)];

const fn canary(table: Table) -> FilterChain {
    FilterChain { table, name: "KUBE-KUBELET-CANARY" }
}

const INTO_FIREWALL: &[&str] = &["-j", "KUBE-FIREWALL"];

/// With `route_localnet`, neighbours can reach services that listen on localhost. This rule drops such packets, except
/// for replies and packets that NAT redirected.
const DROP_FOREIGN_LOCALNET: &[&str] = &[
    "-m",
    "comment",
    "--comment",
    "block incoming localnet connections",
    "--dst",
    "127.0.0.0/8",
    "!",
    "--src",
    "127.0.0.0/8",
    "-m",
    "conntrack",
    "!",
    "--ctstate",
    "RELATED,ESTABLISHED,DNAT",
    "-j",
    "DROP",
];

/// The expected chains.
pub(crate) fn wanted_chains(family: Family) -> Vec<FilterChain> {
    let own = match family {
        Family::V4 => [HINT, FIREWALL].as_slice(),
        // IPv6 does not route packets to `::1` from outside.
        Family::V6 => &[HINT],
    };
    [own, &CANARIES].concat()
}

/// The expected rules.
pub(crate) fn wanted_rules(family: Family) -> Vec<FilterRule> {
    let jump = |chain| FilterRule { chain, place: Place::First, words: INTO_FIREWALL };
    match family {
        Family::V4 => {
            let drop =
                FilterRule { chain: FIREWALL, place: Place::Last, words: DROP_FOREIGN_LOCALNET };
            vec![jump(OUTPUT), jump(INPUT), drop]
        }
        Family::V6 => Vec::new(),
    }
}

/// The chains and rules that were found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FoundChains {
    pub(crate) chains: BTreeSet<FilterChain>,
    pub(crate) rules: BTreeSet<FilterRule>,
}

impl FoundChains {
    /// The rules to check: without rules in, or to, a chain that does not exist.
    pub(crate) fn rules_to_look_for(&self, family: Family) -> Vec<FilterRule> {
        if self.chains.contains(&FIREWALL) { wanted_rules(family) } else { Vec::new() }
    }

    /// The chains and rules to create, chains first.
    pub(crate) fn missing(&self, family: Family) -> Vec<Addition> {
        let chains = wanted_chains(family).into_iter().filter(|one| !self.chains.contains(one));
        let rules = wanted_rules(family).into_iter().filter(|one| !self.rules.contains(one));
        chains.map(Addition::Chain).chain(rules.map(Addition::Rule)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(additions: &[Addition]) -> Vec<String> {
        let name = |addition: &Addition| match addition {
            Addition::Chain(chain) => chain.to_string(),
            Addition::Rule(rule) => {
                let last = rule.words.last().unwrap();
                format!("{} {:?} {last}", rule.chain, rule.place)
            }
        };
        additions.iter().map(name).collect()
    }

    // behaviour: NODE-54
    #[test]
    fn only_missing_chains_and_rules_are_created() {
        let nothing = FoundChains::default();
        let chains = |all: &[FilterChain]| FoundChains {
            chains: all.iter().copied().collect(),
            rules: BTreeSet::new(),
        };
        let canaries = ["mangle", "nat", "filter"].map(|t| format!("{t} KUBE-KUBELET-CANARY"));
        let hint = ["mangle KUBE-IPTABLES-HINT".to_owned()];
        let firewall = ["filter KUBE-FIREWALL".to_owned()];
        let jumps = ["OUTPUT", "INPUT"].map(|chain| format!("filter {chain} First KUBE-FIREWALL"));
        let drop = ["filter KUBE-FIREWALL Last DROP".to_owned()];
        let (hint, firewall, drop) = (&hint[..], &firewall[..], &drop[..]);
        let (canaries, jumps) = (&canaries[..], &jumps[..]);
        let all = FoundChains {
            chains: wanted_chains(Family::V4).into_iter().collect(),
            rules: wanted_rules(Family::V4).into_iter().collect(),
        };
        let mut without_a_jump = all.clone();
        without_a_jump.rules.retain(|rule| rule.chain != INPUT);
        let rows: [(Family, FoundChains, Vec<&[String]>); 6] = [
            (Family::V4, nothing.clone(), vec![hint, firewall, canaries, jumps, drop]),
            (Family::V6, nothing, vec![hint, canaries]),
            // Another program created the chain, with its own rules.
            (Family::V4, chains(&[FIREWALL]), vec![hint, canaries, jumps, drop]),
            (Family::V6, chains(&[HINT, CANARIES[0]]), vec![&canaries[1..]]),
            (Family::V4, without_a_jump, vec![&jumps[1..]]),
            (Family::V4, all, vec![]),
        ];
        for (family, found, expected) in rows {
            assert_eq!(names(&found.missing(family)), expected.concat(), "{family} {found:?}");
        }
    }

    // behaviour: NODE-54
    #[test]
    fn rules_are_checked_only_in_existing_chains() {
        let mut found = FoundChains::default();
        assert!(found.rules_to_look_for(Family::V4).is_empty());
        found.chains.insert(FIREWALL);
        assert_eq!(found.rules_to_look_for(Family::V4), wanted_rules(Family::V4));
        assert!(found.rules_to_look_for(Family::V6).is_empty());
    }
}
