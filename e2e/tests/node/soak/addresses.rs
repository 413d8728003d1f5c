//! The runtime hears which addresses the pods of its node have; with every kind of fault in `make soak`.

use anyhow::Result;
use e2e::faults::told_of_addresses;

#[test]
fn the_runtime_hears_of_the_addresses_of_pods_though_it_did_not_answer_at_first() -> Result<()> {
    told_of_addresses(&["hang"])
}
