use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::oci::Descriptor;
use crate::{catalogue, workload};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const WORKLOAD: &str = "/v2/ferrolet/workload/manifests/1";

fn registry() -> Registry {
    let mut registry = Registry::default();
    for image in catalogue(b"an executable") {
        registry.add(&image.archive().unwrap()).unwrap();
    }
    registry
}

/// A connection with complete input.
struct Connection<'a> {
    sent: &'a [u8],
    received: Vec<u8>,
}

impl Read for Connection<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.sent.read(buffer)
    }
}

impl Write for Connection<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.received.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a client received.
#[derive(Debug, PartialEq, Eq)]
struct Received {
    status: u16,
    head: String,
    body: Vec<u8>,
    log: Vec<String>,
}

impl Received {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The code of the failure, in the format that clients expect.
    fn failure(&self) -> String {
        assert_eq!(self.header("Content-Type"), Some("application/json"));
        assert!(self.json()["errors"][0]["message"].is_string());
        self.json()["errors"][0]["code"].as_str().unwrap().to_owned()
    }
}

fn send(registry: &Registry, sent: &[u8]) -> Received {
    let mut connection = Connection { sent, received: Vec::new() };
    let log = RefCell::default();
    let note = |line: &str| RefCell::<Vec<_>>::borrow_mut(&log).push(line.to_owned());
    http::exchange(registry, &mut connection, &note).unwrap();
    received(&connection.received, log.into_inner())
}

fn received(bytes: &[u8], log: Vec<String>) -> Received {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Received { status, head, body: bytes[end + 4..].to_vec(), log }
}

fn send_request(registry: &Registry, method: &str, target: &str) -> Received {
    let request = format!("{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\n\r\n");
    send(registry, request.as_bytes())
}

fn get(registry: &Registry, target: &str) -> Received {
    send_request(registry, "GET", target)
}

#[test]
fn version_check_returns_the_registry_version() {
    for path in ["/v2/", "/v2"] {
        let answer = get(&registry(), path);
        assert_eq!((answer.status, answer.json()), (200, serde_json::json!({})));
        assert_eq!(answer.header("Docker-Distribution-Api-Version"), Some("registry/2.0"));
    }
}

#[test]
fn private_registry_requires_its_login() {
    let registry = registry().with_login("robot:secret");
    let send_request = |header: &str| {
        send(&registry, format!("GET {WORKLOAD} HTTP/1.1\r\n{header}\r\n\r\n").as_bytes())
    };
    for header in ["Accept: */*", "Authorization: Basic eDp5"] {
        let answer = send_request(header);
        assert_eq!((answer.status, answer.failure()), (401, "UNAUTHORIZED".to_owned()));
        assert_eq!(answer.header("WWW-Authenticate"), Some("Basic realm=\"registry\""));
    }
    assert_eq!(send_request("authorization: Basic cm9ib3Q6c2VjcmV0").status, 200);
}

#[test]
fn manifest_is_served_by_tag_and_by_digest() {
    let registry = registry();
    let by_tag = get(&registry, WORKLOAD);
    assert_eq!(by_tag.status, 200);
    assert_eq!(by_tag.header("Content-Type"), Some(MANIFEST));
    assert_eq!(by_tag.header("Content-Length"), Some(&*by_tag.body.len().to_string()));
    let digest = Descriptor::of(&by_tag.body, "").digest;
    assert_eq!(by_tag.header("Docker-Content-Digest"), Some(&*digest));
    let by_digest = get(&registry, &format!("/v2/ferrolet/workload/manifests/{digest}"));
    assert_eq!((by_digest.head, by_digest.body), (by_tag.head, by_tag.body));
}

