//! The volume manager.

pub mod decide;
