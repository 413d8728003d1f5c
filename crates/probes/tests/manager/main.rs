//! The probe manager with requests in memory, on virtual time.

mod attempts;
mod harness;
mod lifecycle;
mod restarts;
