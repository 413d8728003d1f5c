//! The decisions: values and the time in, values out.

pub mod images;
