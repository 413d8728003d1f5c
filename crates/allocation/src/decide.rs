//! Which pods are admitted, and which resources they are allocated. Pure.

pub mod admission;
mod apparmor;
mod arrival;
mod chain;
pub mod next_resize;
pub mod pod_allocation;
mod pressure;
pub mod resize;
mod restored;
mod sysctls;

pub use apparmor::apparmor_refusal;
pub use arrival::{AdmissionDecision, Arrival, Standing, decide_arrival, in_order, standing};
pub use chain::AdmissionChain;
pub use restored::{restored, still_has};
pub use sysctls::{AllowedSysctls, ForbiddenSysctl};
