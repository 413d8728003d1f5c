//! Faults of garbage collection.

use super::Mutation;

/// All of them.
pub const GC: &[Mutation] = &[
    Mutation {
        name: "a container that runs is collected",
        file: "crates/gc/src/decide/containers.rs",
        find: "        (ContainerState::Running, _) => Some((\"running\", Detail::default())),\n",
        replace: "",
    },
    Mutation {
        name: "what is left of a pod goes although the pod has come back",
        file: "crates/gc/src/decide.rs",
        find: "        \"pod-is-gone\" | \"pod-deleted\" | \"pod-evicted\" => state.content_removable().is_some(),\n",
        replace: "        \"pod-is-gone\" | \"pod-deleted\" | \"pod-evicted\" => true,\n",
    },
    Mutation {
        name: "an image goes that somebody is about to use",
        file: "crates/gc/src/decide/images/candidates.rs",
        find: ".find(|name| claimed.contains(*name))",
        replace: ".find(|name| claimed.contains(*name) && name.is_empty())",
    },
    Mutation {
        name: "an image of a static pod goes although those are kept",
        file: "crates/gc/src/decide/images/candidates.rs",
        find: "image.names.iter().chain([&image.key.id]).find_map(|name| of_pods.get(name));",
        replace: "image.names.iter().filter(|name| name.is_empty()).find_map(|name| of_pods.get(name));",
    },
    Mutation {
        name: "the newest of a container goes, and the oldest stays",
        file: "crates/gc/src/decide/containers.rs",
        find: "        Reverse((*attempt, self.since, id.clone()))",
        replace: "        (*attempt, self.since, id.clone())",
    },
    Mutation {
        name: "the newest of all go, and the oldest stay",
        file: "crates/gc/src/decide/containers.rs",
        find: "        Reverse((self.since, *attempt, id.clone()))",
        replace: "        (self.since, *attempt, id.clone())",
    },
    Mutation {
        name: "one dead container of a node too many stays",
        file: "crates/gc/src/decide/containers.rs",
        find: "pool.into_iter().enumerate().skip(cap)",
        replace: "pool.into_iter().enumerate().skip(cap + 1)",
    },
    Mutation {
        name: "what is too young goes",
        file: "crates/gc/src/decide/containers.rs",
        find: "    least.is_zero() || now",
        replace: "    least == least || now",
    },
    Mutation {
        name: "the death of the newest takes all that are older than it, and itself",
        file: "crates/gc/src/decide/deletor.rs",
        find: "    per_container.unwrap_or(1).max(1)",
        replace: "    per_container.unwrap_or(1).min(0)",
    },
    Mutation {
        name: "what is left of a pod goes before all sources were heard",
        file: "crates/ferrolet/src/pod_index.rs",
        find: "            None if intake.complete => PodState::Gone,\n",
        replace: "            None if intake.complete || !intake.sources_ready => PodState::Gone,\n",
    },
    Mutation {
        name: "the logs of a pod go that has ended and still exists",
        file: "crates/model/src/pod_state.rs",
        find: "            other => other.content_removable(),\n",
        replace: "            other => other.content_removable().or(other.runtime_removable()),\n",
    },
    Mutation {
        name: "logs of pods that are gone stay",
        file: "crates/gc/src/decide/logs.rs",
        find: "            (Some(rule), _) => (Fate::Remove, rule),",
        replace: "            (Some(rule), _) => (Fate::Keep, rule),",
    },
];
