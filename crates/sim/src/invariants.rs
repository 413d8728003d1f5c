//! The invariants of every history, whatever faults happen. Each invariant reads the records in order and
//! reports the one that breaks it; it knows only the agent's requests.

mod attempt_numbers;
mod back_off;
pub(crate) mod caps;
mod duplicate_creation;
mod ended_orphans;
mod final_ends;
mod full_grace;
mod grace;
mod hooks;
mod images;
mod init_order;
mod journal_entries;
mod late_creations;
mod logs;
mod observed_deaths;
mod one_live_container;
mod one_pod_instance;
mod orphans;
mod pod_restart;
mod read_pods;
mod removal_after_stop;
pub(crate) mod removals;
mod returned_pods;
mod sandboxes_last;
mod terminated;
mod unchanged_pods;

use std::fmt;

use crate::history::Record;
use crate::plan::Collecting;

/// Checks a history.
pub trait Invariant: fmt::Debug + Send {
    /// The invariant as a sentence.
    fn sentence(&self) -> &'static str;
    /// Reads the next record; returns how it breaks the invariant, if it does.
    fn read(&mut self, record: &Record) -> Result<(), String>;
}

/// A broken invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The invariant, as a sentence.
    pub invariant: &'static str,
    /// How the invariant is broken, with long ids.
    pub how: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.how)
    }
}

/// All invariants of one history.
#[derive(Debug)]
pub struct Invariants(Vec<Box<dyn Invariant>>);

impl Default for Invariants {
    fn default() -> Self {
        Self::new(&Collecting::default())
    }
}

impl Invariants {
    /// All invariants, for these GC settings.
    pub fn new(collecting: &Collecting) -> Self {
        Self(vec![
            Box::<one_live_container::OneLiveContainer>::default(),
            Box::<one_pod_instance::OnePodInstance>::default(),
            Box::<init_order::InitOrder>::default(),
            Box::<final_ends::FinalEnds>::default(),
            Box::<terminated::TerminatedStays>::default(),
            Box::<ended_orphans::EndedOrphans>::default(),
            Box::<orphans::OrphansStayDead>::default(),
            Box::<grace::GraceShrinks>::default(),
            Box::<full_grace::FullGrace>::default(),
            Box::<hooks::HooksRun>::default(),
            Box::<unchanged_pods::UnchangedPods>::default(),
            Box::<attempt_numbers::AttemptNumbersAdvance>::default(),
            Box::<late_creations::LateCreationsAreUsed>::default(),
            Box::<back_off::BackOff>::default(),
            Box::<duplicate_creation::NoDuplicateCreation>::default(),
            Box::new(removals::OnlyDeadAndOld::new(collecting.takes_the_last())),
            Box::new(caps::OldestBeyondCaps::new(collecting.containers)),
            Box::<returned_pods::ReturnedPodsKeepObjects>::default(),
            Box::<removal_after_stop::RemovalAfterStop>::default(),
            Box::<sandboxes_last::SandboxesStopLast>::default(),
            Box::<images::UsedImagesStay>::default(),
            Box::new(images::ImagesOfPodsStay::new(collecting.keeps_images_of_pods)),
            Box::<logs::LogsStay>::default(),
            Box::<journal_entries::JournalEntries>::default(),
            Box::<observed_deaths::DeathsAreObserved>::default(),
        ])
    }

    /// Reads the next records.
    pub fn read(&mut self, records: &[Record]) -> Result<(), Broken> {
        for record in records {
            for invariant in &mut self.0 {
                invariant
                    .read(record)
                    .map_err(|how| Broken { invariant: invariant.sentence(), how })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod terminated_tests;
#[cfg(test)]
mod tests;
