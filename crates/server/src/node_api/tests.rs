//! The API over TLS, with many kinds of clients.

use base64::Engine as _;
use rcgen::ExtendedKeyUsagePurpose;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::test_port::{Behind, Options, Port, Who, body};
use super::*;
use crate::slots::MOST_CONNECTIONS;
use crate::test_tls::{Authority, named};

// behaviour: SRV-2, SRV-10
#[tokio::test]
async fn every_served_path_needs_authentication_and_authorization() {
    let port = Port::open(Options::default()).await;
    let (admin, foreign) = (port.authority.client("admin"), Authority::new().client("admin"));
    let mut old = named("admin");
    old.not_before = rcgen::date_time_ymd(1960, 1, 1);
    old.not_after = rcgen::date_time_ymd(1961, 1, 1);
    let expired = port.authority.issue(old, ExtendedKeyUsagePurpose::ClientAuth);
    let of_server = port.authority.issue(named("admin"), ExtendedKeyUsagePurpose::ServerAuth);
    let whos = [
        Who::Anonymous,
        Who::Certificate(&foreign),
        Who::Certificate(&expired),
        Who::Certificate(&of_server),
        Who::Token("bad"),
        Who::Token("unknown"),
        Who::Token("reader"),
        Who::Token("scraper"),
        Who::Token("prober"),
        Who::Certificate(&admin),
        Who::Both(&foreign, "admin"),
    ];
    let rows = [
        ("GET", "/healthz", [401, 401, 401, 401, 401, 403, 200, 403, 200, 200, 200]),
        ("GET", "/pods", [401, 401, 401, 401, 401, 403, 200, 403, 403, 200, 200]),
        ("GET", "/pods/x", [401, 401, 401, 401, 401, 403, 404, 403, 403, 404, 404]),
        ("GET", "/metrics", [401, 401, 401, 401, 401, 403, 403, 200, 403, 200, 200]),
        ("GET", "/exec/ns/p/c", [401, 401, 401, 401, 401, 403, 403, 403, 403, 200, 200]),
        ("POST", "/exec/ns/p/c", [401, 401, 401, 401, 401, 403, 403, 403, 403, 200, 200]),
        ("GET", "/containerLogs/ns/p/c", [401, 401, 401, 401, 401, 403, 200, 403, 403, 200, 200]),
        ("GET", "/unknown", [404; 11]),
        ("GET", "/", [404; 11]),
    ];
    for (method, path, expected) in rows {
        let mut seen = Vec::new();
        for who in whos {
            seen.push(port.ask(who, method, path).await.0);
        }
        assert_eq!(seen, expected, "{method} {path}");
    }
}

// behaviour: SRV-10, SRV-11
#[tokio::test]
async fn refusals_have_upstreams_texts() {
    let port = Port::open(Options::default()).await;
    let (_, answer) = port.ask(Who::Anonymous, "GET", "/pods").await;
    assert_eq!(body(&answer), "Unauthorized");
    let (_, answer) = port.ask(Who::Token("scraper"), "GET", "/pods").await;
    let text = "Forbidden (user=scraper, verb=get, resource=nodes, subresource(s)=[pods proxy])\n";
    assert_eq!(body(&answer), text);
    let asked = std::mem::take(&mut *port.reviewer.asked.lock().unwrap());
    let of = |subresource| format!("scraper system:authenticated get {subresource}");
    assert_eq!(asked, [of("pods"), of("proxy")]);
    let (_, answer) = port.ask(Who::Anonymous, "GET", "/foo").await;
    assert_eq!(body(&answer), "404 page not found\n");
    let (status, answer) = port.ask(Who::Anonymous, "GET", "//pods?x=1").await;
    assert!(status == 307 && answer.contains("location: /pods?x=1\r\n"), "{answer}");
    let (status, answer) = port.ask(Who::Token("admin"), "POST", "/pods").await;
    assert_eq!(body(&answer), "405: Method Not Allowed");
    assert!(status == 405 && answer.contains("allow: GET\r\n"), "{answer}");
}

// behaviour: SRV-12
#[tokio::test]
async fn nothing_is_served_while_the_api_server_is_unavailable() {
    let mut options = Options::default();
    options.reviewer.is_away = true;
    let port = Port::open(options).await;
    let admin = port.authority.client("admin");
    assert_eq!(port.ask(Who::Token("admin"), "GET", "/pods").await.0, 401);
    let (status, answer) = port.ask(Who::Certificate(&admin), "GET", "/pods").await;
    assert_eq!(status, 500);
    let text = "Authorization error (user=admin, verb=get, resource=nodes, subresource=pods)";
    assert_eq!(body(&answer), text);
}

