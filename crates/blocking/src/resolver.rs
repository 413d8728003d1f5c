//! Resolves host names on dedicated threads.

use std::fmt;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use crate::flights::Flights;

/// How many names are resolved concurrently.
const MOST_NAMES: usize = 8;

type Lookup = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// Resolves host names with the system resolver. All callers of one name share one thread, however long the
/// name servers take. Clones share the threads.
#[derive(Clone)]
pub struct Resolver {
    lookup: Arc<Lookup>,
    flights: Flights<Result<Vec<IpAddr>, Arc<io::Error>>>,
}

/// Why a name has no addresses.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ResolveError {
    /// The name servers did not answer in time.
    #[error("look up {host}: no answer for {} s", .limit.as_secs())]
    TooSlow {
        /// The name.
        host: String,
        /// The timeout.
        limit: Duration,
    },
    /// The name servers do not answer other lookups either.
    #[error("look up {host}: {MOST_NAMES} other names have no answer yet")]
    Busy {
        /// The name.
        host: String,
    },
    /// The system resolver failed.
    #[error("look up {host}")]
    Failed {
        /// The name.
        host: String,
        /// The cause.
        #[source]
        source: Arc<io::Error>,
    },
}

impl Default for Resolver {
    fn default() -> Self {
        Self::new(|host| {
            let found = (host, 0).to_socket_addrs()?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("flights", &self.flights).finish_non_exhaustive()
    }
}

impl Resolver {
    /// A resolver with another lookup function.
    pub fn new(lookup: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        Self { lookup: Arc::new(lookup), flights: Flights::new(MOST_NAMES) }
    }

    /// The addresses of a name, in the order of the response. An address resolves to itself.
    pub async fn resolve(&self, host: &str, limit: Duration) -> Result<Vec<IpAddr>, ResolveError> {
        if let Ok(address) = host.parse() {
            return Ok(vec![address]);
        }
        let (lookup, name) = (Arc::clone(&self.lookup), host.to_owned());
        let flight = self.flights.join(host, move || lookup(&name).map_err(Arc::new));
        let host = host.to_owned();
        match flight {
            None => Err(ResolveError::Busy { host }),
            Some(flight) => match flight.wait(limit).await {
                None => Err(ResolveError::TooSlow { host, limit }),
                Some(found) => found.map_err(|source| ResolveError::Failed { host, source }),
            },
        }
    }
}

impl From<ResolveError> for io::Error {
    fn from(error: ResolveError) -> Self {
        let kind = match &error {
            ResolveError::TooSlow { .. } => io::ErrorKind::TimedOut,
            ResolveError::Busy { .. } => io::ErrorKind::ResourceBusy,
            ResolveError::Failed { source, .. } => source.kind(),
        };
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_mins(1);

    #[tokio::test]
    async fn addresses_and_names_of_this_machine_are_found() {
        let resolver = Resolver::new(|_| Err(io::Error::from(io::ErrorKind::NotFound)));
        let expected: IpAddr = "192.0.2.7".parse().unwrap();
        assert_eq!(resolver.resolve("192.0.2.7", SHORT).await.unwrap(), [expected]);
        assert_eq!(resolver.resolve("::1", SHORT).await.unwrap().len(), 1);
        let error = resolver.resolve("name.example", LONG).await.unwrap_err();
        assert_eq!(error.to_string(), "look up name.example");
        let found = Resolver::default().resolve("localhost", LONG).await.unwrap();
        assert!(found.iter().all(IpAddr::is_loopback), "{found:?}");
    }

    #[tokio::test]
    async fn callers_of_a_silent_name_server_share_one_thread() {
        let (looked_up, (go, gate)) = (Arc::new(AtomicUsize::new(0)), mpsc::channel::<()>());
        let (count, gate) = (Arc::clone(&looked_up), Mutex::new(gate));
        let resolver = Resolver::new(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            gate.lock().unwrap().recv().ok();
            Ok(vec![IpAddr::from([192, 0, 2, 1])])
        });
        for _ in 0..200 {
            let error = resolver.resolve("api.example", Duration::ZERO).await.unwrap_err();
            assert!(matches!(error, ResolveError::TooSlow { .. }), "{error}");
        }
        let error = resolver.resolve("api.example", SHORT).await.unwrap_err();
        assert_eq!(error.to_string(), "look up api.example: no answer for 0 s");
        drop(go);
        let found = resolver.resolve("api.example", LONG).await.unwrap();
        assert_eq!(found, [IpAddr::from([192, 0, 2, 1])]);
        assert!(looked_up.load(Ordering::Relaxed) <= 2, "one, and perhaps one after the end");
    }
}
