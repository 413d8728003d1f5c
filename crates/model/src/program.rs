//! The interface of a program for its server and the service manager: health checks and log
//! verbosity.

use std::fmt::Debug;

/// A health check and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Its name, such as `relist`.
    pub name: &'static str,
    /// The problem, if there is one.
    pub result: Result<(), String>,
}

/// The health of a program.
pub trait HealthChecks: Debug + Send + Sync {
    /// Runs all checks.
    fn checks(&self) -> Vec<Check>;
}

/// How much a program logs.
pub trait Verbosity: Debug + Send + Sync {
    /// Sets the klog level. Returns an error text on failure.
    fn set(&self, level: u32) -> Result<(), String>;
}