// behaviour: SRV-7
#[tokio::test]
async fn anonymous_is_only_a_client_without_credentials() {
    let mut options = Options { anonymous: true, ..Options::default() };
    options.reviewer.allowed.push(("system:anonymous", "get", "metrics"));
    let port = Port::open(options).await;
    let foreign = Authority::new().client("admin");
    let rows = [
        (Who::Anonymous, "/metrics", 200),
        (Who::Anonymous, "/pods", 403),
        (Who::Token("bad"), "/metrics", 401),
        (Who::Certificate(&foreign), "/metrics", 401),
    ];
    for (who, path, expected) in rows {
        assert_eq!(port.ask(who, "GET", path).await.0, expected, "{path}");
    }
    let all = Options { anonymous: true, webhook: false, ..Options::default() };
    let port = Port::open(all).await;
    assert_eq!(port.ask(Who::Anonymous, "GET", "/pods").await.0, 200, "AlwaysAllow");
}

// behaviour: SRV-7
#[tokio::test]
async fn token_of_a_websocket_is_accepted() {
    let port = Port::open(Options::default()).await;
    let token = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode("admin");
    let more = format!(
        "upgrade: websocket\r\nsec-websocket-protocol: v4.channel.k8s.io, \
         base64url.bearer.authorization.k8s.io.{token}\r\n\r\n"
    );
    let (status, answer) = port.ask_with(Who::Anonymous, "GET", "/exec/ns/p/c", &more).await;
    assert_eq!(status, 200, "{answer}");
    assert!(body(&answer).ends_with(" admin false"), "{answer}");
}

