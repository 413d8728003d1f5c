//! The whole agent on an in-memory outside, with a clock that the tests move.

mod absence;
mod actions;
mod admission;
mod allocations;
mod calls;
mod cgroups;
mod cluster;
mod commands;
mod crash;
mod directories;
mod gc;
mod held_up;
mod housekeeping;
mod images;
mod manifest_versions;
mod manifests;
mod own_node;
mod pods;
mod removals;
mod resize;
mod resize_api;
mod scripts;
mod small_node;
mod sources;
mod start;
mod world;
