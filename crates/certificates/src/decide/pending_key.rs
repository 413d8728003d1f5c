//! Whether an existing request may be used again.

use model::signing::{SigningRequest, SigningRequestRecord, SigningState};

/// Whether an existing request of the same name was made by an agent that ended before, and is not refused. The name
/// contains a digest of key, subject and usages; the signature of the request differs each time, so texts cannot be
/// compared. `is_usable` decides about its certificate, if one was issued.
pub fn is_reusable(
    existing: &SigningRequestRecord,
    wanted: &SigningRequest,
    is_usable: impl FnOnce(&str) -> bool,
) -> bool {
    let is_same =
        existing.signer == wanted.signer && wanted.name.as_ref() == Some(&existing.id.name);
    is_same
        && match &existing.state {
            SigningState::Pending | SigningState::Approved => true,
            SigningState::Issued(chain) => is_usable(chain),
            SigningState::Refused { .. } | SigningState::Deleted => false,
        }
}
