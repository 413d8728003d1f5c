//! The D-Bus of the system: one connection for the callers of a service, which is opened when it is needed.
//!
//! Inputs: calls of adapters. Outputs: proxies for objects of services such as systemd.
//!
//! Invariant: a lost connection is opened again by the next call after [`SystemBus::disconnect`].
#![warn(missing_docs)]

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use zbus::proxy::CacheProperties;
use zbus::{Connection, Proxy, connection, proxy};

/// The timeout of a call, and of connecting.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// An object of a service.
#[derive(Debug, Clone, Copy)]
pub struct Object {
    /// The name of the service.
    pub service: &'static str,
    /// The path of the object.
    pub path: &'static str,
    /// The interface.
    pub interface: &'static str,
}

/// The system's bus. Connects on first use.
#[derive(Debug, Default)]
pub struct SystemBus {
    /// The address of another bus.
    address: Option<String>,
    /// Held while connecting, so that there is one connection.
    connection: tokio::sync::Mutex<Option<Connection>>,
}

impl SystemBus {
    /// The bus of this machine.
    pub fn system() -> Self {
        Self::default()
    }

    /// The bus at this address.
    pub fn at(address: &str) -> Self {
        Self { address: Some(address.to_owned()), ..Self::default() }
    }

    /// The other end of a connection.
    pub fn connected(connection: Connection) -> Self {
        Self { address: None, connection: tokio::sync::Mutex::new(Some(connection)) }
    }

    /// Opens a new connection with the next call.
    pub async fn disconnect(&self) {
        self.connection.lock().await.take();
    }

    /// A proxy for an object. Its properties are read from the service each time.
    pub async fn proxy(&self, object: Object) -> zbus::Result<Proxy<'static>> {
        let connection = self.connection().await?;
        let Object { service, path, interface } = object;
        let builder = proxy::Builder::new(&connection).destination(service).path(path);
        builder.interface(interface).cache_properties(CacheProperties::No).build().await
    }

    async fn connection(&self) -> zbus::Result<Connection> {
        let mut known = self.connection.lock().await;
        if let Some(connection) = &*known {
            return Ok(connection.clone());
        }
        let builder = match &self.address {
            None => connection::Builder::system(),
            Some(address) => connection::Builder::address(address.as_str()),
        };
        let connecting = builder.method_timeout(PATIENCE).build();
        let connection = timeout(PATIENCE, connecting).await.map_err(|_| timed_out())??;
        Ok(known.insert(connection).clone())
    }
}

fn timed_out() -> zbus::Error {
    let error = io::Error::new(io::ErrorKind::TimedOut, "connecting to the bus timed out");
    zbus::Error::InputOutput(Arc::new(error))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn connecting_ends_when_the_bus_does_not_respond() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = silent.local_addr().unwrap().port();
        let bus = SystemBus::at(&format!("tcp:host=127.0.0.1,port={port}"));
        let (begin, object) =
            (Instant::now(), Object { service: "a.b", path: "/", interface: "a.b" });
        let error = bus.proxy(object).await.unwrap_err();
        assert_eq!(begin.elapsed().as_secs(), PATIENCE.as_secs());
        let zbus::Error::InputOutput(error) = error else { panic!("{error}") };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
