//! A container in a description.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateTerminated, ContainerStatus, EnvVar, EnvVarSource,
};
use model::probe::ProbeReport;

use super::probes::describe_probes;
use super::text::{Text, shown_time};

/// A container with its status.
#[derive(Debug)]
pub(super) struct Described<'a> {
    pub(super) container: &'a Container,
    pub(super) status: Option<&'a ContainerStatus>,
    /// The pull of its image that is in progress.
    pub(super) pull: Option<&'a str>,
    /// The state of the pod's probes.
    pub(super) probes: &'a [ProbeReport],
    pub(super) now: Timestamp,
}

pub(super) fn describe_container(text: &mut Text, described: &Described<'_>) {
    let Described { container, status, pull, probes, now } = described;
    text.label(2, &container.name);
    if let Some(status) = status {
        text.field(4, "Container ID", status.container_id.as_deref().unwrap_or("<none>"));
    }
    text.field(4, "Image", container.image.as_deref().unwrap_or_default());
    if let Some(status) = status {
        text.field(4, "Image ID", &status.image_id);
    }
    let ports = container.ports.iter().flatten();
    let ports: Vec<String> = ports
        .map(|port| {
            format!("{}/{}", port.container_port, port.protocol.as_deref().unwrap_or("TCP"))
        })
        .collect();
    if !ports.is_empty() {
        text.field(4, "Ports", &ports.join(", "));
    }
    for (label, words) in [("Command", &container.command), ("Args", &container.args)] {
        let words = words.as_deref().unwrap_or_default();
        if !words.is_empty() {
            text.label(4, label);
        }
        for word in words {
            text.value(6, word);
        }
    }
    if let Some(status) = status {
        describe_status(text, status, *pull);
        if let Some(restart) = last_restart(status, *now) {
            text.field(4, "Last Restart", &restart);
        }
    }
    resources(text, container);
    describe_probes(text, container, probes, *now);
    environment(text, container);
    mounts(text, container);
}

fn describe_status(text: &mut Text, status: &ContainerStatus, pull: Option<&str>) {
    describe_state(text, "State", status.state.as_ref());
    let state = status.state.as_ref();
    if state.is_none_or(|state| state.running.is_none() && state.terminated.is_none()) {
        optional(text, "Pull", pull);
    }
    if let Some(last) =
        status.last_state.as_ref().filter(|last| **last != ContainerState::default())
    {
        describe_state(text, "Last State", Some(last));
    }
    text.field(4, "Ready", if status.ready { "True" } else { "False" });
    text.field(4, "Restart Count", &status.restart_count.to_string());
}

/// When a running container was restarted, and how the instance before it ended.
fn last_restart(status: &ContainerStatus, now: Timestamp) -> Option<String> {
    let started = status.state.as_ref()?.running.as_ref()?.started_at.as_ref()?;
    let end = status.last_state.as_ref()?.terminated.as_ref()?;
    let mut why = format!("exit code {}", end.exit_code);
    for part in [&end.reason, &end.message].into_iter().flatten() {
        why = format!("{why}, {part}");
    }
    Some(format!("{}: {why}", shown_time(started, now)))
}

fn describe_state(text: &mut Text, label: &str, state: Option<&ContainerState>) {
    let state = state.cloned().unwrap_or_default();
    if let Some(running) = state.running {
        text.field(4, label, "Running");
        if let Some(started) = running.started_at {
            text.field(6, "Started", &started.0.to_string());
        }
    } else if let Some(terminated) = state.terminated {
        describe_end(text, label, &terminated);
    } else {
        let waiting = state.waiting.unwrap_or_default();
        text.field(4, label, "Waiting");
        optional(text, "Reason", waiting.reason.as_deref());
        optional(text, "Message", waiting.message.as_deref());
    }
}

fn describe_end(text: &mut Text, label: &str, end: &ContainerStateTerminated) {
    text.field(4, label, "Terminated");
    optional(text, "Reason", end.reason.as_deref());
    optional(text, "Message", end.message.as_deref());
    text.field(6, "Exit Code", &end.exit_code.to_string());
    if let Some(signal) = end.signal.filter(|signal| *signal != 0) {
        text.field(6, "Signal", &signal.to_string());
    }
    for (label, time) in [("Started", &end.started_at), ("Finished", &end.finished_at)] {
        if let Some(time) = time {
            text.field(6, label, &time.0.to_string());
        }
    }
}

fn optional(text: &mut Text, label: &str, value: Option<&str>) {
    if let Some(value) = value.filter(|value| !value.is_empty()) {
        text.field(6, label, value);
    }
}

fn resources(text: &mut Text, container: &Container) {
    let Some(resources) = &container.resources else { return };
    for (label, amounts) in [("Limits", &resources.limits), ("Requests", &resources.requests)] {
        let amounts = amounts.iter().flatten();
        let mut amounts = amounts.peekable();
        if amounts.peek().is_some() {
            text.label(4, label);
        }
        for (name, amount) in amounts {
            text.field(6, name, &amount.0);
        }
    }
}

fn environment(text: &mut Text, container: &Container) {
    let variables = container.env.as_deref().unwrap_or_default();
    if variables.is_empty() {
        text.field(4, "Environment", "<none>");
        return;
    }
    text.label(4, "Environment");
    for variable in variables {
        text.field(6, &variable.name, &value_of(variable));
    }
}

/// The value of a variable, or where it comes from.
fn value_of(variable: &EnvVar) -> String {
    let Some(source) = &variable.value_from else {
        return variable.value.clone().unwrap_or_default();
    };
    let EnvVarSource { config_map_key_ref, field_ref, resource_field_ref, secret_key_ref, .. } =
        source;
    if let Some(key) = config_map_key_ref {
        format!("<set to the key {:?} of config map {:?}>", key.key, key.name)
    } else if let Some(key) = secret_key_ref {
        format!("<set to the key {:?} of secret {:?}>", key.key, key.name)
    } else if let Some(field) = field_ref {
        format!("({})", field.field_path)
    } else if let Some(resource) = resource_field_ref {
        format!("({})", resource.resource)
    } else {
        "<set from elsewhere>".to_owned()
    }
}

fn mounts(text: &mut Text, container: &Container) {
    let mounts = container.volume_mounts.as_deref().unwrap_or_default();
    if mounts.is_empty() {
        return;
    }
    text.label(4, "Mounts");
    for mount in mounts {
        let access = if mount.read_only == Some(true) { "ro" } else { "rw" };
        text.value(6, &format!("{} from {} ({access})", mount.mount_path, mount.name));
    }
}
