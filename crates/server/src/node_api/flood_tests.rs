//! Clients that send excessive HTTP/2 frames and paths.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::HttpMetrics;
use super::test_port::{Options, Port, Who};
use crate::decide::{RouteSettings, labels};
use crate::test_tls::status;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `GET https://localhost/healthz`, compressed without Huffman codes.
const REQUEST: &[u8] = b"\x82\x87\x04\x08/healthz\x01\x09localhost";
const LONG: Duration = Duration::from_mins(1);

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Sends batches until the port closes the connection; returns how many it took, and the reason that it gave.
async fn flood(port: &Port, batch: impl Fn(u32) -> Vec<u8>, most: u32) -> (u32, Option<u32>) {
    let versions = rustls::DEFAULT_VERSIONS;
    let stream = port.authority.connect(port.address, versions, None).await.unwrap();
    let (mut reader, mut writer) = tokio::io::split(stream);
    let reading = async {
        let (mut all, mut chunk) = (Vec::new(), [0; 16 << 10]);
        // A connection that is reset has ended too.
        while let Ok(count) = reader.read(&mut chunk).await {
            if count == 0 {
                break;
            }
            all.extend_from_slice(&chunk[..count]);
        }
        all
    };
    let writing = async {
        let first = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
        writer.write_all(&first).await.unwrap();
        for number in 0..most {
            if writer.write_all(&batch(number)).await.is_err() || writer.flush().await.is_err() {
                return number;
            }
        }
        most
    };
    let (read, sent) =
        Box::pin(timeout(LONG, async { tokio::join!(reading, writing) })).await.unwrap();
    (sent, reason(&read))
}

/// The error code of the first GOAWAY frame that has one.
fn reason(mut bytes: &[u8]) -> Option<u32> {
    while bytes.len() >= 9 {
        let length = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
        let payload = bytes.get(9..9 + usize::try_from(length).unwrap())?;
        if bytes[3] == GOAWAY {
            let code = u32::from_be_bytes(payload[4..8].try_into().unwrap());
            if code != 0 {
                return Some(code);
            }
        }
        bytes = &bytes[9 + payload.len()..];
    }
    None
}

const ENHANCE_YOUR_CALM: u32 = 0xb;

/// The number of requests that the metrics have counted.
fn counted(port: &Port) -> f64 {
    let families = port.metrics.gather();
    let requests = families.iter().filter(|one| one.name() == "kubelet_http_requests_total");
    requests
        .flat_map(prometheus::proto::MetricFamily::get_metric)
        .map(|one| one.get_counter().get_value())
        .sum()
}

// behaviour: SRV-25
#[tokio::test]
async fn rapid_resets_end_the_connection() {
    let port = Port::open(Options::default()).await;
    let batch = |number: u32| {
        let streams = (0..100).map(|index| 2 * (100 * number + index) + 1);
        let pair = |stream| {
            let request = frame(HEADERS, END_STREAM | END_HEADERS, stream, REQUEST);
            [request, frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat()
        };
        streams.flat_map(pair).collect()
    };
    let (sent, reason) = Box::pin(flood(&port, batch, 1000)).await;
    assert!(sent < 1000, "100,000 requests were read");
    assert_eq!(reason, Some(ENHANCE_YOUR_CALM));
    assert!(counted(&port) < 1000.0, "{}", counted(&port));
    assert_eq!(port.ask(Who::Token("prober"), "GET", "/healthz").await.0, 200);
}

// behaviour: SRV-25
#[tokio::test]
async fn endless_headers_close_the_connection() {
    let port = Port::open(Options::default()).await;
    // A header of 16 KiB in each frame; the last one never comes.
    let mut header = b"\x00\x01x\x7f\x81\x7e".to_vec();
    header.resize(header.len() + 16_256, b'x');
    let batch = |number: u32| match number {
        0 => frame(HEADERS, END_STREAM, 1, REQUEST),
        _ => frame(CONTINUATION, 0, 1, &header),
    };
    let (sent, reason) = Box::pin(flood(&port, batch, 100_000)).await;
    assert!(sent < 2000, "{sent} frames were read");
    assert!(reason.is_some(), "no reason was given");
    assert_eq!(port.ask(Who::Token("prober"), "GET", "/healthz").await.0, 200);
}

/// Pseudo-random numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn word(&mut self, letters: &[u8]) -> String {
        let length = 1 + self.below(12);
        (0..length).map(|_| char::from(letters[self.below(letters.len())])).collect()
    }

    /// A request with a random method and path, of which some begin like those that are served.
    fn request(&mut self) -> String {
        let roots = ["pods", "metrics", "exec", "healthz", "stats", "logs", "debug", "configz"];
        let methods = ["GET", "HEAD", "PUT", "DELETE", "PATCH", "TRACE"];
        let method = match self.below(2) {
            0 => methods[self.below(methods.len())].to_owned(),
            _ => self.word(b"ABCDEFGHIJ"),
        };
        let root = match self.below(2) {
            0 => roots[self.below(roots.len())].to_owned(),
            _ => self.word(b"abcdefghij%20/.~"),
        };
        let rest = self.word(b"abcdefghijklmnop/");
        let version = "HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n";
        format!("{method} /{root}/{rest} {version}")
    }
}

// behaviour: SRV-5
#[tokio::test]
async fn random_paths_and_methods_add_no_series() {
    let port = Port::open(Options::default()).await;
    let mut numbers = Numbers(28);
    let mut stream = TcpStream::connect(port.read_only).await.unwrap();
    let requests: String = (0..1000).map(|_| numbers.request()).collect();
    let (mut reader, mut writer) = stream.split();
    let writing = async {
        writer.write_all(requests.as_bytes()).await.unwrap();
        let last = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        writer.write_all(last).await.unwrap();
    };
    let reading = async {
        let mut answers = Vec::new();
        reader.read_to_end(&mut answers).await.unwrap();
        String::from_utf8_lossy(&answers).into_owned()
    };
    let (answers, ()) = timeout(LONG, async { tokio::join!(reading, writing) }).await.unwrap();
    let (_, last) = answers.rsplit_once("HTTP/1.1 ").unwrap();
    assert_eq!(status(&format!("HTTP/1.1 {last}")), 200, "{last}");
    assert!(counted(&port) >= 1000.0, "{}", counted(&port));
    // The rest without a connection: only the labels could add series.
    let metrics = prometheus::Registry::new();
    let http = HttpMetrics::new(&metrics).unwrap();
    let routes = RouteSettings {
        debugging: true,
        system_logs: true,
        debug_flags: true,
        get_allows_streams: false,
    };
    for _ in 0..100_000 {
        let request = numbers.request();
        let mut words = request.split(' ');
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        drop(http.begin(labels(method, path, routes), "readwrite"));
    }
    let series: usize = metrics.gather().iter().map(|one| one.get_metric().len()).sum();
    assert!(series < 500, "{series}");
}
