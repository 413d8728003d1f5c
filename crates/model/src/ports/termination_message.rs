//! Termination messages of containers.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::observed::ContainerStatus;

/// Reads the termination messages of ended containers.
#[async_trait]
pub trait TerminationMessageReader: Debug + Send + Sync {
    /// Adds the termination message of a container to its status. A container that has not ended is left alone.
    async fn add(&self, status: &mut ContainerStatus);
}
