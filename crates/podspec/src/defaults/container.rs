//! Defaults of containers.

use k8s_openapi::api::core::v1::{
    Container, EnvVar, HTTPGetAction, Lifecycle, ObjectFieldSelector, Probe,
};

use super::{set_if, set_word};
use crate::image_name::ImageName;

const TIMEOUT_SECONDS: i32 = 1;
const PERIOD_SECONDS: i32 = 10;
const SUCCESS_THRESHOLD: i32 = 1;
const FAILURE_THRESHOLD: i32 = 3;

pub(super) fn set_defaults(container: &mut Container) {
    let image = container.image.as_deref().unwrap_or_default();
    set_word(&mut container.image_pull_policy, pull_policy(image));
    set_word(&mut container.termination_message_path, "/dev/termination-log");
    set_word(&mut container.termination_message_policy, "File");
    for port in container.ports.iter_mut().flatten() {
        set_word(&mut port.protocol, "TCP");
    }
    for variable in container.env.iter_mut().flatten() {
        set_variable_defaults(variable);
    }
    let probes = [
        &mut container.liveness_probe,
        &mut container.readiness_probe,
        &mut container.startup_probe,
    ];
    for probe in probes.into_iter().flatten() {
        set_probe_defaults(probe);
    }
    if let Some(lifecycle) = &mut container.lifecycle {
        set_lifecycle_defaults(lifecycle);
    }
}

/// An image whose tag may change is pulled at every start.
pub(super) fn pull_policy(image: &str) -> &'static str {
    match ImageName::parse(image) {
        Some(name) if name.is_latest() => "Always",
        _ => "IfNotPresent",
    }
}

pub(super) fn set_field_ref_defaults(field_ref: &mut ObjectFieldSelector) {
    set_word(&mut field_ref.api_version, "v1");
}

fn set_variable_defaults(variable: &mut EnvVar) {
    let Some(source) = &mut variable.value_from else {
        return;
    };
    if let Some(field_ref) = &mut source.field_ref {
        set_field_ref_defaults(field_ref);
    }
    if let Some(file_key_ref) = &mut source.file_key_ref {
        file_key_ref.optional.get_or_insert(false);
    }
}

fn set_probe_defaults(probe: &mut Probe) {
    let is_zero = |value: &i32| *value == 0;
    set_if(&mut probe.timeout_seconds, is_zero, TIMEOUT_SECONDS);
    set_if(&mut probe.period_seconds, is_zero, PERIOD_SECONDS);
    set_if(&mut probe.success_threshold, is_zero, SUCCESS_THRESHOLD);
    set_if(&mut probe.failure_threshold, is_zero, FAILURE_THRESHOLD);
    if let Some(http_get) = &mut probe.http_get {
        set_http_get_defaults(http_get);
    }
    if let Some(grpc) = &mut probe.grpc {
        grpc.service.get_or_insert_default();
    }
}

fn set_lifecycle_defaults(lifecycle: &mut Lifecycle) {
    for handler in [&mut lifecycle.post_start, &mut lifecycle.pre_stop].into_iter().flatten() {
        if let Some(http_get) = &mut handler.http_get {
            set_http_get_defaults(http_get);
        }
    }
}

fn set_http_get_defaults(http_get: &mut HTTPGetAction) {
    set_word(&mut http_get.path, "/");
    set_word(&mut http_get.scheme, "HTTP");
}
