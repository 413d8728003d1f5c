//! The request of an HTTP probe.

use std::fmt::Write as _;

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::header::{
    AUTHORIZATION, CONNECTION, HOST, HeaderName, HeaderValue, REFERER, USER_AGENT,
};
use hyper::{HeaderMap, Request, Uri};

use super::text::quoted;
use crate::target::Target;

/// Headers that Go's client always writes itself.
const NOT_TO_SET: [&str; 6] =
    ["host", "user-agent", "content-length", "transfer-encoding", "trailer", "connection"];

/// A GET request.
#[derive(Debug, Clone)]
pub(super) struct Get {
    pub(super) target: Target,
    /// The `Host` header of the probe.
    host: Option<String>,
    headers: HeaderMap,
}

impl Get {
    /// The first request of a probe.
    pub(super) fn new(target: Target, given: &[(String, String)]) -> Result<Self, String> {
        let host = first(given, "host").filter(|host| !host.is_empty()).map(str::to_owned);
        Ok(Self { target, host, headers: headers(given)? })
    }

    /// The request after a redirect to `target`, which the location header names as `location`.
    pub(super) fn redirected(&self, target: Target, location: &str) -> Self {
        let mut next = self.clone();
        // A host of the probe stays unless the location has its own.
        next.host = next.host.filter(|_| !location.contains("://"));
        let is_downgrade = self.target.is_secure && !target.is_secure;
        if let Ok(referer) = HeaderValue::from_str(&url(&self.target))
            && !is_downgrade
        {
            next.headers.insert(REFERER, referer);
        }
        next.target = target;
        next
    }

    /// The request as HTTP/1.1 sends it.
    pub(super) fn http1(&self) -> Result<Request<Empty<Bytes>>, String> {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = self.target.path.parse().map_err(|_| "invalid URL path")?;
        let host = self.host.as_deref().unwrap_or(&self.target.authority);
        let host = HeaderValue::from_str(host).map_err(|_| "http: invalid Host header")?;
        let headers = request.headers_mut();
        headers.insert(HOST, host);
        self.append_headers(headers);
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        Ok(request)
    }

    /// The request as HTTP/2 sends it.
    pub(super) fn http2(&self) -> Result<Request<Empty<Bytes>>, String> {
        let mut request = Request::new(Empty::new());
        let host = self.host.as_deref().unwrap_or(&self.target.authority);
        let uri = Uri::builder().scheme("https").authority(host).path_and_query(&*self.target.path);
        *request.uri_mut() = uri.build().map_err(|_| "http: invalid Host header")?;
        self.append_headers(request.headers_mut());
        Ok(request)
    }

    fn append_headers(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.headers {
            headers.append(name, value.clone());
        }
        if let Some(authorization) = &self.target.authorization {
            headers.entry(AUTHORIZATION).or_insert_with(|| authorization.clone());
        }
    }
}

/// The headers of a probe, in order. The `probes` crate adds the defaults of `User-Agent` and `Accept`; only the
/// first `User-Agent` is sent, and none if it is empty.
fn headers(given: &[(String, String)]) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let user_agent = first(given, "user-agent").filter(|user_agent| !user_agent.is_empty());
    if let Some(user_agent) = user_agent {
        headers.insert(USER_AGENT, header_value("User-Agent", user_agent)?);
    }
    for (name, value) in given {
        if NOT_TO_SET.iter().any(|refused| name.eq_ignore_ascii_case(refused)) {
            continue;
        }
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
            format!("net/http: invalid header field name {}", quoted(name.as_bytes()))
        })?;
        headers.append(key, header_value(name, value)?);
    }
    Ok(headers)
}

/// The first value of a header.
fn first<'a>(given: &'a [(String, String)], wanted: &str) -> Option<&'a str> {
    let mut named = given.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
    named.next().map(|(_, value)| value.as_str())
}

/// A value, which may be a secret and is not part of the error.
fn header_value(name: &str, value: &str) -> Result<HeaderValue, String> {
    let value = HeaderValue::from_bytes(value.trim().as_bytes());
    value.map_err(|_| {
        format!("net/http: invalid header field value for {}", quoted(name.as_bytes()))
    })
}

/// The URL of a target, without user and password.
pub(super) fn url(target: &Target) -> String {
    let scheme = if target.is_secure { "https" } else { "http" };
    format!("{scheme}://{}{}", target.authority, target.path)
}

/// A URL or location in which bytes that no URL may contain are escaped, as Go's parser does.
pub(super) fn escaped(url: &[u8]) -> String {
    let mut text = String::with_capacity(url.len());
    for byte in url.trim_ascii() {
        if byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(byte) {
            text.push(char::from(*byte));
        } else {
            write!(text, "%{byte:02X}").expect("a string takes all");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    type Headers<'a> = &'a [(&'a str, &'a str)];

    fn given(headers: Headers<'_>) -> Vec<(String, String)> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        headers.iter().map(owned).collect()
    }

    /// The headers of a request, in order.
    fn sent(headers: Headers<'_>) -> Vec<String> {
        let target = Target::parse("http://10.0.0.1:80/path").unwrap();
        let request = Get::new(target, &given(headers)).unwrap().http1().unwrap();
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()))
        };
        request.headers().iter().map(text).collect()
    }

    #[test]
    fn request_headers_keep_order_and_repeats() {
        let (host, close) = ("host: 10.0.0.1:80", "connection: close");
        let rows: [(Headers, &[&str]); 4] = [
            (&[], &[host, close]),
            (
                &[("X-B", "1"), ("User-Agent", "mine"), ("X-A", "2"), ("x-b", " 3 ")],
                &[host, "user-agent: mine", "x-b: 1", "x-b: 3", "x-a: 2", close],
            ),
            (&[("Host", "name"), ("Accept", "*/*")], &["host: name", "accept: */*", close]),
            (
                &[("user-agent", ""), ("host", ""), ("Connection", "x"), ("Content-Length", "9")],
                &[host, close],
            ),
        ];
        for (headers, expected) in rows {
            assert_eq!(sent(headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn unusable_headers_are_errors_without_their_values() {
        let rows = [
            (("a b", "x"), "net/http: invalid header field name \"a b\""),
            (("X-Key", "sec\nret"), "net/http: invalid header field value for \"X-Key\""),
        ];
        for (header, expected) in rows {
            assert_eq!(headers(&given(&[header])).unwrap_err(), expected);
        }
    }

    #[test]
    fn host_of_the_probe_survives_relative_redirects_only() {
        let target = Target::parse("http://10.0.0.1:80/").unwrap();
        let first = Get::new(target.clone(), &given(&[("Host", "name")])).unwrap();
        for (location, expected) in [("/x", "name"), ("http://10.0.0.1:80/x", "10.0.0.1:80")] {
            let next = first.redirected(target.join(location).unwrap(), location);
            assert_eq!(next.http1().unwrap().headers()[HOST], expected, "{location}");
            assert_eq!(next.http1().unwrap().headers()[REFERER], "http://10.0.0.1:80/");
        }
    }

    #[test]
    fn bytes_that_a_url_may_not_contain_are_escaped() {
        assert_eq!(escaped("http://h/a b?x=ü%20".as_bytes()), "http://h/a%20b?x=%C3%BC%20");
    }
}
