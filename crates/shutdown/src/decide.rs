//! Decisions of the shutdown manager: which pods end when. Pure.

mod phases;
mod state;

pub use phases::{Phase, PhasePlan, Phases, PlannedPod};
pub use state::{SavedState, elapsed};
