//! What is known of objects, when a token is asked for again, and how services are told to containers.
//! Pure.

mod known;
mod listed;
mod references;
mod service_variables;
mod token;

pub use known::{Heard, Known};
pub use listed::Listed;
pub use references::{Difference, References};
pub use service_variables::service_variables;
pub use token::{MOST_JITTER, is_expired, refresh_at};
