//! Resource usage of the node and its pods.

use std::fmt::Debug;

use async_trait::async_trait;
use hyper::StatusCode;

use super::pages;
use crate::respond::{Answer, error_text};

/// The pages of resource usage.
#[async_trait]
pub trait UsagePages: Debug + Send + Sync {
    /// The summary as JSON, or why it cannot be made.
    async fn summary(&self, only_cpu_and_memory: bool) -> Result<String, String>;

    /// Metrics of CPU and memory.
    async fn resource_metrics(&self) -> String;

    /// Metrics of all cgroups.
    async fn cadvisor_metrics(&self) -> String;
}

/// The summary; `only_cpu_and_memory=true` leaves out the rest.
pub(super) async fn summary(usage: &dyn UsagePages, query: Option<&str>) -> Answer {
    let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let values: Vec<_> =
        pairs.filter(|(name, _)| name == "only_cpu_and_memory").map(|(_, value)| value).collect();
    // As upstream, a repeated parameter does not count.
    match usage.summary(values == ["true"]).await {
        Ok(json) => pages::json(json),
        Err(error) => {
            error_text(StatusCode::INTERNAL_SERVER_ERROR, format!("Internal Error: {error}"))
        }
    }
}
