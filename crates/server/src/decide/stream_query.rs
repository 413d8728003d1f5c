//! The query of exec, attach, port-forward and run requests.

use model::ports::streaming::StdStreams;

/// The limit of parsed parameters.
const MOST_PARAMETERS: usize = 4096;

/// An invalid query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadStreamQuery {
    /// No stream is requested.
    #[error("you must specify at least 1 of stdin, stdout, stderr")]
    NoStream,
    /// A WebSocket request without a port.
    #[error("query parameter \"port\" is required")]
    NoPort,
    /// A port is empty.
    #[error("query parameter \"port\" cannot be empty")]
    EmptyPort,
    /// A port that is not a number.
    #[error("unable to parse {0:?} as a port: {1}")]
    NotAPort(String, &'static str),
    /// A port is 0.
    #[error("port {0:?} must be > 0")]
    PortZero(String),
}

fn values<'a>(query: Option<&'a str>, name: &'a str) -> impl Iterator<Item = String> + 'a {
    let parameters = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let named = parameters.take(MOST_PARAMETERS).filter(move |(key, _)| key == name);
    named.map(|(_, value)| value.into_owned())
}

/// The command of an exec request: one word for each `command`.
pub fn exec_command(query: Option<&str>) -> Vec<String> {
    values(query, "command").collect()
}

/// The command of a run request: the words of the first `cmd`.
pub fn run_command(query: Option<&str>) -> Vec<String> {
    let command = values(query, "cmd").next().unwrap_or_default();
    command.split(' ').map(str::to_owned).collect()
}

/// The streams of an exec or attach request. A terminal has no standard error.
pub fn std_streams(query: Option<&str>) -> Result<StdStreams, BadStreamQuery> {
    let is_on = |name| values(query, name).next().as_deref() == Some("1");
    let tty = is_on("tty");
    let streams = StdStreams {
        stdin: is_on("input"),
        stdout: is_on("output"),
        stderr: is_on("error") && !tty,
        tty,
    };
    if streams.stdin || streams.stdout || streams.stderr {
        Ok(streams)
    } else {
        Err(BadStreamQuery::NoStream)
    }
}

/// The ports of a port-forward request: only a WebSocket request has them in its query, and must.
pub fn ports(query: Option<&str>, is_websocket: bool) -> Result<Vec<u16>, BadStreamQuery> {
    if !is_websocket {
        return Ok(Vec::new());
    }
    let mut ports = Vec::new();
    for text in values(query, "port") {
        if text.is_empty() {
            return Err(BadStreamQuery::EmptyPort);
        }
        for port in text.split(',') {
            ports.push(parse_port(port, &text)?);
        }
    }
    if ports.is_empty() { Err(BadStreamQuery::NoPort) } else { Ok(ports) }
}

fn parse_port(port: &str, whole: &str) -> Result<u16, BadStreamQuery> {
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    if !digits {
        return Err(BadStreamQuery::NotAPort(whole.to_owned(), "invalid syntax"));
    }
    match port.parse() {
        Ok(0) => Err(BadStreamQuery::PortZero(whole.to_owned())),
        Ok(port) => Ok(port),
        Err(_) => Err(BadStreamQuery::NotAPort(whole.to_owned(), "value out of range")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn streams(flags: [bool; 4]) -> StdStreams {
        let [stdin, stdout, stderr, tty] = flags;
        StdStreams { stdin, stdout, stderr, tty }
    }

    // behaviour: STR-1
    #[test]
    fn streams_are_read_from_the_query() {
        let rows = [
            ("output=1&error=1", Ok(streams([false, true, true, false]))),
            ("input=1", Ok(streams([true, false, false, false]))),
            ("input=1&output=1&error=1&tty=1", Ok(streams([true, true, false, true]))),
            ("output=1&output=0", Ok(streams([false, true, false, false]))),
            ("output=0&output=1", Err(BadStreamQuery::NoStream)),
            ("error=1&tty=1", Err(BadStreamQuery::NoStream)),
            ("output=true&input=yes", Err(BadStreamQuery::NoStream)),
            ("stdout=1", Err(BadStreamQuery::NoStream)),
            ("", Err(BadStreamQuery::NoStream)),
        ];
        for (query, expected) in rows {
            assert_eq!(std_streams(Some(query)), expected, "{query}");
        }
        assert_eq!(std_streams(None), Err(BadStreamQuery::NoStream));
    }

    #[test]
    fn command_is_read_from_the_query() {
        let query = "command=sh&command=-c&output=1&command=echo+%22a%26b%22&command=";
        assert_eq!(exec_command(Some(query)), ["sh", "-c", "echo \"a&b\"", ""]);
        assert_eq!(exec_command(Some("cmd=x")), Vec::<String>::new());
        assert_eq!(run_command(Some("cmd=ls+-l%20/&cmd=other")), ["ls", "-l", "/"]);
        assert_eq!(run_command(None), [""]);
    }

    // behaviour: STR-2
    #[test]
    fn ports_are_required_of_websockets_only() {
        let bad = |text: &str, why| Err(BadStreamQuery::NotAPort(text.to_owned(), why));
        let rows = [
            ("port=80", Ok(vec![80])),
            ("port=80,443&port=1", Ok(vec![80, 443, 1])),
            ("port=65535", Ok(vec![65535])),
            ("", Err(BadStreamQuery::NoPort)),
            ("port=", Err(BadStreamQuery::EmptyPort)),
            ("port=0", Err(BadStreamQuery::PortZero("0".to_owned()))),
            ("port=80,0", Err(BadStreamQuery::PortZero("80,0".to_owned()))),
            ("port=65536", bad("65536", "value out of range")),
            ("port=-1", bad("-1", "invalid syntax")),
            ("port=%2B80", bad("+80", "invalid syntax")),
            ("port=80,", bad("80,", "invalid syntax")),
            ("port=http", bad("http", "invalid syntax")),
        ];
        for (query, expected) in rows {
            assert_eq!(ports(Some(query), true), expected, "{query}");
            assert_eq!(ports(Some(query), false), Ok(Vec::new()), "{query}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]

        #[test]
        fn any_query_is_read_or_refused(query in ".{0,200}") {
            let ports = ports(Some(&query), true);
            prop_assert!(ports.is_err() || ports.is_ok_and(|ports| !ports.contains(&0)));
            let streams = std_streams(Some(&query));
            prop_assert!(!streams.is_ok_and(|streams| streams.tty && streams.stderr));
            prop_assert!(!run_command(Some(&query)).is_empty());
        }

        #[test]
        fn command_survives_encoding(words in prop::collection::vec(".{0,20}", 0..8)) {
            let pairs = words.iter().map(|word| ("command", word));
            let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
            prop_assert_eq!(exec_command(Some(&query)), words);
        }
    }
}
