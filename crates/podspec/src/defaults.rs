//! The API's defaults of fields that are not set.
//!
//! An empty string counts as not set, as everywhere in the API. Setting defaults is
//! idempotent.

mod container;
mod resources;
mod volume;

use k8s_openapi::api::core::v1::{Pod, PodSpec};

use crate::ephemeral;

/// Default of `terminationGracePeriodSeconds`.
const TERMINATION_GRACE_PERIOD_SECONDS: i64 = 30;

/// Sets the default of every field that is not set.
pub fn set_defaults(pod: &mut Pod) {
    let spec = pod.spec.get_or_insert_default();
    pod_fields(spec);
    for volume in spec.volumes.iter_mut().flatten() {
        volume::set_defaults(volume);
    }
    for container in containers_mut(spec) {
        container::set_defaults(container);
        resources::set_container_defaults(container);
    }
    for slot in spec.ephemeral_containers.iter_mut().flatten() {
        let mut ephemeral = std::mem::take(slot);
        let target = ephemeral.target_container_name.take();
        let mut container = ephemeral::to_container(ephemeral);
        container::set_defaults(&mut container);
        *slot = ephemeral::from_container(container, target);
    }
    resources::set_pod_defaults(spec);
    if spec.host_network == Some(true) {
        for port in containers_mut(spec).flat_map(|c| c.ports.iter_mut().flatten()) {
            set_if(&mut port.host_port, |port| *port == 0, port.container_port);
        }
    }
}

fn pod_fields(spec: &mut PodSpec) {
    set_word(&mut spec.dns_policy, "ClusterFirst");
    set_word(&mut spec.restart_policy, "Always");
    set_word(&mut spec.scheduler_name, "default-scheduler");
    spec.security_context.get_or_insert_default();
    spec.enable_service_links.get_or_insert(true);
    // A negative value is raised to the minimum, like upstream, and is not an error.
    let grace = &mut spec.termination_grace_period_seconds;
    *grace = Some(match *grace {
        None => TERMINATION_GRACE_PERIOD_SECONDS,
        Some(seconds) if seconds < 0 => 1,
        Some(seconds) => seconds,
    });
    // Two names of one field; the newer one takes precedence.
    if let Some(old) = spec.service_account.take_if(|name| !name.is_empty()) {
        set_word(&mut spec.service_account_name, &old);
    }
    spec.service_account = spec.service_account_name.clone();
}

fn containers_mut(
    spec: &mut PodSpec,
) -> impl Iterator<Item = &mut k8s_openapi::api::core::v1::Container> {
    spec.init_containers.iter_mut().flatten().chain(&mut spec.containers)
}

/// Sets a string that is missing or empty.
fn set_word(field: &mut Option<String>, value: &str) {
    if field.as_deref().is_none_or(str::is_empty) {
        *field = Some(value.to_owned());
    }
}

/// Sets a value that is missing, or counts as missing.
fn set_if<T>(field: &mut Option<T>, is_missing: impl Fn(&T) -> bool, value: T) {
    if field.as_ref().is_none_or(is_missing) {
        *field = Some(value);
    }
}
