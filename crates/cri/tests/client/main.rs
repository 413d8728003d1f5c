//! The client against a server on a real socket that does what each test tells it to.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests make and remove sockets, hold a whole program up, and may panic anywhere"
)]

mod containers;
mod deadlines;
mod errors;
mod events;
mod hollow;
mod images;
mod limits;
mod methods;
mod raw;
mod reconnect;
mod sandboxes;
mod server;
mod streaming;
mod tape;
mod unchanged;
mod versions;
mod wanted;
