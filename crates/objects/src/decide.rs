//! Pure decisions: the state of watched objects, the refresh of tokens and certificates, and the environment
//! variables of services.

mod attention;
mod certificate;
mod known;
mod listed;
mod references;
mod service_variables;
mod time_to_live;
mod token;

pub use attention::{Idle, idle, is_fresh};
pub use certificate::{CERTIFICATE_JITTER, CertificateState, IssuedCertificate, PendingRequest};
pub use known::KnownObject;
pub use listed::Listed;
pub use references::{Difference, References};
pub use service_variables::service_variables;
pub use time_to_live::time_to_live;
pub use token::{MOST_JITTER, is_expired, refresh_at};
