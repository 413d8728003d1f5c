//! Cases beyond the contract that need a network.

use std::time::Duration;

use fetch::Fetcher;
use model::chain::Chain;
use model::ports::http::{Answer, Get, Headers, HttpError, HttpGet as _};
use testkit::http::Page;
use tokio::io::AsyncWriteExt as _;

use super::server::{Identity, Server, response};

fn get(url: impl Into<String>) -> Get {
    let headers = Headers::default();
    Get { url: url.into(), headers, limit: 100, timeout: Duration::from_secs(10) }
}

async fn fetch(request: &Get) -> Result<Answer, HttpError> {
    Fetcher::new("kubelet/test").get(request).await
}

fn headers(headers: &[(&str, &str)]) -> Headers {
    let one = |(name, value): &(&str, &str)| ((*name).to_owned(), vec![(*value).to_owned()]);
    Headers(headers.iter().map(one).collect())
}

#[tokio::test]
async fn request_has_user_agent_and_host() {
    let server = Server::start(None).await;
    server.put("page?a=b", response(Page::ok("text")));
    fetch(&get(server.url("page?a=b"))).await.unwrap();
    assert_eq!(server.requested("page?a=b", "user-agent"), [["kubelet/test"]]);
    assert_eq!(server.requested("page?a=b", "host"), [[format!("127.0.0.1:{}", server.port())]]);
    // The configuration may override the first header, but not the second.
    let own = headers(&[("User-Agent", "mine"), ("Host", "other"), ("Content-Length", "9")]);
    fetch(&Get { headers: own, ..get(server.url("page?a=b")) }).await.unwrap();
    assert_eq!(server.requested("page?a=b", "user-agent")[1], ["mine"]);
    assert_eq!(server.requested("page?a=b", "host")[1].len(), 1);
    assert!(server.requested("page?a=b", "content-length")[1].is_empty());
}

#[tokio::test]
async fn url_credentials_are_sent_unless_a_header_is_configured() {
    let server = Server::start(None).await;
    server.put("page", response(Page::ok("text")));
    let url = format!("http://user:pass@127.0.0.1:{}/page", server.port());
    fetch(&get(&url)).await.unwrap();
    let own = headers(&[("Authorization", "Bearer token")]);
    fetch(&Get { headers: own, ..get(&url) }).await.unwrap();
    let sent = server.requested("page", "authorization");
    assert_eq!(sent, [["Basic dXNlcjpwYXNz"], ["Bearer token"]]);
}

// behaviour: SRC-69
#[tokio::test]
async fn configured_headers_are_sent_only_to_the_configured_host() {
    let (here, there) = (Server::start(None).await, Server::start(None).await);
    here.put("same", response(Page::Redirect("/final".to_owned())));
    here.put("other", response(Page::Redirect(format!("http://localhost:{}/page", there.port()))));
    here.put("final", response(Page::ok("text")));
    there.put("page", response(Page::Redirect(here.url("final"))));
    let names = ["authorization", "cookie", "x-auth-token"];
    let own = headers(&names.map(|name| (name, "secret")));
    for page in ["same", "other"] {
        let answer = fetch(&Get { headers: own.clone(), ..get(here.url(page)) }).await.unwrap();
        assert_eq!(answer.body, b"text");
    }
    let nothing: Vec<String> = Vec::new();
    for name in names {
        assert_eq!(there.requested("page", name), std::slice::from_ref(&nothing), "{name}");
        // Not even after a redirect back.
        assert_eq!(here.requested("final", name), [vec!["secret".to_owned()], nothing.clone()]);
    }
    assert_eq!(there.requested("page", "user-agent"), [["kubelet/test"]]);
}

// behaviour: SRC-69
#[tokio::test]
async fn redirect_from_https_to_http_is_refused() {
    let identity = Identity::new("127.0.0.1");
    let fetcher = Fetcher::trusting("kubelet/test", vec![identity.authority.clone()]);
    let (secure, plain) = (Server::start(Some(identity)).await, Server::start(None).await);
    plain.put("page", response(Page::ok("forged")));
    secure.put("page", response(Page::Redirect(plain.url("page"))));
    secure.put("moved", response(Page::Redirect(secure.url("final"))));
    secure.put("final", response(Page::ok("text")));
    let error = fetcher.get(&get(secure.url("page"))).await.unwrap_err();
    assert!(matches!(error, HttpError::Downgrade(_)), "{error}");
    let expected = format!("redirect from https to http://127.0.0.1:{} refused", plain.port());
    assert_eq!(error.to_string(), expected);
    assert!(plain.requested("page", "host").is_empty(), "nothing is sent in plain text");
    assert_eq!(fetcher.get(&get(secure.url("moved"))).await.unwrap().body, b"text");
}

#[tokio::test]
async fn untrusted_certificate_is_refused() {
    let server = Server::start(Some(Identity::new("127.0.0.1"))).await;
    server.put("page", response(Page::ok("text")));
    let other_authority = Identity::new("127.0.0.1").authority;
    let fetcher = Fetcher::trusting("kubelet/test", vec![other_authority]);
    let error = fetcher.get(&get(server.url("page"))).await.unwrap_err();
    let text = Chain(&error).to_string();
    assert!(text.starts_with("make a secure connection to 127.0.0.1:"), "{text}");
    assert!(server.requested("page", "host").is_empty());
}

