//! The rows of the behaviour table, and properties that hold for every node.

mod harness;
mod laws;
mod scenarios;
