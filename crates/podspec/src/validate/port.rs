//! Rules for the ports of containers.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, ContainerPort, PodSpec};

use super::{check_word, word};
use crate::field_error::{FieldErrors, FieldPath};
use crate::names::{port_name, port_number};

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

pub(super) fn check<'a>(
    ports: impl Iterator<Item = &'a ContainerPort>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let mut names = BTreeSet::new();
    for (index, port) in ports.enumerate() {
        let path = path.index(index);
        let name = word(port.name.as_ref());
        if !name.is_empty() {
            let wrong = port_name(name);
            if wrong.is_empty() && !names.insert(name) {
                errors.duplicate(&path.child("name"), name);
            }
            errors.invalid_each(&path.child("name"), name, wrong);
        }
        let number = port.container_port;
        if number == 0 {
            errors.required(&path.child("containerPort"), "");
        } else {
            errors.invalid_each(&path.child("containerPort"), number, port_number(number));
        }
        if let Some(number) = host_port(port) {
            errors.invalid_each(&path.child("hostPort"), number, port_number(number));
        }
        let protocol = word(port.protocol.as_ref());
        check_word(protocol, PROTOCOLS, &path.child("protocol"), errors);
    }
}

/// Host ports of concurrently running containers must be unique.
pub(super) fn check_host_ports(
    containers: &[Container],
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let mut taken = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        check_host_ports_of(container, &path.index(index), &mut taken, errors);
    }
}

/// Like `check_host_ports`, for one container, given the host ports of the others.
pub(super) fn check_host_ports_of(
    container: &Container,
    path: &FieldPath,
    taken: &mut BTreeSet<String>,
    errors: &mut FieldErrors,
) {
    for (index, port) in container.ports.iter().flatten().enumerate() {
        let Some(number) = host_port(port) else {
            continue;
        };
        let protocol = word(port.protocol.as_ref());
        let key = format!("{protocol}/{}/{number}", word(port.host_ip.as_ref()));
        if taken.contains(&key) {
            errors.duplicate(&path.child("ports").index(index).child("hostPort"), key);
        } else {
            taken.insert(key);
        }
    }
}

/// In the host network a container port is a host port.
pub(super) fn check_host_network(spec: &PodSpec, path: &FieldPath, errors: &mut FieldErrors) {
    if spec.host_network != Some(true) {
        return;
    }
    for (container_index, container) in spec.containers.iter().enumerate() {
        let path = path.child("containers").index(container_index).child("ports");
        for (index, port) in container.ports.iter().flatten().enumerate() {
            if let Some(number) = host_port(port)
                && number != port.container_port
            {
                let problem = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(&path.index(index).child("hostPort"), number, problem);
            }
        }
    }
}

fn host_port(port: &ContainerPort) -> Option<i32> {
    port.host_port.filter(|number| *number != 0)
}
