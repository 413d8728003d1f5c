//! A packet filter in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use model::ports::packet_filter::{
    Addition, Family, FilterChain, FilterError, FilterRule, PacketFilter, Place, Table,
};

/// The relevant chains that every machine has.
const BUILT_IN: [FilterChain; 3] = [
    FilterChain { table: Table::Filter, name: "INPUT" },
    FilterChain { table: Table::Filter, name: "OUTPUT" },
    FilterChain { table: Table::Nat, name: "POSTROUTING" },
];

/// The rules of a chain.
type Rules = Vec<&'static [&'static str]>;

/// A packet filter that a test inspects and injects faults into.
#[derive(Debug)]
pub struct MemoryPacketFilter {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    chains: BTreeMap<(Family, FilterChain), Rules>,
    broken: BTreeSet<Family>,
    missing: BTreeSet<Family>,
    calls: usize,
}

impl Default for MemoryPacketFilter {
    fn default() -> Self {
        let families = [Family::V4, Family::V6];
        let built_in = families.iter().flat_map(|family| BUILT_IN.map(|chain| (*family, chain)));
        let chains = built_in.map(|key| (key, Rules::new())).collect();
        let (broken, missing) = (BTreeSet::new(), BTreeSet::new());
        Self { state: Mutex::new(State { chains, broken, missing, calls: 0 }) }
    }
}

impl MemoryPacketFilter {
    /// Flushes a table, as another program would.
    pub fn flush(&self, family: Family, table: Table) {
        let mut state = self.state();
        state.chains.retain(|(of, chain), rules| {
            let is_flushed = (*of, chain.table) == (family, table);
            if is_flushed {
                rules.clear();
            }
            !is_flushed || BUILT_IN.contains(chain)
        });
    }

    /// Makes creations for this IP version fail, or work again.
    pub fn set_broken(&self, family: Family, broken: bool) {
        let all = &mut self.state().broken;
        _ = if broken { all.insert(family) } else { all.remove(&family) };
    }

    /// Removes the program for this IP version.
    pub fn remove_program(&self, family: Family) {
        self.state().missing.insert(family);
    }

    /// All chains and rules except those of every machine: `table chain`, followed by each rule.
    pub fn listed(&self, family: Family) -> Vec<String> {
        let state = self.state();
        let of_family = state.chains.iter().filter(|((of, _), _)| *of == family);
        let mut lines = Vec::new();
        for ((_, chain), rules) in of_family {
            if !BUILT_IN.contains(chain) {
                lines.push(chain.to_string());
            }
            lines.extend(rules.iter().map(|words| format!("{chain} {}", words.join(" "))));
        }
        lines
    }

    /// The number of calls.
    pub fn calls(&self) -> usize {
        self.state().calls
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state_of(&self, family: Family) -> Result<MutexGuard<'_, State>, FilterError> {
        let mut state = self.state();
        state.calls += 1;
        if state.missing.contains(&family) {
            return Err(FilterError::NoProgram { program: "iptables" });
        }
        Ok(state)
    }
}

fn failed(why: &str) -> FilterError {
    FilterError::Failed { program: "iptables", why: why.to_owned() }
}

#[async_trait]
impl PacketFilter for MemoryPacketFilter {
    async fn has_chain(&self, family: Family, chain: FilterChain) -> Result<bool, FilterError> {
        Ok(self.state_of(family)?.chains.contains_key(&(family, chain)))
    }

    async fn has_rule(&self, family: Family, rule: &FilterRule) -> Result<bool, FilterError> {
        let state = self.state_of(family)?;
        let rules = state.chains.get(&(family, rule.chain));
        Ok(rules.is_some_and(|rules| rules.contains(&rule.words)))
    }

    async fn add(&self, family: Family, additions: &[Addition]) -> Result<(), FilterError> {
        let mut state = self.state_of(family)?;
        if state.broken.contains(&family) {
            return Err(failed("out of order"));
        }
        let mut chains = state.chains.clone();
        for addition in additions {
            match addition {
                Addition::Chain(chain) => {
                    if chains.insert((family, *chain), Rules::new()).is_some() {
                        return Err(failed("chain already exists"));
                    }
                }
                Addition::Rule(FilterRule { chain, place, words }) => {
                    let Some(rules) = chains.get_mut(&(family, *chain)) else {
                        return Err(failed("no such chain"));
                    };
                    match place {
                        Place::First => rules.insert(0, words),
                        Place::Last => rules.push(words),
                    }
                }
            }
        }
        state.chains = chains;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::packet_filter::{FAMILIES, packet_filter_contract};

    #[tokio::test]
    async fn memory_adapter_passes_the_contract() {
        let filter = MemoryPacketFilter::default();
        for family in FAMILIES {
            packet_filter_contract(&filter, family).await.unwrap();
        }
        filter.flush(Family::V4, Table::Filter);
        assert_eq!(filter.listed(Family::V4), ["mangle CONTRACT-OTHER"]);
        assert_eq!(filter.listed(Family::V6).len(), 4);
        filter.remove_program(Family::V6);
        assert!(filter.has_chain(Family::V6, BUILT_IN[0]).await.is_err());
    }
}