#[test]
fn all_blobs_of_a_manifest_are_served() {
    let registry = registry();
    for image in ["pause", "workload", "disposable"] {
        let manifest = get(&registry, &format!("/v2/ferrolet/{image}/manifests/1")).json();
        let layers = manifest["layers"].as_array().unwrap();
        for part in layers.iter().chain([&manifest["config"]]) {
            let digest = part["digest"].as_str().unwrap();
            let blob = get(&registry, &format!("/v2/ferrolet/{image}/blobs/{digest}"));
            assert_eq!(blob.status, 200);
            assert_eq!(blob.header("Docker-Content-Digest"), Some(digest));
            assert_eq!(Descriptor::of(&blob.body, "").digest, digest);
            assert_eq!(part["size"], blob.body.len());
        }
    }
}

#[test]
fn head_response_equals_get_without_a_body() {
    let registry = registry();
    for path in ["/v2/", WORKLOAD, "/v2/ferrolet/workload/manifests/2", "/"] {
        let (get, head) = (get(&registry, path), send_request(&registry, "HEAD", path));
        assert_eq!((head.head, head.body), (get.head, vec![]), "{path}");
    }
}

#[test]
fn query_string_is_ignored() {
    let registry = registry();
    let answer = get(&registry, &format!("{WORKLOAD}?ns=ferrolet.test"));
    assert_eq!(answer, get(&registry, WORKLOAD));
}

#[test]
fn unknown_path_is_not_found() {
    let registry = registry();
    let digest = get(&registry, WORKLOAD).header("Docker-Content-Digest").unwrap().to_owned();
    let padding =
        get(&registry, "/v2/ferrolet/disposable/manifests/1").json()["layers"][1]["digest"]
            .as_str()
            .unwrap()
            .to_owned();
    for (path, code) in [
        ("/v2/ferrolet/workload/manifests/2".to_owned(), "MANIFEST_UNKNOWN"),
        (format!("/v2/ferrolet/pause/manifests/{digest}"), "MANIFEST_UNKNOWN"),
        (format!("/v2/ferrolet/workload/blobs/sha256:{}", "0".repeat(64)), "BLOB_UNKNOWN"),
        (format!("/v2/ferrolet/workload/blobs/{padding}"), "BLOB_UNKNOWN"),
        ("/v2/ferrolet/absent/manifests/1".to_owned(), "NAME_UNKNOWN"),
        ("/v2/workload/manifests/1".to_owned(), "NAME_UNKNOWN"),
        ("/v2//manifests/1".to_owned(), "NAME_UNKNOWN"),
        ("/v2/ferrolet/workload/tags/list".to_owned(), "UNSUPPORTED"),
        ("/v2/manifests/1".to_owned(), "UNSUPPORTED"),
        ("/".to_owned(), "UNSUPPORTED"),
    ] {
        let answer = get(&registry, &path);
        assert_eq!((answer.status, &*answer.failure()), (404, code), "{path}");
    }
}

#[test]
fn methods_that_write_are_rejected() {
    for method in ["PUT", "POST", "PATCH", "DELETE", "get"] {
        let answer = send_request(&registry(), method, WORKLOAD);
        assert_eq!((answer.status, &*answer.failure()), (405, "UNSUPPORTED"), "{method}");
        assert_eq!(answer.header("Allow"), Some("GET, HEAD"));
    }
}

#[test]
fn malformed_request_is_rejected() {
    let registry = registry();
    for sent in [
        "",
        "\r\n\r\n",
        "GET",
        "GET /v2/ HTTP/1.1",
        "GET /v2/ HTTP/1.1\r\nHost: x",
        "GET /v2/\r\n\r\n",
        "GET /v2/ HTTP/2\r\n\r\n",
        "GET v2/ HTTP/1.1\r\n\r\n",
        " /v2/ HTTP/1.1\r\n\r\n",
        "GET  /v2/ HTTP/1.1\r\n\r\n",
        "GET /v2/ HTTP/1.1 \r\n\r\n",
        "GET /v2/\x1b[2J HTTP/1.1\r\n\r\n",
        "GET /v2/é HTTP/1.1\r\n\r\n",
    ] {
        let answer = send(&registry, sent.as_bytes());
        assert_eq!((answer.status, &*answer.failure()), (400, "UNSUPPORTED"), "{sent:?}");
    }
    assert_eq!(send(&registry, b"GET /v2/\xff HTTP/1.1\r\n\r\n").status, 400);
}

