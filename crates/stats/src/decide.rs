//! The decisions: what measurements mean, and how they are shown.

pub mod cadvisor;
mod cadvisor_series;
pub mod observation;
pub mod owners;
pub mod rates;
pub mod resource_metrics;
pub mod storage;
pub mod summary;
pub mod text;
pub mod usage;
