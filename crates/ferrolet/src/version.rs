//! The versions as the local server returns them.

use process::version::{FERROLET, KUBERNETES};
use server::wire::Version;

/// The version of Kubernetes whose behaviour the agent has, and its own.
pub fn version() -> Version {
    Version { kubernetes: KUBERNETES.to_owned(), ferrolet: FERROLET.to_owned() }
}
