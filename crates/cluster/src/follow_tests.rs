use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::*;
use crate::bucket::Bucket;
use crate::decode::Metadata;
use crate::{Connection, Rate};

/// An object with a name.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TestObject<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

has_slim_metadata!(TestObject);

/// Objects whose watch the server may end at any time, or never before its timeout.
struct TestObjects<const LASTS: u64>;

impl<const LASTS: u64> Kind for TestObjects<LASTS> {
    type Object<'a> = TestObject<'a>;
    type Record = ();
    type Key = ();
    const NAME: &'static str = "things";
    const LASTS: Duration = Duration::from_secs(LASTS);
    const FIRST_WAIT: Duration = Duration::from_millis(1);

    fn path(&self) -> Cow<'_, str> {
        "/things".into()
    }

    fn key(_: &Identity<'_>) {}

    fn record(&self, _: TestObject<'_>) {}
}

#[derive(Debug)]
struct NoopSink;

impl Sink<(), ()> for NoopSink {
    fn receive(&self, _: Change<(), ()>) {}
}

const END: &str = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;

const EXPIRED: &str = r#"{"type":"ERROR","object":{"kind":"Status","code":410}}"#;

/// The requests to a server that ends every watch at once with this text, in short form.
async fn requested<const LASTS: u64>(count: usize, end_text: &str) -> Vec<&'static str> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let connection = Connection::find(None, Some(&address), "test/1").await.unwrap();
    let (bucket, events) = (Bucket::new(Rate::UNLIMITED), Bucket::new(Rate::UNLIMITED));
    let caller = Caller::new(connection, bucket, events);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { Follower::new(&caller, TestObjects::<LASTS>, &NoopSink).run().await });
    let mut requested = Vec::new();
    while requested.len() < count {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(stream.read_u8().await.unwrap());
        }
        let request = String::from_utf8(request).unwrap();
        let (what, body) = if request.contains("limit=1") {
            ("version", r#"{"metadata":{"resourceVersion":"5"}}"#.to_owned())
        } else if request.contains("sendInitialEvents") {
            ("list", format!("{END}\n"))
        } else {
            ("watch", end_text.to_owned())
        };
        requested.push(what);
        let length = body.len();
        let head =
            format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
    }
    requested
}

// behaviour: PGC-127
#[tokio::test]
async fn server_version_is_read_only_after_a_watch_that_ended_early() {
    let limit = Duration::from_secs(30);
    let in_time = timeout(limit, requested::<0>(4, "")).await.unwrap();
    assert_eq!(in_time, ["list", "watch", "watch", "watch"]);
    let early = timeout(limit, requested::<300>(5, "")).await.unwrap();
    assert_eq!(early, ["list", "version", "watch", "version", "watch"]);
}

// behaviour: PGC-123
#[tokio::test]
async fn relist_delay_grows_while_versions_expire_immediately() {
    let begun = Instant::now();
    let watches = 8;
    let expired = format!("{EXPIRED}\n");
    let requested = timeout(Duration::from_secs(30), requested::<300>(3 * watches, &expired)).await;
    assert_eq!(requested.unwrap(), ["list", "version", "watch"].repeat(watches));
    // The delays between them are at least 1, 2, 4 and so on up to 64 ms.
    assert!(begun.elapsed() >= Duration::from_millis(127), "{:?}", begun.elapsed());
}

// behaviour: PGC-123
#[test]
fn relist_delay_is_capped_and_reset_by_a_long_watch() {
    let mut rests = RelistBackoff::new(Duration::from_secs(1));
    let grown: Vec<u64> = (0..7).map(|_| rests.take().as_secs()).collect();
    assert_eq!(grown, [1, 2, 4, 8, 16, 30, 30]);
    rests.lasted(LONGEST_WAIT.saturating_sub(Duration::from_secs(1)));
    assert_eq!(rests.take(), LONGEST_WAIT);
    rests.lasted(LONGEST_WAIT);
    assert_eq!(rests.take(), Duration::from_secs(1));
}