#[test]
fn line_ends_without_carriage_return_are_accepted() {
    assert_eq!(send(&registry(), b"GET /v2/ HTTP/1.0\nHost: x\n\n").status, 200);
}

#[test]
fn oversized_request_head_is_rejected() {
    let limit = usize::try_from(http::HEAD_LIMIT).unwrap();
    let of_size = |size: usize| {
        let (begin, end) = ("GET /v2/ HTTP/1.1\r\nX: ", "\r\n\r\n");
        format!("{begin}{}{end}", "x".repeat(size - begin.len() - end.len()))
    };
    assert_eq!(send(&registry(), of_size(limit).as_bytes()).status, 200);
    assert_eq!(send(&registry(), of_size(limit + 1).as_bytes()).status, 431);
    assert_eq!(send(&registry(), "x".repeat(limit).as_bytes()).status, 431);
}

#[test]
fn every_request_is_logged_with_its_result() {
    let registry = registry();
    assert_eq!(get(&registry, "/v2/").log, ["GET /v2/ 200"]);
    assert_eq!(send_request(&registry, "HEAD", "/x?y").log, ["HEAD /x 404"]);
    assert_eq!(send_request(&registry, "PUT", "/v2/").log, ["PUT /v2/ 405"]);
    assert_eq!(send(&registry, b"nonsense").log, ["? 400"]);
}

proptest! {
    #[test]
    fn any_input_gets_a_response(sent in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(send(&registry(), &sent).status >= 200);
    }

    #[test]
    fn any_path_gets_a_response(
        parts in prop::collection::vec("(v2|ferrolet|workload|manifests|blobs|1|[ -~]{0,3})", 0..8),
    ) {
        let answer = get(&registry(), &format!("/{}", parts.join("/")));
        prop_assert!([200, 400, 404].contains(&answer.status), "{}", answer.head);
    }
}

#[test]
fn client_is_served_over_tcp_after_malformed_requests() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let (lines, log) = mpsc::channel();
    std::thread::spawn(move || {
        serve(&registry(), &listener, &move |line| drop(lines.send(line.to_owned())));
    });
    let talk = |sent: &[u8]| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(sent).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        received(&bytes, vec![])
    };
    let logged = |wanted: &str| {
        while log.recv_timeout(Duration::from_secs(30)).expect(wanted) != wanted {}
    };
    // More malformed requests of each kind than there are workers.
    let mut large = b"GET /".to_vec();
    large.resize(100_000, b'x');
    // The start of a TLS greeting: the client waits for a response before it continues.
    let greeting = b"\x16\x03\x01\x02\x00";
    let upload = "PUT /v2/ferrolet/workload/manifests/1 HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello";
    for _ in 0..20 {
        assert_eq!(talk(&large).status, 431);
        logged("? 431");
        assert_eq!(talk(upload.as_bytes()).status, 405);
        logged("PUT /v2/ferrolet/workload/manifests/1 405");
        assert_eq!(talk(greeting).status, 400);
        logged("? 400");
        drop(TcpStream::connect(address).unwrap());
        logged("? 400");
    }
    let answer = talk(b"GET /v2/ferrolet/workload/manifests/1 HTTP/1.1\r\n\r\n");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("Connection"), Some("close"));
    logged("GET /v2/ferrolet/workload/manifests/1 200");
}

#[test]
fn archives_of_a_directory_are_served() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("note.txt"), "no archive").unwrap();
    let image = workload(vec![]).named("ferrolet.test/deep/down:7");
    image.write(directory.path()).unwrap();
    let registry = Registry::open(directory.path()).unwrap();
    assert_eq!(get(&registry, "/v2/ferrolet/deep/down/manifests/7").status, 200);
}
