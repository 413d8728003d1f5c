//! The contract of the runtime port.
//!
//! Containers run the test workload (`/workload`), the entry point of their image.

mod bench;
mod containers;
mod events;
mod exec;
mod images;
mod lists;
mod names;
mod removing;
mod sandboxes;
mod service;
mod starting;
mod stopping;

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context, Result};
use async_trait::async_trait;
use model::ids::{ObjectId, PodName, PodUid};
use model::ports::runtime::Runtime;
use model::wanted::SandboxConfig;
use tokio::time::timeout;

use super::{Play, Report};
use bench::Bench;

/// The timeout of a case. A real runtime needs about a second for a sandbox.
const PATIENCE: Duration = Duration::from_mins(1);

/// The environment of a case.
#[async_trait]
pub trait Harness: Debug + Send + Sync {
    /// The runtime under test.
    fn runtime(&self) -> Runtime;

    /// The name of a present image with the workload as its entry point.
    fn image(&self) -> String;

    /// The name of an image that neither the runtime nor any registry has. Its registry should refuse at once;
    /// an unreachable one costs a real runtime most of a minute.
    fn absent_image(&self) -> String;

    /// Name and UID of a new pod.
    fn unused_pod(&self) -> (PodName, PodUid);

    /// Adapts a sandbox to this environment: its log directory, its cgroup parent.
    fn adapt(&self, _config: &mut SandboxConfig) {}

    /// Waits until the log of a container contains a text. The workload logs when it is ready for signals;
    /// without logs this returns at once.
    async fn await_output(&self, _log_path: &str, _text: &str) -> Result<()> {
        Ok(())
    }

    /// Kills the process of a container, or the pause process of a sandbox, without a call to the runtime.
    /// Returns false if this is not supported.
    async fn kill(&self, _id: &ObjectId) -> bool {
        false
    }

    /// The name of an image that can be pulled, if there is a registry.
    fn pullable_image(&self) -> Option<String> {
        None
    }

    /// Adds an image that a case may remove, and returns its name, if supported.
    async fn disposable_image(&self) -> Option<String> {
        None
    }
}

/// A case of the contract.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    play: for<'a> fn(&'a Bench<'a>) -> Play<'a>,
}

impl Case {
    /// Runs the case in a harness and removes its objects, regardless of the result.
    pub async fn run(&self, harness: &dyn Harness) -> Report {
        let bench = Bench::new(harness);
        let late = || format!("not done after {PATIENCE:?}");
        let played = timeout(PATIENCE, (self.play)(&bench)).await.with_context(late);
        let cleared = timeout(PATIENCE, bench.clear()).await.with_context(late);
        let result = played
            .and_then(|result| result)
            .and(cleared.and_then(|result| result).context("clean up"));
        Report::of(self.name, result)
    }
}

/// Runs all cases in one harness, one after another.
pub async fn run(harness: &dyn Harness) -> Vec<Report> {
    let mut reports = Vec::new();
    for case in CASES {
        reports.push(case.run(harness).await);
    }
    reports
}

macro_rules! cases {
    ($($module:ident: $($name:ident)+;)+) => {
        /// The contract. Cases are independent and may run at the same time.
        pub const CASES: &[Case] = &[$($(
            Case { name: stringify!($name), play: |bench| Box::pin($module::$name(bench)) },
        )+)+];
    };
}

cases! {
    service:
        version_returns_name_and_version
        runtime_and_network_are_ready;
    sandboxes:
        sandbox_is_ready_once_it_runs
        sandbox_status_returns_its_config_also_when_dead
        sandbox_has_an_address_until_it_is_stopped
        host_network_sandbox_has_no_address
        stopped_sandbox_is_not_ready
        stopped_sandbox_can_be_stopped_again
        stopping_a_sandbox_stops_its_containers
        dead_sandbox_keeps_its_address_and_its_containers
        sandbox_death_ends_containers_that_share_its_pid_namespace
        unknown_sandbox_is_not_found;
    names:
        sandbox_name_is_reserved_until_it_is_removed
        one_of_two_concurrent_creations_of_a_name_succeeds
        another_attempt_is_another_sandbox
        container_name_is_reserved_until_it_is_removed
        container_name_stays_reserved_in_the_next_sandbox
        failed_creation_releases_the_name;
    containers:
        container_is_created_then_runs_then_exits
        exit_code_0_has_reason_completed
        container_status_returns_its_config
        container_status_refers_to_its_image
        resources_are_updated_in_a_running_container
        container_status_has_user_and_stop_signal
        killed_container_has_exited
        unknown_container_is_not_found
        running_container_has_a_writable_layer;
    starting:
        container_starts_only_once
        exited_container_does_not_start_again
        container_does_not_start_in_a_stopped_sandbox
        container_with_a_missing_program_does_not_start
        create_container_fails_without_a_sandbox
        create_container_fails_in_a_sandbox_that_is_not_ready
        create_container_fails_without_its_image;
    stopping:
        container_without_signal_handler_ends_by_the_signal
        container_may_end_with_its_own_code_within_the_grace
        container_that_ignores_the_signal_is_killed_after_the_grace
        container_without_grace_is_killed
        shorter_grace_overrides_a_longer_one
        stopping_an_exited_container_changes_nothing;
    exec:
        exec_returns_output_and_exit_code
        exec_is_killed_after_its_timeout
        exec_ends_with_its_container
        exec_fails_unless_the_container_runs
        exec_of_a_missing_command_fails;
    lists:
        sandboxes_are_listed_by_pod_state_and_id
        containers_are_listed_by_pod_sandbox_state_and_id
        container_without_labels_has_no_pod
        sandbox_without_uid_has_no_pod
        unknown_objects_are_not_listed;
    removing:
        removed_sandbox_is_gone
        ready_sandbox_is_removed_with_its_running_containers
        removed_container_is_gone
        running_container_is_removed_by_force
        removal_can_be_repeated
        verdict_for_another_subject_is_refused;
    events:
        container_start_and_exit_events_carry_the_pod
        unexpected_exit_sends_an_event
        sandbox_sends_events_from_creation_to_removal
        containers_removed_with_their_sandbox_send_events
        every_stream_receives_every_event;
    images:
        container_list_has_the_image_id
        image_file_system_is_reported
        image_is_found_by_name_and_by_id
        missing_image_is_not_found
        missing_image_cannot_be_pulled
        pulled_image_is_present
        removed_image_is_gone;
}
