//! The query string of a request.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use model::ports::logs::{LogRequest, LogStream};

/// The parameters of a request; the first of several equal names counts.
#[derive(Debug, Default)]
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    pub(crate) fn parse(text: Option<&str>) -> Self {
        let mut parameters = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(text.unwrap_or_default().as_bytes()) {
            parameters.entry(name.into_owned()).or_insert(value.into_owned());
        }
        Self(parameters)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A boolean as in the API: a present parameter means true, unless its value is false.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !value.eq_ignore_ascii_case("false") && value != "0")
    }

    /// The number of lines from the end: `tail` is an older name of `tailLines` and takes precedence.
    fn tail(&self) -> Result<Option<i64>, BadQuery> {
        match self.get("tail").filter(|tail| !tail.is_empty()) {
            Some("all") => Ok(None),
            Some(_) => self.number("tail"),
            None => self.number("tailLines"),
        }
    }

    fn number(&self, name: &str) -> Result<Option<i64>, BadQuery> {
        let Some(text) = self.get(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| BadQuery::Undecodable)
    }
}

/// An invalid query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadQuery {
    /// A value has the wrong type.
    Undecodable,
    /// The values contradict each other.
    Invalid,
}

/// The options of a log request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LogQuery {
    pub(crate) follow: bool,
    pub(crate) previous: bool,
    pub(crate) request: LogRequest,
}

pub(crate) fn log_query(query: &Query, now: Timestamp) -> Result<LogQuery, BadQuery> {
    let within = |number: Option<i64>, least: i64| match number {
        Some(number) if number < least => Err(BadQuery::Invalid),
        Some(number) => Ok(Some(number.unsigned_abs())),
        None => Ok(None),
    };
    let (tail, seconds) = (query.tail()?, query.number("sinceSeconds")?);
    let limit = query.number("limitBytes")?;
    let since_time = match query.get("sinceTime").filter(|text| !text.is_empty()) {
        Some(text) => Some(text.parse::<Timestamp>().map_err(|_| BadQuery::Undecodable)?),
        None => None,
    };
    let since = match (within(seconds, 1)?, since_time) {
        (Some(_), Some(_)) => return Err(BadQuery::Invalid),
        (Some(seconds), None) => {
            // Times before the epoch mean everything.
            Some(now.checked_sub(Duration::from_secs(seconds)).unwrap_or(Timestamp::MIN))
        }
        (None, since) => since,
    };
    let stream = match query.get("stream") {
        None | Some("" | "All") => LogStream::All,
        Some("Stdout") => LogStream::Stdout,
        Some("Stderr") => LogStream::Stderr,
        Some(_) => return Err(BadQuery::Invalid),
    };
    if stream != LogStream::All && tail.is_some() {
        return Err(BadQuery::Invalid);
    }
    Ok(LogQuery {
        follow: query.is_on("follow"),
        previous: query.is_on("previous"),
        request: LogRequest {
            tail_lines: within(tail, 0)?,
            since,
            timestamps: query.is_on("timestamps"),
            limit_bytes: within(limit, 1)?,
            stream,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<LogQuery, BadQuery> {
        log_query(&Query::parse(Some(text)), Timestamp::from_second(1000).unwrap())
    }

    #[test]
    fn all_log_query_options_are_parsed() {
        let since = Timestamp::from_second(990).unwrap();
        let query =
            parsed("follow=true&previous=1&tailLines=5&sinceSeconds=10&timestamps=&limitBytes=7");
        let request = LogRequest {
            tail_lines: Some(5),
            since: Some(since),
            timestamps: true,
            limit_bytes: Some(7),
            stream: LogStream::All,
        };
        assert_eq!(query, Ok(LogQuery { follow: true, previous: true, request }));
        let query = parsed("sinceTime=1970-01-01T00:16:30Z&follow=False&timestamps=0").unwrap();
        assert_eq!(query.request, LogRequest { since: Some(since), ..LogRequest::default() });
        assert!(!query.follow);
        assert_eq!(
            parsed("sinceSeconds=9223372036854775807").unwrap().request.since,
            Some(Timestamp::MIN)
        );
    }

    #[test]
    fn invalid_log_query_is_refused() {
        let rows = [
            ("tailLines=x", BadQuery::Undecodable),
            ("tailLines=-1", BadQuery::Invalid),
            ("sinceSeconds=0", BadQuery::Invalid),
            ("sinceSeconds=1.5", BadQuery::Undecodable),
            ("sinceTime=today", BadQuery::Undecodable),
            ("sinceSeconds=5&sinceTime=1970-01-01T00:16:30Z", BadQuery::Invalid),
            ("limitBytes=0", BadQuery::Invalid),
            ("tail=x&tailLines=3", BadQuery::Undecodable),
            ("tail=-1", BadQuery::Invalid),
            ("stream=stdout", BadQuery::Invalid),
            ("stream=Stdout&tailLines=3", BadQuery::Invalid),
        ];
        for (text, expected) in rows {
            assert_eq!(parsed(text), Err(expected), "{text}");
        }
    }

    // behaviour: LOG-2
    #[test]
    fn tail_overrides_tail_lines() {
        let rows = [
            ("tail=3", Some(3)),
            ("tail=3&tailLines=5", Some(3)),
            ("tail=all&tailLines=5", None),
            ("tail=&tailLines=5", Some(5)),
        ];
        for (text, expected) in rows {
            assert_eq!(parsed(text).unwrap().request.tail_lines, expected, "{text}");
        }
    }

    #[test]
    fn stream_is_one_of_three() {
        let rows = [
            ("", LogStream::All),
            ("stream=All&tailLines=1", LogStream::All),
            ("stream=Stdout", LogStream::Stdout),
            ("stream=Stderr", LogStream::Stderr),
        ];
        for (text, expected) in rows {
            assert_eq!(parsed(text).unwrap().request.stream, expected, "{text}");
        }
    }

    #[test]
    fn values_are_decoded() {
        let query = Query::parse(Some("pod=a%2Fb&pod=c&x"));
        assert_eq!(
            (query.get("pod"), query.get("x"), query.get("y")),
            (Some("a/b"), Some(""), None)
        );
        assert!(query.is_on("x") && !query.is_on("y"));
    }
}
