//! Pure decisions about volumes.

pub mod payload;
pub mod pod_volumes;
pub mod resolve;
