//! Requests of a Go client that connects to a path, and the responses.

use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use proto::podresources_v1::ListPodResourcesResponse;
use server::pod_resources::Listed;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::node::Node;

/// Frame types.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const GO_AWAY: u8 = 7;

/// Frame flags: end of stream; end of headers.
const LAST: u8 = 0x1;
const WHOLE: u8 = 0x4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn text(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap();
    std::iter::once(length).chain(text.bytes()).collect()
}

/// Literal headers, which are added to the tables of both ends.
fn first_headers() -> Vec<u8> {
    [
        vec![0x83, 0x86, 0x44],
        text("/v1.PodResourcesLister/List"),
        vec![0x41],
        text("%2Fvar%2Flib%2Fkubelet%2Fpod-resources%2Fkubelet.sock"),
        vec![0x5f],
        text("application/grpc"),
        vec![0x40],
        text("te"),
        text("trailers"),
    ]
    .concat()
}

/// The same headers, all indexed: the newest has index 62.
const HEADERS_AGAIN: [u8; 6] = [0x83, 0x86, 0xc1, 0xc0, 0xbf, 0xbe];

async fn read_frame(stream: &mut DuplexStream) -> (u8, u8, u32, Vec<u8>) {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.unwrap();
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut payload).await.unwrap();
    (head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]), payload)
}

/// Calls, and returns the names of the pods in the answer.
async fn call(stream: &mut DuplexStream, id: u32, headers: &[u8]) -> Vec<String> {
    stream.write_all(&frame(HEADERS, WHOLE, id, headers)).await.unwrap();
    // A message of zero bytes: not compressed, length 0.
    stream.write_all(&frame(DATA, LAST, id, &[0; 5])).await.unwrap();
    let mut answer = Vec::new();
    loop {
        let (kind, flags, of, payload) = read_frame(stream).await;
        assert!(kind != RESET && kind != GO_AWAY, "the call was refused: {payload:?}");
        if of != id {
            continue;
        }
        if kind == DATA {
            answer.extend(payload);
        }
        if flags & LAST != 0 && (kind == DATA || kind == HEADERS) {
            break;
        }
    }
    let answer = ListPodResourcesResponse::decode(&answer[5..]).unwrap();
    answer.pod_resources.into_iter().map(|pod| pod.name).collect()
}

// behaviour: PRS-9
#[tokio::test]
async fn go_client_with_a_socket_path_authority_is_served() {
    let node = Node::new(Listed::Active);
    let (mut client, server) = tokio::io::duplex(1024);
    let mut tasks = JoinSet::new();
    tasks.spawn(Arc::clone(&node.lister).answer(server));
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    client.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    assert_eq!(call(&mut client, 1, &first_headers()).await, ["web"]);
    assert_eq!(call(&mut client, 3, &HEADERS_AGAIN).await, ["web"]);
    // A closed connection ends its task.
    drop(client);
    tasks.join_next().await.unwrap().unwrap();
}

// behaviour: PRS-12
#[tokio::test(start_paused = true)]
async fn connection_without_calls_is_closed_after_90_seconds() {
    let node = Node::new(Listed::Active);
    let (_silent, server) = tokio::io::duplex(1024);
    let (mut client, other) = tokio::io::duplex(1024);
    let (mut tasks, begun) = (JoinSet::new(), Instant::now());
    let ended = async |tasks: &mut JoinSet<()>| {
        tasks.join_next().await.unwrap().unwrap();
        begun.elapsed().as_secs()
    };
    tasks.spawn(Arc::clone(&node.lister).answer(server));
    tasks.spawn(Arc::clone(&node.lister).answer(other));
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    client.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(call(&mut client, 1, &first_headers()).await, ["web"]);
    let seconds = ended(&mut tasks).await;
    assert!((90..=92).contains(&seconds), "the one that never called: {seconds}");
    let seconds = ended(&mut tasks).await;
    assert!((150..=152).contains(&seconds), "90 seconds after its last call: {seconds}");
    loop {
        let (kind, ..) = read_frame(&mut client).await;
        if kind == GO_AWAY {
            break;
        }
    }
}
