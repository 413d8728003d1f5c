//! The entry of a pod in the checkpoint of allocations.

use serde::{Deserialize, Serialize};

use crate::Allocation;

/// The entry of a pod in the checkpoint of allocations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedAllocation {
    /// The allocated resources.
    #[serde(flatten)]
    pub allocated: Allocation,
    /// The previous resources that it may still have, if its resize was not complete when this was written. Boxed: few
    /// pods are resized, and all are saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Box<Allocation>>,
}
