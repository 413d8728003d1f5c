//! Mutations of the Pod GC controller. They are found by tests of its own crate, and of the adapter of the API
//! server.

use super::Mutation;

/// The tests that must find them: crate and test target.
pub const TESTS: &[(&str, &str)] =
    &[("podgc", "histories"), ("podgc", "leaders"), ("cluster", "writes")];

/// All mutations.
pub const POD_GC: &[Mutation] = &[
    Mutation {
        name: "a pod is deleted without a UID precondition",
        file: "crates/cluster/src/pods.rs",
        find: r#"let mut preconditions = json!({ "uid": pod.uid.to_string() });"#,
        replace: "let mut preconditions = json!({});",
    },
    Mutation {
        name: "a pod is marked without a version precondition",
        file: "crates/cluster/src/pods.rs",
        find: r#"metadata["resourceVersion"] = version.to_string().into();"#,
        replace: "let _ = version;",
    },
    Mutation {
        name: "a pod is deleted without a version precondition",
        file: "crates/podgc/src/cache.rs",
        find: "version: slot.version,",
        replace: "version: model::cluster::Version(None),",
    },
    Mutation {
        name: "the quarantine of a node ends with the next cycle",
        file: "crates/podgc/src/decide/quarantine.rs",
        find: "Some(wait) if wait.until > now => *wait,",
        replace: "Some(wait) if wait.until > now + QUARANTINE => *wait,",
    },
    Mutation {
        name: "the quarantine continues although the node came back",
        file: "crates/podgc/src/decide/quarantine.rs",
        find: "let before = std::mem::take(&mut self.waiting);",
        replace: "let before = self.waiting.clone();",
    },
    Mutation {
        name: "one terminated pod too many is kept",
        file: "crates/podgc/src/decide/terminated.rs",
        find: "terminated.saturating_sub(threshold);",
        replace: "terminated.saturating_sub(threshold + 1);",
    },
    Mutation {
        name: "one terminated pod too many is removed",
        file: "crates/podgc/src/decide/terminated.rs",
        find: "terminated.saturating_sub(threshold);",
        replace: "terminated.saturating_sub(threshold - 1);",
    },
    Mutation {
        name: "evicted pods are removed last",
        file: "crates/podgc/src/cache.rs",
        find: "(!slot.evicted, time, at)",
        replace: "(slot.evicted, time, at)",
    },
    Mutation {
        name: "pods of an unfinished relist are counted",
        file: "crates/podgc/src/cache/relist.rs",
        find: "self.relist = self.is_listed.then(Relist::new);",
        replace: "self.relist = self.is_listed.then(Relist::new).filter(|_| false);",
    },
    Mutation {
        name: "a node missing in the cache counts as deleted although the API server has it",
        file: "crates/podgc/src/task.rs",
        find: r#"Ok(Some(_)) => debug!(node = name, "Node exists that the cache does not have"),"#,
        replace: "Ok(Some(_)) => drop(gone.insert(name, missing_for)),",
    },
    Mutation {
        name: "a node counts as out of service by the cache alone",
        file: "crates/podgc/src/task.rs",
        find: "Ok(Some(node)) if is_out_of_service(&node) => drop(proven.insert(name)),",
        replace: "Ok(Some(_)) => drop(proven.insert(name)),",
    },
    Mutation {
        name: "a pod that could not be marked as failed is deleted",
        file: "crates/podgc/src/act.rs",
        find: "None => self.pods.fail_pod(&chosen.target, &status).await?,",
        replace: "None => self.pods.fail_pod(&chosen.target, &status).await.unwrap_or(before),",
    },
    Mutation {
        name: "a leader continues after its lease has expired",
        file: "crates/podgc/src/decide/election.rs",
        find: "renewed + self.policy.renew_deadline",
        replace: "renewed + self.policy.lease_duration * 4",
    },
    Mutation {
        name: "a valid lease is taken over",
        file: "crates/podgc/src/decide/election.rs",
        find: "since + held.duration > now",
        replace: "since > now",
    },
];
