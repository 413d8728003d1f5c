//! The contract of packet filters.

use anyhow::{Result, ensure};
use model::ports::packet_filter::{
    Addition, Family, FilterChain, FilterRule, PacketFilter, Place, Table,
};

/// Both versions of IP.
pub const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

const NEW: FilterChain = FilterChain { table: Table::Filter, name: "CONTRACT-NEW" };
const OTHER: FilterChain = FilterChain { table: Table::Mangle, name: "CONTRACT-OTHER" };
const OUTPUT: FilterChain = FilterChain { table: Table::Filter, name: "OUTPUT" };

/// Checks a packet filter without chains of the agent.
pub async fn packet_filter_contract(filter: &dyn PacketFilter, family: Family) -> Result<()> {
    let jump = FilterRule { chain: OUTPUT, place: Place::First, words: &["-j", "CONTRACT-NEW"] };
    let words = &["-m", "comment", "--comment", "two words", "-j", "DROP"];
    let drop = FilterRule { chain: NEW, place: Place::Last, words };
    let has = async |chain| filter.has_chain(family, chain).await;
    let built_in = FilterChain { table: Table::Nat, name: "POSTROUTING" };
    ensure!(has(built_in).await?, "there is no {built_in}");
    ensure!(!has(NEW).await? && !has(OTHER).await?, "not created yet");

    let additions = [NEW, OTHER].map(Addition::Chain);
    let rules = [jump, drop].map(Addition::Rule);
    filter.add(family, &[additions, rules].concat()).await?;
    ensure!(has(NEW).await? && has(OTHER).await?, "created");
    let elsewhere = FilterChain { table: Table::Mangle, ..NEW };
    ensure!(!has(elsewhere).await?, "a table has its own chains");
    ensure!(filter.has_rule(family, &jump).await? && filter.has_rule(family, &drop).await?);
    let other = FilterRule { words: &["-j", "ACCEPT"], ..drop };
    ensure!(!filter.has_rule(family, &other).await?, "the rule was not added");

    // Creating an existing chain does not flush it, and nothing else of the call is applied.
    let again = [Addition::Chain(NEW), Addition::Rule(other)];
    ensure!(filter.add(family, &again).await.is_err(), "already exists");
    ensure!(filter.has_rule(family, &drop).await?, "the rule stays");
    ensure!(!filter.has_rule(family, &other).await?, "all of a table or nothing");
    Ok(())
}
