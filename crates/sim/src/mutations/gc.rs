//! Mutations of garbage collection.

use super::Mutation;

/// All mutations.
pub const GC: &[Mutation] = &[
    Mutation {
        name: "a running container is collected",
        file: "crates/gc/src/decide/containers.rs",
        find: "        (ContainerState::Running, _) => Some((\"running\", Detail::default())),\n",
        replace: "",
    },
    Mutation {
        name: "objects of a returned pod are removed",
        file: "crates/gc/src/decide.rs",
        find: "        \"pod-is-gone\" | \"pod-deleted\" | \"pod-evicted\" => state.content_removable().is_some(),\n",
        replace: "        \"pod-is-gone\" | \"pod-deleted\" | \"pod-evicted\" => true,\n",
    },
    Mutation {
        name: "an image that a pod is about to use is removed",
        file: "crates/gc/src/decide/images/candidates.rs",
        find: ".find(|name| claimed.contains(*name))",
        replace: ".find(|name| claimed.contains(*name) && name.is_empty())",
    },
    Mutation {
        name: "an image of a static pod is removed although those are kept",
        file: "crates/gc/src/decide/images/candidates.rs",
        find: "image.names.iter().chain([&image.key.id]).find_map(|name| of_pods.get(name));",
        replace: "image.names.iter().filter(|name| name.is_empty()).find_map(|name| of_pods.get(name));",
    },
    Mutation {
        name: "the newest instance of a container is removed instead of the oldest",
        file: "crates/gc/src/decide/containers.rs",
        find: "        Reverse((*attempt, self.since, id.clone()))",
        replace: "        (*attempt, self.since, id.clone())",
    },
    Mutation {
        name: "the newest containers of the node are removed instead of the oldest",
        file: "crates/gc/src/decide/containers.rs",
        find: "        Reverse((self.since, *attempt, id.clone()))",
        replace: "        (self.since, *attempt, id.clone())",
    },
    Mutation {
        name: "the node cap is off by one",
        file: "crates/gc/src/decide/containers.rs",
        find: "pool.into_iter().enumerate().skip(cap)",
        replace: "pool.into_iter().enumerate().skip(cap + 1)",
    },
    Mutation {
        name: "containers below the minimum age are removed",
        file: "crates/gc/src/decide/containers.rs",
        find: "    least.is_zero() || now",
        replace: "    least == least || now",
    },
    Mutation {
        name: "the death of the newest instance removes it together with the older ones",
        file: "crates/gc/src/decide/deletor.rs",
        find: "    per_container.unwrap_or(1).max(1)",
        replace: "    per_container.unwrap_or(1).min(0)",
    },
    Mutation {
        name: "objects are removed before all sources are ready",
        file: "crates/ferrolet/src/pod_index.rs",
        find: "            None if intake.complete => PodState::Gone,\n",
        replace: "            None if intake.complete || !intake.sources_ready => PodState::Gone,\n",
    },
    Mutation {
        name: "the logs of an ended pod that still exists are removed",
        file: "crates/model/src/pod_state.rs",
        find: "            other => other.content_removable(),\n",
        replace: "            other => other.content_removable().or(other.runtime_removable()),\n",
    },
    Mutation {
        name: "logs of removed pods stay",
        file: "crates/gc/src/decide/logs.rs",
        find: "            (Some(rule), _) => (Fate::Remove, rule),",
        replace: "            (Some(rule), _) => (Fate::Keep, rule),",
    },
];
