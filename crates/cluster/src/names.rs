//! Resolves host names of the API server and of proxies, without blocking shared threads.

use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;
use std::vec;

use blocking::{ResolveError, Resolver};
use futures_util::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::Name;
use tower::Service;

/// The timeout of a lookup. The connection is tried again later.
const LOOKUP: Duration = Duration::from_secs(10);

/// Resolves names for connections.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names(pub(crate) Resolver);

impl Service<Name> for Names {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = ResolveError;
    type Future = BoxFuture<'static, Result<Self::Response, ResolveError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ResolveError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let resolver = self.0.clone();
        Box::pin(async move {
            let found = resolver.resolve(name.as_str(), LOOKUP).await?;
            // The port is that of the URL.
            let addresses: Vec<_> = found.into_iter().map(|ip| SocketAddr::new(ip, 0)).collect();
            Ok(addresses.into_iter())
        })
    }
}
