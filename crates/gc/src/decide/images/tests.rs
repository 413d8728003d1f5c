//! The rows of the behaviour table, and the laws that hold for every node.

mod harness;
mod laws;
mod scenarios;
