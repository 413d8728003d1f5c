//! The header of a log line: `<time> <stream> <tags> `.

use jiff::Timestamp;
use model::ports::logs::LogStream;

/// The longest supported header. A valid one has at most 45 bytes and its tags.
pub(super) const LONGEST_HEADER: usize = 256;

/// The header of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    /// When the line was written.
    pub(super) time: Timestamp,
    /// Like `time`, with nine digits, in the zone of the file.
    pub(super) shown_time: String,
    /// The stream of the line.
    pub(super) stream: LogStream,
    /// Whether the next line continues this one.
    pub(super) partial: bool,
}

/// The length of the header, up to its third space, if the line is long enough.
pub(super) fn header_length(line: &[u8]) -> Option<usize> {
    let spaces = line.iter().enumerate().filter(|(_, byte)| **byte == b' ');
    spaces.map(|(at, _)| at + 1).nth(2)
}

/// Parses a header, including its last space.
pub(super) fn parse(header: &[u8]) -> Option<Header> {
    let header = std::str::from_utf8(header).ok()?;
    let mut words = header.split(' ');
    let (time, stream, tags) = (words.next()?, words.next()?, words.next()?);
    let stream = match stream {
        "stdout" => LogStream::Stdout,
        "stderr" => LogStream::Stderr,
        _ => return None,
    };
    if tags.is_empty() {
        return None;
    }
    let (time, shown_time) = parse_time(time)?;
    // Further tags, behind colons, are ignored.
    let partial = tags.split(':').next() == Some("P");
    Some(Header { time, shown_time, stream, partial })
}

/// A time in RFC 3339, and its form with nine fractional digits.
fn parse_time(text: &str) -> Option<(Timestamp, String)> {
    let time: Timestamp = text.parse().ok()?;
    let (clock, rest) = text.split_at_checked("2006-01-02T15:04:05".len())?;
    if clock.as_bytes()[10] != b'T' {
        return None;
    }
    let (digits, zone) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?),
        None => ("", rest),
    };
    Some((time, format!("{clock}.{digits:0<9}{zone}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_header_is_parsed_or_refused() {
        let rows = [
            (
                "2016-10-06T00:17:09.669794202Z stdout F ",
                Some(("2016-10-06T00:17:09.669794202Z", false)),
            ),
            ("2016-10-06T00:17:09.6Z stderr P ", Some(("2016-10-06T00:17:09.600000000Z", true))),
            ("2016-10-06T00:17:09Z stderr F:x ", Some(("2016-10-06T00:17:09.000000000Z", false))),
            (
                "2016-10-06T02:17:09.5+02:00 stdout P:x:y ",
                Some(("2016-10-06T02:17:09.500000000+02:00", true)),
            ),
            ("2016-10-06T00:17:09Z stdin F ", None),
            ("2016-10-06T00:17:09Z stdout  ", None),
            ("2016-10-06 00:17:09Z stdout F ", None),
            ("2016-13-06T00:17:09Z stdout F ", None),
            ("2016-10-06T00:17:09 stdout F ", None),
            ("hello my world ", None),
            ("   ", None),
        ];
        for (text, expected) in rows {
            let header = parse(text.as_bytes());
            let found = header.as_ref().map(|header| (&*header.shown_time, header.partial));
            assert_eq!(found, expected, "{text:?}");
        }
        assert_eq!(parse(b"\xff stdout F "), None);
    }

    #[test]
    fn line_header_ends_after_the_third_space() {
        let rows =
            [("a b c d e", Some(6)), ("a b c ", Some(6)), ("   x", Some(3)), ("a b c", None)];
        for (line, expected) in rows {
            assert_eq!(header_length(line.as_bytes()), expected, "{line:?}");
        }
    }

    #[test]
    fn times_of_different_zones_are_comparable() {
        let utc = parse(b"2016-10-06T00:17:09Z stdout F ").unwrap().time;
        let east = parse(b"2016-10-06T02:17:09+02:00 stdout F ").unwrap().time;
        assert_eq!(utc, east);
    }
}
