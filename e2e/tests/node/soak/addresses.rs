//! The runtime hears which addresses the pods of its node have; with every kind of fault in `make soak`.

use anyhow::Result;
use e2e::faults::pod_cidr_faults;

#[test]
fn the_runtime_hears_of_the_addresses_of_pods_though_it_did_not_answer_at_first() -> Result<()> {
    pod_cidr_faults(&["hang"])
}
