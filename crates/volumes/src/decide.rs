//! Pure decisions about volumes.

pub mod payload;
pub mod resolve;
