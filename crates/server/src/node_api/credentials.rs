//! The credentials of a request.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderValue, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use model::cluster::User;

/// The prefix of a WebSocket sub-protocol with a token in base64.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// The credentials of a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Credentials {
    /// The user of a client certificate, or why it is invalid.
    pub(super) certificate: Option<Result<User, String>>,
    /// Bearer tokens; `None` for one that cannot be decoded.
    pub(super) tokens: Vec<Option<String>>,
}

/// Removes the credentials from the headers, so that no endpoint forwards them.
pub(super) fn take(
    headers: &mut HeaderMap,
    certificate: Option<Result<User, String>>,
) -> Credentials {
    let mut tokens = Vec::new();
    if let Some(value) = headers.remove(AUTHORIZATION)
        && let Some(token) = bearer(&value)
    {
        tokens.push(Some(token));
    }
    tokens.extend(take_protocol(headers).map(ProtocolToken::usable));
    Credentials { certificate, tokens }
}

fn bearer(value: &HeaderValue) -> Option<String> {
    let mut words = value.to_str().ok()?.trim().split(' ');
    let (scheme, token) = (words.next()?, words.next()?);
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| token.to_owned())
}

/// A token in the sub-protocols of a WebSocket.
enum ProtocolToken {
    Usable(String),
    /// It is refused, and not ignored: the client is not anonymous.
    Malformed,
}

impl ProtocolToken {
    fn usable(self) -> Option<String> {
        match self {
            Self::Usable(token) => Some(token),
            Self::Malformed => None,
        }
    }
}

/// Removes a token from the sub-protocols of a WebSocket. There must be another one, which the server accepts.
fn take_protocol(headers: &mut HeaderMap) -> Option<ProtocolToken> {
    let is_websocket = headers.get(UPGRADE)?.as_bytes().eq_ignore_ascii_case(b"websocket");
    if !is_websocket {
        return None;
    }
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    let values: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
    let protocols = values.iter().flat_map(|value| value.split(',')).map(str::trim);
    let (tokens, others): (Vec<&str>, Vec<&str>) =
        protocols.partition(|protocol| protocol.starts_with(TOKEN_PROTOCOL));
    let encoded = tokens.first()?.strip_prefix(TOKEN_PROTOCOL)?;
    let token =
        URL_SAFE_NO_PAD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let is_usable = tokens.len() == 1 && !others.is_empty();
    let others = HeaderValue::from_str(&others.join(", "));
    headers.remove(SEC_WEBSOCKET_PROTOCOL);
    if let Ok(others) = others {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, others);
    }
    Some(match token.filter(|token| is_usable && !token.is_empty()) {
        Some(token) => ProtocolToken::Usable(token),
        None => ProtocolToken::Malformed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(rows: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in rows {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    // behaviour: SRV-7
    #[test]
    fn tokens_are_taken_out_of_the_headers() {
        let protocol = format!("{TOKEN_PROTOCOL}{}", URL_SAFE_NO_PAD.encode("t"));
        let with_other = format!("v4.channel.k8s.io, {protocol}");
        let some = |token: &str| vec![Some(token.to_owned())];
        let upgrade = ("upgrade", "websocket");
        let name = "sec-websocket-protocol";
        let rows = [
            (vec![], vec![]),
            (vec![("authorization", "Bearer t")], some("t")),
            (vec![("authorization", "bearer t u")], some("t")),
            (vec![("authorization", "Bearer ")], vec![]),
            (vec![("authorization", "Basic t")], vec![]),
            (vec![upgrade, (name, with_other.as_str())], some("t")),
            (vec![(name, with_other.as_str())], vec![]),
            (vec![upgrade, (name, protocol.as_str())], vec![None]),
            (vec![upgrade, (name, "v4"), (name, protocol.as_str())], some("t")),
            (vec![upgrade, (name, "v4, base64url.bearer.authorization.k8s.io.!")], vec![None]),
        ];
        for (rows, expected) in rows {
            let mut headers = headers(&rows);
            assert_eq!(take(&mut headers, None).tokens, expected, "{rows:?}");
            assert!(!headers.contains_key("authorization"));
        }
        let mut headers = headers(&[upgrade, (name, with_other.as_str())]);
        take(&mut headers, None);
        assert_eq!(headers[name], "v4.channel.k8s.io");
    }
}
