//! The connections to one server, and the choice of a connection for each call.
//!
//! With HTTP/2 all calls share one connection, up to the server's limit of streams: 100 by default in an API
//! server. A call beyond the limit waits until another ends, and watches do not end. So watches are spread over
//! as many connections as they need, and calls that keep a node alive move from a crowded connection to one of
//! their own.

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

/// Watches per connection; the remaining streams are for calls.
const WATCHES: usize = 60;
/// An urgent call uses a connection with up to this many other streams.
const CROWD: usize = 80;
/// How often a connection with open calls is tested, and the timeout of the test.
pub(crate) const PING: Duration = Duration::from_secs(20);
const PONG: Duration = Duration::from_secs(10);
/// The receive window of a stream and of the connection. Small: a list of all pods is decoded while it is
/// received.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// The kind of call, for the choice of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum CallKind {
    /// A call that ends soon.
    #[default]
    Shared,
    /// A watch, which stays open.
    Watch,
    /// A call that shares the connection only while there is room, and otherwise uses the urgent connection.
    Urgent,
}

pub(crate) type Connector = HttpsConnector<Dialer>;
type Http = legacy::Client<Connector, Body>;
/// Counts the users of a connection: its reference count is the number of users plus one.
type Slot = Arc<()>;

fn others(place: &Slot) -> usize {
    Arc::strong_count(place) - 1
}

/// The connections.
#[derive(Clone)]
pub(crate) struct ConnectionPool {
    /// Never held across an await.
    users: Arc<Mutex<Users>>,
}

/// The users of each connection.
struct Users {
    connector: Connector,
    urgent: Http,
    shared: Http,
    /// The calls on the shared connection, without watches.
    calls: Slot,
    /// Each connection with its watches; the first is the shared one.
    watches: Vec<(Http, Slot)>,
}

impl Users {
    fn new(connector: Connector) -> Self {
        let (urgent, shared) = (http(connector.clone()), http(connector.clone()));
        let watches = vec![(shared.clone(), Slot::default())];
        Self { connector, urgent, shared, calls: Slot::default(), watches }
    }

    /// The number of streams on the shared connection.
    fn on_shared(&self) -> usize {
        others(&self.calls) + others(&self.watches[0].1)
    }
}

impl ConnectionPool {
    /// Connections are created when they are needed.
    pub(crate) fn new(connector: Connector) -> Self {
        Self { users: Arc::new(Mutex::new(Users::new(connector))) }
    }

    /// New calls use connections of this connector. Calls in progress keep theirs.
    pub(crate) fn renew(&self, connector: Connector) {
        *self.users.lock().unwrap_or_else(PoisonError::into_inner) = Users::new(connector);
    }

    /// The connection of a call, and its slot there.
    fn choose(&self, way: CallKind) -> (Http, Option<Slot>) {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        match way {
            CallKind::Urgent if users.on_shared() >= CROWD => (users.urgent.clone(), None),
            CallKind::Shared | CallKind::Urgent => {
                (users.shared.clone(), Some(Arc::clone(&users.calls)))
            }
            CallKind::Watch => {
                let Users { connector, watches: all, .. } = &mut *users;
                let taken: Vec<usize> = all.iter().map(|(_, place)| others(place)).collect();
                let index = with_room(&taken).unwrap_or_else(|| {
                    all.push((http(connector.clone()), Slot::default()));
                    all.len() - 1
                });
                let (http, place) = &all[index];
                (http.clone(), Some(Arc::clone(place)))
            }
        }
    }
}

/// The first connection with room for a watch, given the watches of each.
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

impl Service<Request<Body>> for ConnectionPool {
    type Response = Response<SlotBody>;
    type Error = legacy::Error;
    type Future = BoxFuture<'static, Result<Response<SlotBody>, legacy::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), legacy::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let way = request.extensions().get::<CallKind>().copied().unwrap_or_default();
        let (http, place) = self.choose(way);
        let answer = http.request(request);
        Box::pin(async move { Ok(answer.await?.map(|body| SlotBody { body, _place: place })) })
    }
}

/// The body of a response, which holds its slot while it is read.
#[derive(Debug)]
pub(crate) struct SlotBody {
    body: Incoming,
    _place: Option<Slot>,
}

impl hyper::body::Body for SlotBody {
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
