//! Pods: change detection, taints, user namespaces, restarts.

use crate::duration::GoDuration;
use crate::setting::{settings, words};

words! {
    /// How changes of config maps and secrets are detected.
    pub enum ChangeDetectionStrategy {
        /// By a request each time.
        Get = "Get",
        /// By a request when the cached object is old.
        Cache = "Cache",
        /// By a watch.
        Watch = "Watch",
    }
}

words! {
    /// How a pod reaches itself through its service.
    pub enum HairpinMode {
        /// By a bridge in promiscuous mode.
        PromiscuousBridge = "promiscuous-bridge",
        /// By a flag on the interface.
        HairpinVeth = "hairpin-veth",
        /// Not at all.
        None = "none",
    }
}

settings! {
    /// Ids for pods with a user namespace.
    pub struct UserNamespaces {
        /// How many ids each pod gets; `None` for 65536.
        ids_per_pod: Option<i64> = "idsPerPod", absent(None);
    }
}

settings! {
    /// The back-off of failing containers.
    pub struct CrashLoopBackOff {
        /// The maximum; `None` when the feature is off.
        max_container_restart_period: Option<GoDuration> =
            "maxContainerRestartPeriod", absent(None);
    }
}

settings! {
    /// A taint of the node.
    pub struct Taint {
        /// Name, with or without a prefix.
        key: String = "key", absent(String::new());
        /// Value, often empty.
        value: String = "value", unset(String::new());
        /// What it does.
        effect: Option<TaintEffect> = "effect", unset(None);
        /// Set by the cluster; not allowed here.
        time_added: Option<String> = "timeAdded", absent(None);
    }
}

words! {
    /// What a taint does.
    pub enum TaintEffect {
        /// Keeps new pods away.
        NoSchedule = "NoSchedule",
        /// Keeps new pods away if they can go elsewhere.
        PreferNoSchedule = "PreferNoSchedule",
        /// Also drives running pods away.
        NoExecute = "NoExecute",
    }
}
