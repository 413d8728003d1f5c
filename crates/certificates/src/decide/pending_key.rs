//! Whether an existing request may be used again.

use jiff::Timestamp;
use model::signing::{SigningRequest, SigningRequestRecord, SigningState};

use super::pair::CertificatePair;

/// Whether an existing request of the same name is one for this key, not refused, and has no expired certificate:
/// an agent that ended before made it. The name contains a digest of key, subject and usages; the signature of the
/// request differs each time, so texts cannot be compared.
pub fn is_reusable(
    existing: &SigningRequestRecord,
    wanted: &SigningRequest,
    key: &str,
    now: Timestamp,
) -> bool {
    let is_same =
        existing.signer == wanted.signer && wanted.name.as_ref() == Some(&existing.id.name);
    is_same
        && match &existing.state {
            SigningState::Pending | SigningState::Approved => true,
            SigningState::Issued(chain) => {
                CertificatePair::join(chain, key).is_ok_and(|pair| pair.is_valid(now))
            }
            SigningState::Refused { .. } | SigningState::Deleted => false,
        }
}
