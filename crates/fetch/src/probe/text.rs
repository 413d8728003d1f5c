//! Errors in the words of Go's network libraries, which upstream prints in events.

use std::io;

use model::chain::Chain;

use crate::tls::Failure;

/// The text of an errno.
pub(super) fn system_error(error: &io::Error) -> String {
    let text = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused",
        io::ErrorKind::ConnectionReset => "connection reset by peer",
        io::ErrorKind::HostUnreachable => "no route to host",
        io::ErrorKind::NetworkUnreachable => "network is unreachable",
        io::ErrorKind::TimedOut => "connection timed out",
        io::ErrorKind::AddrNotAvailable => "cannot assign requested address",
        io::ErrorKind::BrokenPipe => "broken pipe",
        io::ErrorKind::UnexpectedEof => "EOF",
        _ => {
            let text = error.to_string();
            let text = text.split(" (os error ").next().unwrap_or_default();
            let mut letters = text.chars();
            let first = letters.next().map(|letter| letter.to_ascii_lowercase());
            return first.into_iter().chain(letters).collect();
        }
    };
    text.to_owned()
}

/// Host and port, with brackets around an IPv6 address.
pub(super) fn host_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Bytes in double quotes, others than printable ASCII escaped.
pub(super) fn quoted(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii().to_string().replace("\\'", "'"))
}

/// Why a TLS handshake failed. `first` are the first bytes of the server.
pub(super) fn tls_error(failure: &Failure, first: &[u8]) -> String {
    let Some(error) = failure.downcast_ref::<io::Error>() else { return format!("tls: {failure}") };
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidMessage(_)) if first.starts_with(b"HTTP/") => {
            "http: server gave HTTP response to HTTPS client".to_owned()
        }
        Some(rustls::Error::InvalidMessage(_)) if first.first() != Some(&TLS_HANDSHAKE) => {
            "tls: first record does not look like a TLS handshake".to_owned()
        }
        Some(rustls::Error::AlertReceived(alert)) => {
            format!("remote error: tls: {}", words(&format!("{alert:?}")))
        }
        Some(error) => format!("tls: {error}"),
        None => system_error(error),
    }
}

/// The record type of a handshake in TLS.
const TLS_HANDSHAKE: u8 = 22;

/// `HandshakeFailure` as `handshake failure`.
fn words(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

/// Why an HTTP/1 server gave no response. `first` are its first bytes, and `ends` the addresses of the connection.
pub(super) fn http_error(error: &hyper::Error, first: &[u8], ends: &str) -> String {
    const BROKEN: &str = "net/http: HTTP/1.x transport connection broken";
    if let Some(error) = io_error(error) {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
            _ => format!("read tcp {ends}: read: {}", system_error(error)),
        };
    }
    let ends_early = error.is_incomplete_message();
    match malformed(first) {
        _ if first.is_empty() && ends_early => "EOF".to_owned(),
        Some(malformed) if ends_early || error.is_parse() => format!("{BROKEN}: {malformed}"),
        _ if ends_early => format!("{BROKEN}: unexpected EOF"),
        _ if error.is_parse() => format!("{BROKEN}: malformed MIME header"),
        _ => format!("{BROKEN}: {}", Chain(error)),
    }
}

/// Why a body broke off.
pub(super) fn body_error(error: &hyper::Error) -> String {
    match io_error(error) {
        None => "unexpected EOF".to_owned(),
        Some(error) => match error.kind() {
            io::ErrorKind::UnexpectedEof => "unexpected EOF".to_owned(),
            _ => format!("read: {}", system_error(error)),
        },
    }
}

fn io_error(error: &hyper::Error) -> Option<&io::Error> {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        match error.downcast_ref() {
            Some(error) => return Some(error),
            None => source = error.source(),
        }
    }
    None
}

/// What is wrong with the status line of an HTTP/1 response.
fn malformed(response: &[u8]) -> Option<String> {
    let line = response.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let Some(end) = line.iter().position(|byte| *byte == b' ') else {
        return Some(format!("malformed HTTP response {}", quoted(line)));
    };
    let (version, status) = (&line[..end], line[end..].trim_ascii_start());
    let code = status.split(|byte| *byte == b' ').next().unwrap_or_default();
    if code.len() != 3 || !code.iter().all(u8::is_ascii_digit) {
        return Some(format!("malformed HTTP status code {}", quoted(code)));
    }
    let is_version = matches!(version, [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
        if major.is_ascii_digit() && minor.is_ascii_digit());
    (!is_version).then(|| format!("malformed HTTP version {}", quoted(version)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_line_errors_are_worded_as_in_go() {
        let rows: [(&[u8], Option<&str>); 7] = [
            (b"HTTP/1.1 200 OK\r\nx", None),
            (b"HTTP/1.1 200\r\n", None),
            (b"garbage", Some("malformed HTTP response \"garbage\"")),
            (b"\x00\x00\x06'\"\r\n", Some("malformed HTTP response \"\\x00\\x00\\x06'\\\"\"")),
            (b"SSH-2.0-x Debian\r\n", Some("malformed HTTP status code \"Debian\"")),
            (b"HTTP/1.1 20\r\n", Some("malformed HTTP status code \"20\"")),
            (b"ICY 200 OK\r\n", Some("malformed HTTP version \"ICY\"")),
        ];
        for (response, expected) in rows {
            assert_eq!(malformed(response).as_deref(), expected, "{}", response.escape_ascii());
        }
    }

    #[test]
    fn system_errors_are_worded_as_in_go() {
        let rows = [
            (104, "connection reset by peer"),
            (111, "connection refused"),
            (113, "no route to host"),
            (101, "network is unreachable"),
            (1, "operation not permitted"),
        ];
        for (errno, expected) in rows {
            assert_eq!(system_error(&io::Error::from_raw_os_error(errno)), expected);
        }
        assert_eq!(words("HandshakeFailure"), "handshake failure");
    }

    #[test]
    fn ipv6_addresses_have_brackets() {
        assert_eq!(host_port("fd00::1", 80), "[fd00::1]:80");
        assert_eq!(host_port("10.0.0.1", 80), "10.0.0.1:80");
    }
}