// behaviour: SRV-20
#[tokio::test]
async fn endpoints_respond_like_upstream() {
    let port = Port::open(Options::default()).await;
    let json = "content-type: application/json\r\n";
    let text = "content-type: text/plain; charset=utf-8\r\n";
    let metrics =
        "content-type: text/plain; version=0.0.4; charset=utf-8; escaping=underscores\r\n";
    let rows = [
        ("GET", "/healthz", 200, text, "ok"),
        ("GET", "/healthz/log", 200, text, "ok"),
        ("GET", "/healthz/other", 404, text, "404 page not found\n"),
        (
            "GET",
            "/healthz?verbose&exclude=ping&exclude=x",
            200,
            text,
            "[+]ping excluded: ok\n[+]log ok\n[+]syncloop ok\nwarn: some health checks cannot be \
             excluded: no matches for \"x\"\nhealthz check passed\n",
        ),
        ("GET", "/configz", 200, json, r#"{"kubeletconfig":{}}"#),
        ("GET", "/metrics", 200, metrics, "up 1\n"),
        ("GET", "/metrics/probes", 200, metrics, "up 1\n"),
        ("GET", "/stats/summary", 200, json, r#"{"onlyCpuAndMemory":false}"#),
        (
            "GET",
            "/stats/summary?only_cpu_and_memory=true",
            200,
            json,
            r#"{"onlyCpuAndMemory":true}"#,
        ),
        ("GET", "/metrics/resource", 200, metrics, "node 1 1000\n"),
        ("GET", "/metrics/cadvisor", 200, metrics, "container 1 1000\n"),
        ("GET", "/debug/pprof/profile", 405, text, "profiling endpoint is disabled.\n"),
        ("GET", "/debug/flags/v", 406, "content-type: text/plain\r\n", "unsupported http method\n"),
        ("GET", "/logs/none", 404, text, "404 page not found\n"),
        ("GET", "/pods/x", 404, text, "404: Page Not Found"),
    ];
    for (method, path, expected, header, content) in rows {
        let (status, answer) = port.ask(Who::Token("admin"), method, path).await;
        assert_eq!(status, expected, "{path}: {answer}");
        assert!(answer.contains(header), "{path}: {answer}");
        assert_eq!(body(&answer), content, "{path}");
    }
    let (_, answer) = port.ask(Who::Token("admin"), "GET", "/runningpods/").await;
    assert!(body(&answer).contains(r#""containers":[{"name":"main"}]"#), "{answer}");
    let more = "content-length: 1\r\n\r\n4";
    let (_, answer) = port.ask_with(Who::Token("admin"), "PUT", "/debug/flags/v", more).await;
    assert_eq!(body(&answer), "successfully set klog.logging.verbosity to 4\n");
    assert_eq!(*port.behind.set.lock().unwrap(), [4]);
    let (_, answer) = port.ask(Who::Token("admin"), "GET", "/flagz").await;
    assert!(body(&answer).ends_with("\nroot-dir=/r\n"), "{answer}");
    let (_, answer) = port.ask(Who::Token("admin"), "GET", "/statusz").await;
    assert!(body(&answer).contains("Emulation version: 1.36\n"), "{answer}");
}

// behaviour: SRV-20
#[tokio::test]
async fn failed_health_check_withholds_its_reason_from_the_list() {
    let behind = Behind { is_stuck: true, ..Behind::default() };
    let port = Port::open(Options { behind, ..Options::default() }).await;
    let (status, answer) = port.ask(Who::Token("prober"), "GET", "/healthz").await;
    let lines =
        "[+]ping ok\n[+]log ok\n[-]syncloop failed: reason withheld\nhealthz check failed\n";
    assert_eq!((status, body(&answer)), (500, lines));
    let (status, answer) = port.ask(Who::Token("prober"), "GET", "/healthz/syncloop").await;
    assert_eq!((status, body(&answer)), (500, "internal server error: stuck for 6m\n"));
    assert_eq!(port.ask(Who::Token("prober"), "GET", "/healthz?exclude=syncloop").await.0, 200);
    let (_, answer) = port.ask(Who::Token("admin"), "GET", "/metrics/slis").await;
    let lines = [
        r#"kubernetes_healthcheck{name="syncloop",type="healthz"} 0"#,
        r#"kubernetes_healthchecks_total{name="syncloop",status="error",type="healthz"} 1"#,
        r#"kubernetes_healthchecks_total{name="ping",status="success",type="healthz"} 2"#,
    ];
    for line in lines {
        assert!(answer.contains(line), "{line}: {answer}");
    }
    let (_, answer) = port.ask(Who::Token("admin"), "DELETE", "/metrics/slis").await;
    assert_eq!(body(&answer), "metrics reset\n");
}

// behaviour: STA-9
#[tokio::test]
async fn summary_that_cannot_be_made_is_an_internal_error() {
    let behind = Behind { is_stuck: true, ..Behind::default() };
    let port = Port::open(Options { behind, ..Options::default() }).await;
    let (status, answer) = port.ask(Who::Token("admin"), "GET", "/stats/summary").await;
    let expected = "Internal Error: read cgroups: no such file";
    assert_eq!((status, body(&answer)), (500, expected));
}

// behaviour: SRV-22
#[tokio::test]
async fn system_logs_are_files_and_lists() {
    let port = Port::open(Options::default()).await;
    let (_, answer) = port.ask(Who::Token("admin"), "GET", "/logs/").await;
    assert!(answer.contains("content-type: text/html; charset=utf-8\r\n"), "{answer}");
    assert!(body(&answer).contains("<a href=\"a%3Cb\">a&lt;b</a>\n<a href=\"pods/\">pods/</a>\n"));
    let (status, answer) = port.ask(Who::Token("admin"), "GET", "/logs/pods").await;
    assert!(status == 301 && answer.contains("location: pods/\r\n"), "{answer}");
    let (_, answer) = port.ask(Who::Token("admin"), "GET", "/logs/syslog").await;
    assert!(answer.contains("content-length: 250000\r\n"));
    assert_eq!(body(&answer), "line\n".repeat(50_000));
}

// behaviour: SRV-4, SRV-15
#[tokio::test]
async fn read_only_port_has_few_endpoints_and_no_authentication() {
    let port = Port::open(Options::default()).await;
    let rows = [
        ("/healthz", 200),
        ("/healthz/ping", 200),
        ("/pods", 200),
        ("/metrics", 200),
        ("/metrics/slis", 200),
        ("/stats/summary", 200),
        ("/metrics/resource", 200),
        ("/metrics/cadvisor", 200),
        ("/exec/ns/p/c", 405),
        ("/containerLogs/ns/p/c", 405),
        ("/runningpods/", 405),
        ("/logs/", 405),
        ("/configz", 404),
        ("/debug/flags/v", 404),
        ("/", 404),
    ];
    for (path, expected) in rows {
        assert_eq!(port.ask_read_only("GET", path).await.0, expected, "{path}");
    }
    let (_, answer) = port.ask_read_only("POST", "/exec/ns/p/c").await;
    assert_eq!(body(&answer), "Debug endpoints are disabled.\n");
}

// behaviour: SRV-5
#[tokio::test]
async fn requests_are_counted_with_upstreams_labels() {
    let port = Port::open(Options::default()).await;
    port.ask(Who::Anonymous, "GET", "/exec/ns/p/c").await;
    port.ask(Who::Token("admin"), "GET", "/metrics/cadvisor").await;
    port.ask_read_only("GET", "/secret/path").await;
    let text = prometheus::TextEncoder::new().encode_to_string(&port.metrics.gather()).unwrap();
    let lines = [
        r#"kubelet_http_requests_total{long_running="true",method="GET",path="exec",server_type="readwrite"} 1"#,
        r#"kubelet_http_requests_total{long_running="false",method="GET",path="metrics/cadvisor",server_type="readwrite"} 1"#,
        r#"kubelet_http_requests_total{long_running="false",method="GET",path="other",server_type="readonly"} 1"#,
        r#"kubelet_http_inflight_requests{long_running="true",method="GET",path="exec",server_type="readwrite"} 0"#,
        r#"kubelet_http_requests_duration_seconds_count{long_running="true",method="GET",path="exec",server_type="readwrite"} 1"#,
    ];
    for line in lines {
        assert!(text.contains(line), "{line}: {text}");
    }
}

// behaviour: SRV-16
#[tokio::test]
async fn cached_clients_are_served_while_reviews_and_idle_connections_hold_slots() {
    let port = Arc::new(Port::open(Options::default()).await);
    assert_eq!(port.ask(Who::Token("prober"), "GET", "/healthz").await.0, 200);
    let mut asking = JoinSet::new();
    for number in 0..MOST_CONNECTIONS - 16 {
        let port = Arc::clone(&port);
        let token = format!("hung-{number}");
        asking.spawn(async move { port.ask(Who::Token(&token), "GET", "/pods").await.0 });
    }
    let mut hung = port.reviewer.hung.subscribe();
    hung.wait_for(|count| *count == MOST_CONNECTIONS - 16).await.unwrap();
    let (status, answer) = port.ask(Who::Token("one-more"), "GET", "/pods").await;
    assert_eq!(status, 429);
    assert!(answer.contains("retry-after: 1\r\n"), "{answer}");
    let mut idle = Vec::new();
    for _ in 0..2 * MOST_CONNECTIONS {
        idle.push(TcpStream::connect(port.address).await.unwrap());
    }
    assert_eq!(port.ask(Who::Token("prober"), "GET", "/healthz").await.0, 200);
}

// behaviour: SRV-16
#[tokio::test(start_paused = true)]
async fn connection_without_a_request_or_idle_is_closed() {
    let port = Port::open(Options::default()).await;
    let admin = port.authority.client("admin");
    let versions = rustls::DEFAULT_VERSIONS;
    // Half a request.
    let mut slow = port.authority.connect(port.address, versions, None).await.unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nhost: lo").await.unwrap();
    let mut rest = Vec::new();
    let start = tokio::time::Instant::now();
    drop(slow.read_to_end(&mut rest).await);
    let waited = start.elapsed().as_secs();
    assert!((10..=16).contains(&waited) && rest.is_empty(), "{waited} {rest:?}");
    for (who, least, most) in [(None, 2, 8), (Some(&admin), 90, 96)] {
        let mut stream = port.authority.connect(port.address, versions, who).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let start = tokio::time::Instant::now();
        let mut rest = Vec::new();
        drop(stream.read_to_end(&mut rest).await);
        let waited = start.elapsed().as_secs();
        assert!((least..=most).contains(&waited) && !rest.is_empty(), "{waited}");
    }
}

// behaviour: SRV-17
#[tokio::test]
async fn headers_may_have_up_to_a_mebibyte() {
    let port = Port::open(Options::default()).await;
    for (length, expected) in [(900_000, 200), (1_100_000, 431)] {
        let more = format!("x: {}\r\n\r\n", "x".repeat(length));
        let answer = port.ask_with(Who::Token("prober"), "GET", "/healthz", &more).await;
        assert_eq!(answer.0, expected, "{length}");
    }
}

// behaviour: SRV-17
#[tokio::test]
async fn requests_share_a_connection_of_http2() {
    use http_body_util::{BodyExt as _, Empty};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    let port = Port::open(Options::default()).await;
    let admin = port.authority.client("admin");
    let versions = rustls::DEFAULT_VERSIONS;
    let stream = port.authority.connect(port.address, versions, Some(&admin)).await.unwrap();
    let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { drop(connection.await) });
    let get = |path: &str| {
        let request = Request::builder().uri(format!("https://localhost{path}"));
        let request = request.body(Empty::<hyper::body::Bytes>::new()).unwrap();
        let mut sender = sender.clone();
        async move {
            let answer = sender.send_request(request).await.unwrap();
            let status = answer.status().as_u16();
            (status, answer.into_body().collect().await.unwrap().to_bytes())
        }
    };
    let (health, logs, none) = tokio::join!(get("/healthz"), get("/logs/syslog"), get("/none"));
    assert_eq!((health.0, &health.1[..]), (200, &b"ok"[..]));
    assert_eq!((logs.0, logs.1.len(), none.0), (200, 250_000, 404));
}
