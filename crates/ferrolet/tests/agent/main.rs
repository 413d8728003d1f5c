//! The whole agent on an in-memory outside, with a clock that the tests move.

mod pods;
mod world;
