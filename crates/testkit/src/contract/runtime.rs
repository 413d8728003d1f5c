//! The contract of the runtime port.
//!
//! Containers run the test workload (`/workload`), in an image whose entry point it is.

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

/// How long a case may take. A real runtime needs about a second for a sandbox.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a case needs beside the port.
#[async_trait]
pub trait World: Debug + Send + Sync {
    /// The runtime to look at.
    fn runtime(&self) -> Runtime;

    /// Name of an image that the runtime has, with the workload as its entry point.
    fn image(&self) -> String;

    /// Name of an image that neither the runtime nor any registry has. Its registry should refuse at
    /// once; one that is not reached at all costs a real runtime most of a minute.
    fn absent_image(&self) -> String;

    /// Name and uid of a pod that nobody used before.
    fn unused_pod(&self) -> (PodName, PodUid);

    /// Changes a sandbox to what this world needs: its log directory, the parent of its cgroups.
    fn adapt(&self, _config: &mut SandboxConfig) {}

    /// Waits until the log of a container contains a text. The workload says when it is ready for
    /// signals; a world without logs is always ready.
    async fn await_output(&self, _log_path: &str, _text: &str) -> Result<()> {
        Ok(())
    }

    /// Kills the process of a container, or that which holds a sandbox open, behind the runtime's
    /// back. False if this world cannot.
    async fn kill(&self, _id: &ObjectId) -> bool {
        false
    }

    /// Name of an image that can be pulled, if there is a registry.
    fn pullable_image(&self) -> Option<String> {
        None
    }

    /// Gives the runtime an image that a case may remove, and its name, if this world can.
    async fn disposable_image(&self) -> Option<String> {
        None
    }
}

/// A case of the contract.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// What it says, in a sentence.
    pub name: &'static str,
    play: for<'a> fn(&'a Bench<'a>) -> Play<'a>,
}

impl Case {
    /// Plays the case in a world and removes what it made there, however it ended.
    pub async fn run(&self, world: &dyn World) -> Report {
        let bench = Bench::new(world);
        let late = || format!("not done after {PATIENCE:?}");
        let played = timeout(PATIENCE, (self.play)(&bench)).await.with_context(late);
        let cleared = timeout(PATIENCE, bench.clear()).await.with_context(late);
        let result = played
            .and_then(|result| result)
            .and(cleared.and_then(|result| result).context("clean up"));
        Report::of(self.name, result)
    }
}

/// Runs all cases in a world, one after the other.
pub async fn run(world: &dyn World) -> Vec<Report> {
    let mut reports = Vec::new();
    for case in CASES {
        reports.push(case.run(world).await);
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
        the_runtime_tells_its_name_and_version
        the_runtime_and_its_network_are_ready;
    sandboxes:
        a_sandbox_is_ready_once_it_runs
        a_sandbox_tells_what_its_pod_was_given_also_when_it_is_dead
        a_pod_has_an_address_until_its_sandbox_stops
        a_pod_on_the_hosts_network_has_no_address
        a_stopped_sandbox_is_not_ready
        a_sandbox_can_be_stopped_again
        stopping_a_sandbox_ends_what_runs_in_it
        a_dead_sandbox_keeps_its_address_and_its_containers
        a_dead_sandbox_takes_along_what_shares_its_processes
        an_unknown_sandbox_is_not_found;
    names:
        a_sandbox_name_is_reserved_until_it_is_removed
        of_two_calls_at_once_for_one_name_one_makes_it
        another_attempt_is_another_sandbox
        a_container_name_is_reserved_until_it_is_removed
        a_container_name_stays_reserved_in_the_next_sandbox
        a_failed_creation_frees_the_name;
    containers:
        a_container_is_created_then_runs_then_exits
        a_container_that_ends_with_0_has_completed
        a_container_remembers_what_it_was_made_with
        a_container_refers_to_its_image
        what_a_container_may_use_changes_as_it_runs
        a_container_says_whom_it_runs_as_and_what_ends_it
        a_killed_container_has_exited
        an_unknown_container_is_not_found;
    starting:
        a_container_starts_once
        an_exited_container_does_not_start_again
        a_container_does_not_start_in_a_stopped_sandbox
        a_program_that_is_missing_does_not_start
        a_container_needs_a_sandbox
        a_container_needs_a_sandbox_that_is_ready
        a_container_needs_an_image;
    stopping:
        a_container_ends_by_the_signal_it_does_not_handle
        a_container_ends_in_its_own_way_within_the_grace
        a_container_that_ignores_the_signal_is_killed_after_the_grace
        without_grace_a_container_is_killed
        a_shorter_grace_overtakes_a_longer_one
        stopping_what_does_not_run_changes_nothing;
    exec:
        a_command_runs_in_a_container_and_tells_how_it_ended
        a_command_that_takes_too_long_is_ended
        a_command_ends_with_its_container
        a_command_needs_a_container_that_runs
        a_command_that_is_missing_does_not_run;
    lists:
        sandboxes_are_listed_by_pod_state_and_id
        containers_are_listed_by_pod_sandbox_state_and_id
        a_container_without_labels_is_nobodys
        a_sandbox_without_uid_is_nobodys
        what_does_not_exist_is_not_listed;
    removing:
        a_removed_sandbox_is_gone
        a_ready_sandbox_is_removed_with_all_that_runs_in_it
        a_removed_container_is_gone
        a_running_container_is_removed_by_force
        what_is_gone_can_be_removed_again
        a_verdict_about_something_else_is_refused;
    events:
        the_start_and_the_end_of_a_container_are_told_with_its_pod
        a_death_that_nobody_asked_for_is_told
        a_sandbox_is_told_from_its_start_to_its_end
        what_is_removed_with_its_sandbox_is_told
        everybody_who_listens_is_told;
    images:
        a_container_says_which_image_it_uses
        the_file_system_of_images_is_told
        an_image_is_found_by_name_and_by_id
        an_absent_image_is_nothing
        an_absent_image_cannot_be_pulled
        a_pulled_image_is_there
        a_removed_image_is_gone;
}
