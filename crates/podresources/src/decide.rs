//! What of a connection is changed before it is read. Pure.

mod authority;

pub(crate) use authority::Anonymous;
