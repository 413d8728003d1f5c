//! Accepted differences between our agent and the upstream kubelet.

use e2e::differences::KnownDifference;

const HUGE: &str = "upstream's is a defect: a missing memory limit is reported as the kernel's largest number, once the \
     pod is Running";
const OWN_FILES: &str =
    "promised in docs/gc.md, docs/resize.md and docs/standalone.md: what is ours alone is there";
const OWN_RESOURCES: &str = "promised in docs/resize.md: ours are in other files, which do not prevent a start \
     when they are damaged; upstream's are neither read nor written";
const NO_SERVER: &str =
    "upstream's is a defect: a certificate for a port that stays closed (enableServer: false)";

const NO_LIMIT: KnownDifference = KnownDifference {
    path: "/*/pod */object/status/resources/limits/memory",
    ours: "",
    upstream: "|9007199254740988Ki",
    why: HUGE,
};

const fn of_ours(path: &'static str, why: &'static str) -> KnownDifference {
    KnownDifference { path, ours: "there", upstream: "", why }
}

const fn of_upstream(path: &'static str, why: &'static str) -> KnownDifference {
    KnownDifference { path, ours: "", upstream: "there", why }
}

const DNS_AGAIN: &str = "upstream's is a defect: the event comes with each composed sandbox configuration. Each sync of the \
     pod composes one for its containers, the first sync two, without making a sandbox";
const CONDITIONS_AGAIN: &str = "upstream's is a defect: each Node object that is composed has its conditions as new, also those \
     that internal parts use before the node is registered";
const DEADLINE_AGAIN: &str = "upstream's is a defect: the event comes whenever the status of the pod is composed, from the sync \
     that ends it to the last one";

/// An event that our agent records once.
const fn repeated_upstream(path: &'static str, why: &'static str) -> KnownDifference {
    KnownDifference { path, ours: "*, once", upstream: "*, more than once", why }
}

const OFF: &str = "upstream's is a defect: the state of a manager that is off, which is to be deleted by hand before it \
     can be turned on; ours is promised in docs/configuration.md";
const NO_CLAIMS: &str = "promised in docs/configuration.md: where this file is, a kubelet has prepared claims that are \
     to be released; upstream writes one that says nothing";

/// On every node, in every scenario: the files exist once the agent has started and admitted a pod, the conditions are
/// recorded before the node is registered, and each pod with its own network has the event about name servers. Whether
/// a missing limit is reported depends on the time of the look.
pub(crate) const OF_A_NODE: &[KnownDifference] = &[
    NO_LIMIT,
    of_upstream("/the node/directories/files/root cpu_manager_state f 600 ", OFF),
    of_upstream("/the node/directories/files/root memory_manager_state f 600 ", OFF),
    of_upstream("/the node/directories/files/root dra_manager_state f 600 ", NO_CLAIMS),
    of_ours("/the node/directories/files/root ferrolet*", OWN_FILES),
    of_upstream("/the node/directories/files/root actuated_pods_state f 600 ", OWN_RESOURCES),
    of_upstream("/the node/directories/files/root allocated_pods_state f 600 ", OWN_RESOURCES),
    of_upstream("/the node/directories/files/root pki*", NO_SERVER),
    repeated_upstream("/*/pod */events/Warning MissingClusterDNS of -: *", DNS_AGAIN),
    repeated_upstream(
        "/the node/node e2e/events/Normal NodeHasSufficientMemory of -: *",
        CONDITIONS_AGAIN,
    ),
    repeated_upstream(
        "/the node/node e2e/events/Normal NodeHasNoDiskPressure of -: *",
        CONDITIONS_AGAIN,
    ),
    repeated_upstream(
        "/the node/node e2e/events/Normal NodeHasSufficientPID of -: *",
        CONDITIONS_AGAIN,
    ),
    // Only sometimes.
    KnownDifference {
        path: "/the node/node e2e/events/Normal NodeReady of -: *",
        ours: "*, once",
        upstream: "*",
        why: "upstream's is a defect: the event comes when a status is composed, and again if the status was not written, \
              or was composed from an older Node object",
    },
];

const NOT_STARTED: KnownDifference = KnownDifference {
    path: "/pods of all kinds/pod misspelt/object/status/containerStatuses/0/state/terminated/startedAt",
    ours: "null",
    upstream: "the epoch",
    why: "upstream's is a defect: what never started did so in 1970",
};

const ADDRESS: &str = "upstream's is a defect: a look at a pod that is being stopped may find its sandbox without its network, \
     and then the address of the pod is forgotten";

/// The address of a pod that has ended. Sometimes upstream does not report it.
const fn address(path: &'static str) -> KnownDifference {
    KnownDifference { path, ours: "POD-IP", upstream: "|POD-IP", why: ADDRESS }
}

/// For the scenarios with API pods.
pub(crate) const OF_PODS: &[KnownDifference] = &[
    NOT_STARTED,
    repeated_upstream(
        "/pods of all kinds/pod late/events/Normal DeadlineExceeded of -: *",
        DEADLINE_AGAIN,
    ),
    address("/deletion/pod */object/status/podIP"),
    address("/deletion/pod */object/status/podIPs/0/ip"),
    // Only sometimes.
    KnownDifference {
        path: "/a resize/pod grows/events/Normal ResizeCompleted of -: Pod resize completed: {*\"cpu\":\"100m\"*",
        ours: "",
        upstream: "*",
        why: "upstream's is a defect: a resize that has not begun is reported as complete, with the old sizes",
    },
];

/// For responses of the node's API.
pub(crate) const OF_REQUESTS: &[KnownDifference] = &[
    KnownDifference {
        path: "/*/headers/x-content-type-options",
        ours: "nosniff",
        upstream: "",
        why: "ours is safer: no client guesses the type of an answer",
    },
    KnownDifference {
        path: "/*-no-upgrade/headers/connection",
        ours: "close",
        upstream: "",
        why: "promised in docs/behaviour/streams.md (STR-6): a connection whose upgrade was refused is closed",
    },
    KnownDifference {
        path: "/containerlogs*/headers/content-type",
        ours: "text/plain; charset=utf-8",
        upstream: "",
        why: "upstream's is a defect: it sends the headers of a log before it knows its type",
    },
    KnownDifference {
        path: "/logs/headers/last-modified",
        ours: "",
        upstream: "*",
        why: "conditional requests for a list of logs have no use",
    },
];
