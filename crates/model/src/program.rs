//! A program as its server and the service manager see it: health checks and log verbosity.

use std::fmt::Debug;

/// A health check and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Its name, such as `relist`.
    pub name: &'static str,
    /// What is wrong, if anything.
    pub result: Result<(), String>,
}

/// The health of a program.
pub trait HealthChecks: Debug + Send + Sync {
    /// All checks, made now.
    fn checks(&self) -> Vec<Check>;
}

/// How much a program logs.
pub trait Verbosity: Debug + Send + Sync {
    /// Sets the level, in klog's numbers. The error says why that failed.
    fn set(&self, level: u32) -> Result<(), String>;
}