#[tokio::test]
async fn certificate_for_another_host_is_refused() {
    let identity = Identity::new("elsewhere.example");
    let fetcher = Fetcher::trusting("kubelet/test", vec![identity.authority.clone()]);
    let server = Server::start(Some(identity)).await;
    let error = fetcher.get(&get(server.url("page"))).await.unwrap_err();
    assert!(matches!(error, HttpError::Failed { .. }), "{error}");
}

#[tokio::test]
async fn body_may_be_chunked_or_end_with_the_connection() {
    let server = Server::start(None).await;
    let chunked =
        "HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
    server.put("chunked", Some(chunked.into()));
    server.put("open", Some("HTTP/1.0 200 x\r\n\r\nabc".into()));
    for page in ["chunked", "open"] {
        assert_eq!(fetch(&get(server.url(page))).await.unwrap().body, b"abc", "{page}");
    }
    let endless = format!("HTTP/1.0 200 x\r\n\r\n{}", "x".repeat(101));
    server.put("endless", Some(endless.into()));
    let error = fetch(&get(server.url("endless"))).await.unwrap_err();
    assert!(matches!(error, HttpError::TooLarge(100)), "{error}");
}

#[tokio::test]
async fn truncated_response_is_an_error() {
    let server = Server::start(None).await;
    let rows = [
        ("half", "HTTP/1.1 200 x\r\ncontent-length: 10\r\n\r\nabc"),
        ("nothing", ""),
        ("noise", "what do you want\r\n\r\n"),
    ];
    for (page, text) in rows {
        server.put(page, Some(text.into()));
        let error = fetch(&get(server.url(page))).await.unwrap_err();
        let has_begun = page == "half";
        assert_eq!(matches!(error, HttpError::CutOff { .. }), has_begun, "{page}: {error}");
        assert_eq!(matches!(error, HttpError::Failed { .. }), !has_begun, "{page}: {error}");
    }
}

#[tokio::test]
async fn redirect_without_a_valid_location_is_a_response_or_an_error() {
    let server = Server::start(None).await;
    server.put("unsaid", Some("HTTP/1.1 302 x\r\ncontent-length: 2\r\n\r\nno".into()));
    let answer = fetch(&get(server.url("unsaid"))).await.unwrap();
    assert_eq!((answer.status, &*answer.body), (302, &b"no"[..]));
    server.put("strange", response(Page::Redirect("gopher://hole".to_owned())));
    let error = fetch(&get(server.url("strange"))).await.unwrap_err();
    assert!(matches!(error, HttpError::Url(_)), "{error}");
}

#[tokio::test]
async fn error_names_an_invalid_header_without_its_value() {
    for (name, value) in [("x y", "secret"), ("x", "sec\nret"), ("", "secret")] {
        let request = Get { headers: headers(&[(name, value)]), ..get("http://127.0.0.1:1/") };
        let error = fetch(&request).await.unwrap_err();
        assert_eq!(error.to_string(), format!("unusable header {name:?}"));
    }
}

#[tokio::test]
async fn plain_http_server_error_differs_from_a_timeout() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        // The response of a web server to the first bytes of a handshake.
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n").await.unwrap();
        std::future::pending::<()>().await;
    };
    let request = get(url);
    let fetcher = Fetcher::trusting_any_server("kubelet/test");
    let error = tokio::select! {
        answer = fetcher.get(&request) => answer.unwrap_err(),
        () = serve => unreachable!("it never ends"),
    };
    assert!(matches!(error, HttpError::NotSecure), "{error}");
}

#[tokio::test]
async fn any_certificate_is_trusted_on_request() {
    let server = Server::start(Some(Identity::new("elsewhere.example"))).await;
    server.put("page", response(Page::ok("text")));
    let fetcher = Fetcher::trusting_any_server("kubelet/test");
    assert_eq!(fetcher.get(&get(server.url("page"))).await.unwrap().body, b"text");
}

// behaviour: ACT-144
#[tokio::test]
async fn pod_request_follows_no_redirect_to_another_host() {
    let (pod, other) = (Server::start(None).await, Server::start(None).await);
    other.put("page", response(Page::ok("secret")));
    pod.put("page", response(Page::ok("text")));
    let elsewhere = other.url("page").replace("127.0.0.1", "localhost");
    pod.put("elsewhere", response(Page::Redirect(elsewhere)));
    pod.put("here", response(Page::Redirect(pod.url("page"))));
    let fetcher = Fetcher::trusting_any_server("kubelet/test");
    let answer = fetcher.get(&get(pod.url("elsewhere"))).await.unwrap();
    assert_eq!((answer.status / 100, &*answer.body), (3, &b""[..]));
    assert!(other.requested("page", "host").is_empty());
    assert_eq!(fetcher.get(&get(pod.url("here"))).await.unwrap().body, b"text");
}
