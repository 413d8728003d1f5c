//! The definitions against upstream's, the generated code against the definitions, and the
//! generated client against the generated server.
#![allow(clippy::disallowed_methods, reason = "tests read the definitions and the testbed's cache")]

mod calls;
mod fresh;
mod items;
mod parse;
mod upstream;
