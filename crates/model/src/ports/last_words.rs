//! What containers leave behind when they end.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::observed::ContainerStatus;

/// Finds the last words of ended containers.
#[async_trait]
pub trait LastWords: Debug + Send + Sync {
    /// Puts the last words of a container into its message; one that has not ended is left as it is.
    async fn add(&self, status: &mut ContainerStatus);
}
