//! Notices about certificates, for events.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// A certificate that ends sooner than this is reported, if it lives long enough.
const SOON: SignedDuration = SignedDuration::from_hours(7 * 24);
/// How long a request may wait before it is reported. Automatic approvers are faster.
pub(super) const UNAPPROVED: Duration = Duration::from_secs(10);
/// How often a request that waits is reported again: events are stored for an hour.
pub(super) const UNAPPROVED_AGAIN: Duration = Duration::from_mins(50);
/// How often an expiry is reported again.
pub(super) const END_AGAIN: Duration = Duration::from_hours(24);

/// Something that an operator should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A request waits for approval.
    WaitsForApproval {
        /// The request.
        name: String,
    },
    /// A request was denied, or its signer failed.
    Refused {
        /// The request.
        name: String,
        /// Whether the signer failed.
        has_failed: bool,
        /// Reason and message.
        why: String,
    },
    /// The certificate expires soon, and was not renewed.
    ExpiresSoon(Timestamp),
    /// The certificate has expired.
    Expired(Timestamp),
}

/// From when on the end of a certificate is reported: a week before it, or in the last tenth of a shorter life, after
/// which its renewal is late.
pub(super) fn report_end_from(not_before: Timestamp, not_after: Timestamp) -> Timestamp {
    let life = not_after.duration_since(not_before);
    let before = SOON.min(life / 10).max(SignedDuration::ZERO);
    not_after - before
}
