//! Pure decisions about volumes.

pub mod payload;
