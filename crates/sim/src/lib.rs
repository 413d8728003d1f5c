//! Histories of the whole agent, in memory and with a virtual clock, with many faults.
//!
//! Inputs: a seed. It determines the pods, the actions of people on their manifests, the calls that fail, hang,
//! are late or lost, and the times at which the agent is killed and the clock is set. Outputs: a
//! [`Report`](run::Report), or a [`Failure`](run::Failure) with the broken invariant and a trace.
//!
//! ```text
//!  seed ──> plan ──> run: agent ──> faulty ports ──> runtime and disk in memory
//!                     └── history ──> invariants; settled?; did a new agent change anything?
//! ```
//!
//! Its own invariants:
//! - one seed, one history: no thread, no real clock, no unordered map;
//! - the agent is started by its own wiring (`Agent::start`), with ports in memory; the API server, the
//!   agent's servers, the packet filter and the start in `run.rs` are not simulated;
//! - invariants do not use the agent's internals: they read its requests and their results.

mod acting;
pub mod agent_restart;
mod clock;
mod faulty;
mod faulty_cgroups;
mod faulty_files;
mod faulty_http;
mod faulty_reads;
mod faulty_runtime;
mod faulty_segments;
mod flag;
pub mod history;
pub mod invariants;
mod late_removals;
mod life;
pub mod mutations;
mod outside;
pub mod plan;
mod removal;
mod restart_survivors;
pub mod run;
pub mod settled;
pub mod shrink;
mod source_observation;
pub mod statuses;
mod trace;
mod wanted_images;

/// Seeds of histories that once broke an invariant: one per line, with a comment.
pub const REGRESSIONS: &str = include_str!("../regressions.txt");

/// The plans of the seeds in a text: one per line that begins with a number, without later actions if `plain`
/// follows.
pub fn plans(text: &str) -> impl Iterator<Item = plan::Plan> {
    text.lines().filter_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let seed = words.next()?.parse().ok()?;
        let is_plain = words.next() == Some("plain");
        Some(if is_plain { plan::Plan::plain(seed) } else { plan::Plan::new(seed) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_file_is_parsed_with_plan_kinds_and_comments() {
        let text = "# Of 7 seeds:\n1  # 2\n\n30 plain  # plain as it was\n4  # plain\n";
        let read: Vec<_> = plans(text).map(|plan| (plan.seed, plan.plain)).collect();
        assert_eq!(read, [(1, false), (30, true), (4, false)]);
        assert!(plans(REGRESSIONS).count() > 30);
    }
}
