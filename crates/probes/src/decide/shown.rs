//! The part of the output of an attempt that is displayed.

use model::probe::short_line;

/// The kind of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A process in a container.
    Exec,
    /// A connection.
    Network,
}

/// Failures of network probes that are shown. Other texts may contain data of a server, or the URL of a redirect: a probe
/// may be aimed at another host.
const KNOWN: [&str; 6] = [
    "HTTP probe failed with statuscode: ",
    "dial tcp",
    "context deadline exceeded",
    "timeout: ",
    "service unhealthy ",
    "EOF",
];

/// The output of an attempt as one short line.
pub fn shown(output: &str, class: Class) -> String {
    // The URL of a failed request is in the specification.
    let text = match output.strip_prefix("Get \"").and_then(|rest| rest.split_once("\": ")) {
        Some((_, cause)) if class == Class::Network => cause,
        _ => output,
    };
    if class == Class::Network && !KNOWN.iter().any(|known| text.starts_with(known)) {
        return "invalid response".to_owned();
    }
    short_line(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: PRB-24
    #[test]
    fn response_bodies_are_not_shown() {
        let refused = "dial tcp 10.0.0.7:80: connect: connection refused";
        let status = "HTTP probe failed with statuscode: 500";
        let unhealthy = "service unhealthy (responded with \"NOT_SERVING\")";
        let hidden = "invalid response";
        let rows = [
            (status, status),
            (refused, refused),
            (&format!("Get \"http://a/\": {refused}"), refused),
            ("Get \"http://a/\": EOF", "EOF"),
            ("Get \"http://a/?token=s3cret\": stopped after 10 redirects", hidden),
            ("Get \"http://a/\": net/http: malformed HTTP response \"s3cret\"", hidden),
            (unhealthy, unhealthy),
            ("error: health rpc probe failed: s3cret", hidden),
        ];
        for (output, expected) in rows {
            assert_eq!(shown(output, Class::Network), expected);
        }
    }

    #[test]
    fn output_of_a_command_is_one_short_line() {
        assert_eq!(shown("no\n such\tfile\u{7}", Class::Exec), "no such file");
        assert_eq!(shown("Get \"x\": y", Class::Exec), "Get \"x\": y");
        assert!((250..=256).contains(&shown(&"ä".repeat(300), Class::Exec).len()));
    }
}
