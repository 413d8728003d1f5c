//! The node lease.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use model::ports::node_api::NODE_LEASES;

/// The holder and duration of the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseTerms {
    /// The node's name, which is also the lease's name.
    pub node: String,
    /// How long the lease is valid.
    pub duration: Duration,
}

impl LeaseTerms {
    /// The renewal interval: a quarter of the lease duration.
    pub fn renew_interval(&self) -> Duration {
        self.duration / 4
    }

    /// A new lease of the node with this uid.
    pub fn make(&self, node_uid: &str, now: Timestamp) -> Lease {
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(self.node.clone()),
                namespace: Some(NODE_LEASES.to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.node.clone()),
                ..LeaseSpec::default()
            }),
        };
        self.renew(lease, Some(node_uid), now)
    }

    /// Renews the lease. If it has no owner, or an earlier node of that name, the node becomes its
    /// owner if its uid is known: otherwise it would be garbage collected.
    pub fn renew(&self, mut lease: Lease, node_uid: Option<&str>, now: Timestamp) -> Lease {
        let spec = lease.spec.get_or_insert_default();
        spec.lease_duration_seconds = i32::try_from(self.duration.as_secs()).ok();
        // With the precision of the API.
        let now = Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now);
        spec.renew_time = Some(MicroTime(now));
        if let Some(uid) = node_uid {
            let owners = lease.metadata.owner_references.get_or_insert_default();
            let is_node = |owner: &OwnerReference| owner.kind == "Node" && owner.name == self.node;
            if owners.is_empty() {
                owners.push(self.owner(uid));
            } else if let Some(owner) = owners.iter_mut().find(|owner| is_node(owner)) {
                uid.clone_into(&mut owner.uid);
            }
        }
        lease
    }

    fn owner(&self, uid: &str) -> OwnerReference {
        OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: self.node.clone(),
            uid: uid.to_owned(),
            ..OwnerReference::default()
        }
    }
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
