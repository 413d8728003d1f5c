//! Which pods are admitted, and which resources they are allocated. Pure.

pub mod admission;
mod apparmor;
mod arrival;
mod chain;
pub mod next_resize;
pub mod pod_allocation;
mod remembered;
pub mod resize;
mod resize_message;
mod sysctls;

pub use apparmor::apparmor_refusal;
pub use arrival::{AdmissionDecision, Arrival, Standing, decide_arrival, in_order, standing};
pub use chain::AdmissionChain;
pub use remembered::{remembered, still_has};
pub use resize_message::resize_message;
pub use sysctls::{AllowedSysctls, ForbiddenSysctl};
