//! The threads of a program.

/// The most threads for calls that block. This is more than all pools of such calls use together (files 64, cgroups 16,
/// programs 4, the journal 5, names 8 for each resolver, credentials 2), so that an exhausted pool takes no thread of
/// another. Few of them ever start.
pub const BLOCKING_THREADS: usize = 160;
