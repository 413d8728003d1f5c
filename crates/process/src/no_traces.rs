//! Replaces `traces` in a build without the feature `otel`.

use std::convert::Infallible;
use std::future::Pending;

use tracing_subscriber::layer::Identity;

use crate::TraceSettings;

/// No traces exist.
#[derive(Debug)]
pub enum Traces {}

impl Traces {
    /// None, for any settings.
    pub fn new(_: Option<TraceSettings>, _: &str) -> Option<Self> {
        None
    }

    /// A layer without effect.
    pub fn layer(&self) -> Identity {
        match *self {}
    }
}

/// Never returns and sends nothing. It returns a `Result` because the variant with the feature can
/// fail.
pub fn send(_: Option<Traces>) -> Result<Pending<()>, Infallible> {
    Ok(std::future::pending())
}
