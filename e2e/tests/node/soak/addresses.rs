//! The runtime gets the pod CIDR of its node; with every kind of fault in `make soak`.

use anyhow::Result;
use e2e::faults::pod_cidr_faults;

#[test]
fn pod_cidr_reaches_a_runtime_that_hangs_at_first() -> Result<()> {
    pod_cidr_faults(&["hang"])
}
