//! What must be true of every history, whatever goes wrong. Each invariant reads the records in order
//! and says at which one it is broken; none of them knows more of the agent than what it asks for.

mod back_off;
mod came_back;
pub(crate) mod caps;
mod deaths_seen;
mod ended_for_good;
mod ended_unwanted;
mod fresh;
mod grace;
mod hooks;
mod images;
mod init_order;
mod late_winners;
mod left_alone;
mod logs;
mod numbers;
mod on_record;
mod one_live;
mod one_self;
mod read_pods;
pub(crate) mod removals;
mod removed;
mod sandboxes_last;
mod starting_over;
mod terminated;
mod unwanted;
mod whole_grace;

use std::fmt;

use crate::history::Record;
use crate::plan::Collecting;

/// Reads a history.
pub trait Invariant: fmt::Debug + Send {
    /// What it says, as a sentence.
    fn sentence(&self) -> &'static str;
    /// Takes the next record in; says what breaks the invariant, if it does.
    fn read(&mut self, record: &Record) -> Result<(), String>;
}

/// An invariant does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Which, as a sentence.
    pub invariant: &'static str,
    /// What breaks it. Ids are long.
    pub how: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.how)
    }
}

/// All invariants over one history.
#[derive(Debug)]
pub struct Invariants(Vec<Box<dyn Invariant>>);

impl Default for Invariants {
    fn default() -> Self {
        Self::new(&Collecting::default())
    }
}

impl Invariants {
    /// All of them, on a node that collects so.
    pub fn new(collecting: &Collecting) -> Self {
        Self(vec![
            Box::<one_live::OneLive>::default(),
            Box::<one_self::OneSelf>::default(),
            Box::<init_order::InitOrder>::default(),
            Box::<ended_for_good::EndedForGood>::default(),
            Box::<terminated::TerminatedStays>::default(),
            Box::<ended_unwanted::EndedUnwanted>::default(),
            Box::<unwanted::UnwantedStayDead>::default(),
            Box::<grace::GraceShrinks>::default(),
            Box::<whole_grace::WholeGrace>::default(),
            Box::<hooks::HooksRun>::default(),
            Box::<left_alone::LeftAlone>::default(),
            Box::<numbers::NumbersAdvance>::default(),
            Box::<late_winners::LateWinnersAreUsed>::default(),
            Box::<back_off::BackOff>::default(),
            Box::<fresh::ActsOnFreshLooks>::default(),
            Box::new(removals::OnlyDeadAndOld::new(collecting.takes_the_last())),
            Box::new(caps::OldestBeyondCaps::new(collecting.containers)),
            Box::<came_back::RemainsOfReturned>::default(),
            Box::<removed::RemovedAfterItsEnd>::default(),
            Box::<sandboxes_last::SandboxesGoLast>::default(),
            Box::<images::UsedImagesStay>::default(),
            Box::new(images::ImagesOfPodsStay::new(collecting.keeps_images_of_pods)),
            Box::<logs::LogsStay>::default(),
            Box::<on_record::OnRecord>::default(),
            Box::<deaths_seen::DeathsSeen>::default(),
        ])
    }

    /// Takes the next records in.
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
