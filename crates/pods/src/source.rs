//! Where pods come from. Every source tells complete sets, the latest on a watch channel: whoever is
//! late misses nothing but what is no longer true.

pub mod file;
