//! The client with a scripted server on a real socket.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests create and remove sockets, block the process, and may panic"
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
