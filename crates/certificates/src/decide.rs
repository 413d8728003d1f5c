//! Decisions on the node's certificates.

mod addresses;
mod manager;
#[cfg(test)]
mod manager_tests;
mod notices;
mod pair;
mod pending_key;
mod template;

pub use addresses::{AddressKind, NodeAddress};
pub use manager::{
    CertificateManager, IssuedPair, Next, PendingRequest, RequestOutcome, Role, rotation_at,
};
pub use notices::Notice;
pub use pair::{CertificateFacts, CertificatePair};
pub use pending_key::is_reusable;
pub use template::Template;
