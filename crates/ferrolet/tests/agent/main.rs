//! The whole agent on an in-memory outside, with a clock that the tests move.

mod commands;
mod crash;
mod manifests;
mod pods;
mod sources;
mod world;
