//! Where our agent is not as the upstream kubelet, and why that is right.

use e2e::differences::Known;

pub(crate) const OF_PODS: &[Known] = &[];

pub(crate) const OF_CONTROLLERS: &[Known] = &[];

pub(crate) const WITHOUT_THE_API_SERVER: &[Known] = &[];
