//! The connections to one server, and by which of them a call goes.
//!
//! By HTTP/2 all calls share one connection, but no more than the server lets: a hundred at a time, as an API server
//! is by default. One beyond that waits until another ends, and a watch does not. So watches are spread over as
//! many connections as they need, and calls that keep a node alive leave one that gets full for another that is
//! theirs alone.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::{Request, Response};
use hyper::body::{Bytes, Frame, Incoming, SizeHint};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::Body;
use tower::Service;

use crate::proxy::Dialer;

/// How many watches share a connection, so that there is room for calls beside them.
const WATCHES: usize = 60;
/// With how many others, watches and calls, one that cannot wait shares a connection.
const CROWD: usize = 80;
/// How often a connection that waits for answers is tested, and how long the answer may take.
pub(crate) const PING: Duration = Duration::from_secs(20);
const PONG: Duration = Duration::from_secs(10);
/// How much the server may send ahead, on a stream and on the whole connection. Small: a list of all
/// pods is read as it comes.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// By which connection a call goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Way {
    /// Beside others: it ends before long.
    #[default]
    Shared,
    /// Beside not too many others: it goes on.
    Watch,
    /// Beside others as long as they leave it room, else beside those alone that cannot wait either.
    Urgent,
}

pub(crate) type Connector = HttpsConnector<Dialer>;
type Http = legacy::Client<Connector, Body>;
/// Counts who uses a connection: each has one more of it than the connection itself.
type Place = Arc<()>;

fn others(place: &Place) -> usize {
    Arc::strong_count(place) - 1
}

/// The connections.
#[derive(Clone)]
pub(crate) struct Ways {
    /// Never held across an await.
    users: Arc<Mutex<Users>>,
}

/// Who uses which connection.
struct Users {
    connector: Connector,
    urgent: Http,
    shared: Http,
    /// The calls on the shared one that are no watches.
    calls: Place,
    /// Each connection with its watches; the first is the shared one.
    watches: Vec<(Http, Place)>,
}

impl Users {
    fn new(connector: Connector) -> Self {
        let (urgent, shared) = (http(connector.clone()), http(connector.clone()));
        let watches = vec![(shared.clone(), Place::default())];
        Self { connector, urgent, shared, calls: Place::default(), watches }
    }

    /// How many use the shared connection.
    fn on_shared(&self) -> usize {
        others(&self.calls) + others(&self.watches[0].1)
    }
}

impl Ways {
    /// Connections by that connector; none is made before it is needed.
    pub(crate) fn new(connector: Connector) -> Self {
        Self { users: Arc::new(Mutex::new(Users::new(connector))) }
    }

    /// Calls that come use connections by this connector. Those that are under way end as they began.
    pub(crate) fn renew(&self, connector: Connector) {
        *self.users.lock().unwrap_or_else(PoisonError::into_inner) = Users::new(connector);
    }

    /// The connection of a call, and its place there.
    fn choose(&self, way: Way) -> (Http, Option<Place>) {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        match way {
            Way::Urgent if users.on_shared() >= CROWD => (users.urgent.clone(), None),
            Way::Shared | Way::Urgent => (users.shared.clone(), Some(Arc::clone(&users.calls))),
            Way::Watch => {
                let Users { connector, watches: all, .. } = &mut *users;
                let taken: Vec<usize> = all.iter().map(|(_, place)| others(place)).collect();
                let index = with_room(&taken).unwrap_or_else(|| {
                    all.push((http(connector.clone()), Place::default()));
                    all.len() - 1
                });
                let (http, place) = &all[index];
                (http.clone(), Some(Arc::clone(place)))
            }
        }
    }
}

/// The first connection that takes one more watch, by how many each has.
fn with_room(taken: &[usize]) -> Option<usize> {
    taken.iter().position(|count| *count < WATCHES)
}

fn http(connector: Connector) -> Http {
    legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_keep_alive_interval(PING)
        .http2_keep_alive_timeout(PONG)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .build(connector)
}

impl Service<Request<Body>> for Ways {
    type Response = Response<Held>;
    type Error = legacy::Error;
    type Future = BoxFuture<'static, Result<Response<Held>, legacy::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), legacy::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let way = request.extensions().get::<Way>().copied().unwrap_or_default();
        let (http, place) = self.choose(way);
        let answer = http.request(request);
        Box::pin(async move { Ok(answer.await?.map(|body| Held { body, _place: place })) })
    }
}

/// The body of an answer, which has its place as long as it is read.
#[derive(Debug)]
pub(crate) struct Held {
    body: Incoming,
    _place: Option<Place>,
}

impl hyper::body::Body for Held {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_use_connections_with_free_streams() {
        let rows: [(&[usize], Option<usize>); 5] = [
            (&[0], Some(0)),
            (&[WATCHES - 1], Some(0)),
            (&[WATCHES], None),
            (&[WATCHES, 3], Some(1)),
            (&[WATCHES - 5, WATCHES], Some(0)),
        ];
        for (taken, expected) in rows {
            assert_eq!(with_room(taken), expected, "{taken:?}");
        }
    }
}
