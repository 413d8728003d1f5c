//! The headers of upgrades.

use std::net::IpAddr;

use hyper::HeaderMap;
use hyper::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, HeaderValue, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Request headers that are not forwarded to the runtime: it has another host, must not see the caller's
/// credentials, and receives no body.
const NOT_FORWARDED: [HeaderName; 7] =
    [HOST, AUTHORIZATION, CONTENT_LENGTH, TRANSFER_ENCODING, EXPECT, TE, TRAILER];

/// Whether a request is an upgrade.
pub(crate) fn is_upgrade(headers: &HeaderMap) -> bool {
    let mut connection = headers.get_all(CONNECTION).iter();
    connection.any(|value| contains_ignoring_case(value.as_bytes(), b"upgrade"))
}

/// Whether a request is a WebSocket upgrade.
pub(crate) fn is_websocket(headers: &HeaderMap) -> bool {
    let upgrade = headers.get(UPGRADE).map(HeaderValue::as_bytes).unwrap_or_default();
    is_upgrade(headers) && upgrade.eq_ignore_ascii_case(b"websocket")
}

/// Whether a request has a body. Data after an upgrade belongs to the other protocol.
pub(crate) fn has_body(headers: &HeaderMap) -> bool {
    let length = headers.get(CONTENT_LENGTH);
    headers.contains_key(TRANSFER_ENCODING) || length.is_some_and(|length| length != "0")
}

/// The headers of a request as the runtime receives them.
pub(crate) fn forwarded(
    headers: &HeaderMap,
    host: HeaderValue,
    client: Option<IpAddr>,
) -> HeaderMap {
    let mut forwarded = headers.clone();
    for name in NOT_FORWARDED {
        forwarded.remove(name);
    }
    forwarded.insert(HOST, host);
    if let Some(client) = client {
        let earlier = headers.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
        let client = client.to_string();
        let all: Vec<&str> = earlier.chain([client.as_str()]).collect();
        if let Ok(all) = HeaderValue::from_str(&all.join(", ")) {
            forwarded.insert(FORWARDED_FOR, all);
        }
    }
    forwarded
}

/// The headers of a refused upgrade as the client receives them: the body has been read, and the connection is closed.
pub(crate) fn of_refusal(mut headers: HeaderMap) -> HeaderMap {
    for name in [CONNECTION, UPGRADE, CONTENT_LENGTH, TRANSFER_ENCODING, TE, TRAILER] {
        headers.remove(name);
    }
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    headers
}

fn contains_ignoring_case(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn upgrades_are_recognised_by_the_connection_header() {
        type Pairs<'a> = &'a [(&'static str, &'static str)];
        let rows: [(Pairs<'_>, bool, bool); 6] = [
            (&[("connection", "Upgrade"), ("upgrade", "SPDY/3.1")], true, false),
            (&[("connection", "keep-alive, upgrade"), ("upgrade", "websocket")], true, true),
            (
                &[("connection", "close"), ("connection", "UPGRADE"), ("upgrade", "WebSocket")],
                true,
                true,
            ),
            (&[("upgrade", "websocket")], false, false),
            (&[("connection", "keep-alive")], false, false),
            (&[], false, false),
        ];
        for (pairs, upgrade, websocket) in rows {
            let headers = headers(pairs);
            assert_eq!(
                (is_upgrade(&headers), is_websocket(&headers)),
                (upgrade, websocket),
                "{pairs:?}"
            );
        }
    }

    #[test]
    fn bodies_are_recognised_by_their_length_or_encoding() {
        let rows: [(&[(&str, &str)], bool); 4] = [
            (&[], false),
            (&[("content-length", "0")], false),
            (&[("content-length", "5")], true),
            (&[("transfer-encoding", "chunked")], true),
        ];
        for (pairs, expected) in rows {
            assert_eq!(has_body(&headers(pairs)), expected, "{pairs:?}");
        }
    }

    #[test]
    fn credentials_are_not_forwarded_and_the_client_is_named() {
        let request = headers(&[
            ("host", "node:10250"),
            ("authorization", "Bearer secret"),
            ("content-length", "0"),
            ("connection", "Upgrade"),
            ("upgrade", "SPDY/3.1"),
            ("x-stream-protocol-version", "v4.channel.k8s.io"),
            ("x-stream-protocol-version", "v3.channel.k8s.io"),
            ("x-forwarded-for", "10.0.0.1"),
        ]);
        let host = HeaderValue::from_static("127.0.0.1:41234");
        let forwarded = forwarded(&request, host, Some("10.0.0.2".parse().unwrap()));
        let expected = headers(&[
            ("host", "127.0.0.1:41234"),
            ("connection", "Upgrade"),
            ("upgrade", "SPDY/3.1"),
            ("x-stream-protocol-version", "v4.channel.k8s.io"),
            ("x-stream-protocol-version", "v3.channel.k8s.io"),
            ("x-forwarded-for", "10.0.0.1, 10.0.0.2"),
        ]);
        assert_eq!(forwarded, expected);
    }

    #[test]
    fn refusal_closes_the_connection() {
        let response = headers(&[
            ("content-type", "text/plain"),
            ("content-length", "9"),
            ("connection", "keep-alive"),
            ("transfer-encoding", "chunked"),
        ]);
        let expected = headers(&[("content-type", "text/plain"), ("connection", "close")]);
        assert_eq!(of_refusal(response), expected);
    }
}
