//! Requests that make something, kept as they came.
#![allow(clippy::disallowed_methods, reason = "a test tool writes the files that it is asked for")]

use std::fs;
use std::sync::atomic::Ordering;

use prost::Message;
use tonic::Status;

use super::Hollow;

/// More than this is not written: what is compared is small, and nothing grows with the number of
/// calls.
const MOST: usize = 10_000;

impl Hollow {
    /// Writes a request in the CRI's own encoding, as `NUMBER-METHOD`, if that is asked for.
    pub(super) fn record(&self, method: &str, request: &impl Message) -> Result<(), Status> {
        let Some(directory) = &self.settings.requests else { return Ok(()) };
        let number = self.recorded.fetch_add(1, Ordering::Relaxed);
        if number >= MOST {
            return Ok(());
        }
        let name = format!("{number:05}-{method}");
        // It appears whole: readers look only for names without a dot in front.
        let draft = directory.join(format!(".{name}"));
        let written = fs::write(&draft, request.encode_to_vec())
            .and_then(|()| fs::rename(&draft, directory.join(name)));
        written.map_err(|error| Status::internal(format!("record a request: {error}")))
    }
}
