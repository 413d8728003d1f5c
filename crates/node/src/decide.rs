//! Decides the content of the node object and when it is written. Pure.

pub mod addresses;
pub mod conditions;
pub mod configured;
pub mod csi_node;
pub mod difference;
pub mod facts;
pub mod health;
pub mod images;
pub mod lease;
pub mod object;
pub mod own_object;
pub mod pace;
pub mod pod_cidrs;
pub mod reconcile;
pub mod reports;
pub mod resources;
pub mod runtime_view;
pub mod settings;
pub mod startup;
pub mod status;
