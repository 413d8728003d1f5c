//! Records requests that create objects.
#![allow(clippy::disallowed_methods, reason = "a test tool writes the files that it is asked for")]

use std::fs;
use std::sync::atomic::Ordering;

use prost::Message;
use tonic::Status;

use super::Hollow;

/// The limit of recorded requests: comparisons need few, and the disk use must not grow with the number of
/// calls.
const MOST: usize = 10_000;

impl Hollow {
    /// Writes a request in the CRI's own encoding, as `NUMBER-METHOD`, if recording is enabled.
    pub(super) fn record(&self, method: &str, request: &impl Message) -> Result<(), Status> {
        let Some(directory) = &self.settings.requests else { return Ok(()) };
        let number = self.recorded.fetch_add(1, Ordering::Relaxed);
        if number >= MOST {
            return Ok(());
        }
        let name = format!("{number:05}-{method}");
        // Renamed into place: readers ignore names with a leading dot.
        let draft = directory.join(format!(".{name}"));
        let written = fs::write(&draft, request.encode_to_vec())
            .and_then(|()| fs::rename(&draft, directory.join(name)));
        written.map_err(|error| Status::internal(format!("record a request: {error}")))
    }
}
