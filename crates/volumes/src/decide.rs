//! Pure decisions about volumes.

pub mod memory_size;
pub mod nested;
pub mod payload;
pub mod pod_volumes;
pub mod resolve;
pub mod waiting;
