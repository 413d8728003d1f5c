//! Which pods are admitted, and which resources they are allocated. Pure.

pub mod admission;
mod apparmor;
pub mod arrival;
mod remembered;
pub mod resize;
mod resize_message;
mod sysctls;

pub use apparmor::apparmor_refusal;
pub use remembered::{remembered, still_has};
pub use resize_message::resize_message;
pub use sysctls::{AllowedSysctls, ForbiddenSysctl};
