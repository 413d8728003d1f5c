//! Passes over the images of a runtime in memory, with a clock that the tests move.

mod passes;
mod plans;
mod restarts;
mod uses;
mod world;
