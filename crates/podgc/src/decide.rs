//! Decides which pods are deleted, and why: values and `now` in, values out.

pub mod election;
pub mod holds;
pub mod orphaned;
pub mod out_of_service;
pub mod pace;
pub mod patch;
pub mod quarantine;
pub mod share;
pub mod terminated;
pub mod unscheduled;
