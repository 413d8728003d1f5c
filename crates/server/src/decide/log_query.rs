//! Node log queries: the requested system logs, and the arguments of `journalctl` for them.
//!
//! No query reaches a shell: every value is one argument, and service names have safe characters only.

use std::fmt;

use jiff::Timestamp;
use podspec::{ErrorKind, FieldError, FieldPath};
use regex_syntax::ast::parse::Parser;
use serde_json::Value;

/// The limit of services in a query.
const MOST_SERVICES: usize = 4;
/// The longest name of a service.
const LONGEST_SERVICE: usize = 256;
/// The longest pattern. Upstream has no limit, but arguments do.
const LONGEST_PATTERN: usize = 4096;
/// The limit of lines from the end.
const MOST_LINES: i64 = 100_000;

/// A query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeLogQuery {
    /// Services by name.
    pub services: Vec<String>,
    /// Files below the system's log directory: values with a slash or backslash.
    pub files: Vec<String>,
    /// The selection of entries.
    pub options: LogOptions,
}

/// The selection of entries in service logs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogOptions {
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    tail_lines: Option<i64>,
    boot: Option<i64>,
    pattern: Option<String>,
}

/// An invalid query; worded as upstream's error lists.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryErrors(Vec<FieldError>);

impl fmt::Display for QueryErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0[..] {
            [one] => write!(f, "{one}"),
            all => {
                let texts: Vec<String> = all.iter().map(FieldError::to_string).collect();
                write!(f, "[{}]", texts.join(", "))
            }
        }
    }
}

/// The logs of a valid query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogSource {
    /// A file, by its path below the system's log directory.
    File(String),
    /// Services.
    Services,
}

/// Parses a query string. `None`: it has no parameter of a log query, so it requests a file or a directory.
pub fn node_log_query(text: Option<&str>) -> Result<Option<NodeLogQuery>, QueryErrors> {
    let pairs: Vec<(String, String)> =
        form_urlencoded::parse(text.unwrap_or_default().as_bytes()).into_owned().collect();
    let all = |name: &str| -> Vec<&str> {
        pairs.iter().filter(|pair| pair.0 == name).map(|pair| pair.1.as_str()).collect()
    };
    let first = |name: &str| all(name).first().copied().filter(|value| !value.is_empty());
    let mut errors = Errors::default();
    let mut query = NodeLogQuery::default();
    let queries = all("query");
    for value in &queries {
        if value.contains(['/', '\\']) {
            query.files.push((*value).to_owned());
        } else if !value.trim().is_empty() {
            query.services.push((*value).to_owned());
        }
    }
    if !queries.is_empty() && query.files.is_empty() && query.services.is_empty() {
        errors.invalid("query", queries, "may not be empty");
    }
    query.options = LogOptions {
        since: errors.time("sinceTime", first("sinceTime")),
        until: errors.time("untilTime", first("untilTime")),
        boot: errors.number("boot", first("boot")),
        tail_lines: errors.number("tailLines", first("tailLines")),
        pattern: first("pattern").map(str::to_owned),
    };
    errors.into_result()?;
    Ok(Some(query).filter(|query| *query != NodeLogQuery::default()))
}

impl NodeLogQuery {
    /// Checks the values of a query. Missing files are detected when they are opened.
    pub fn source(&self) -> Result<LogSource, QueryErrors> {
        let mut errors = Errors::default();
        for service in &self.services {
            if let Some(why) = unsafe_name(service) {
                errors.invalid("query", service.as_str(), why);
            }
        }
        if self.services.len() > MOST_SERVICES {
            let detail = format!("must have at most {MOST_SERVICES} items");
            errors.push("query", ErrorKind::TooMany, Some(self.services.len().into()), &detail);
        }
        let file = match &self.files[..] {
            [] if self.services.is_empty() => {
                errors.push("query", ErrorKind::Required, None, "cannot be empty with options");
                None
            }
            [] => None,
            files if !self.services.is_empty() => {
                let both = format!("[{}], [{}]", files.join(" "), self.services.join(" "));
                errors.invalid("query", both, "cannot specify a file and service");
                None
            }
            [file] if self.options == LogOptions::default() => Some(file),
            files @ [_] => {
                errors.invalid("query", files, "cannot specify file with options");
                None
            }
            files => {
                errors.invalid("query", files, "cannot specify more than one file");
                None
            }
        };
        self.options.check(&mut errors);
        errors.into_result()?;
        Ok(match file {
            Some(file) => LogSource::File(file.trim_start_matches('/').to_owned()),
            None => LogSource::Services,
        })
    }

    /// The error for a file that cannot be opened.
    pub fn unreadable(&self, why: &str) -> QueryErrors {
        let mut errors = Errors::default();
        errors.invalid("query", &self.files[..], why);
        QueryErrors(errors.0)
    }

    /// Splits the services into those with journal entries, and those that may have log files.
    pub fn divided(&self, journal_units: &str) -> (Vec<&str>, Vec<&str>) {
        let services = self.services.iter().map(String::as_str);
        services.partition(|service| {
            let unit = format!("{service}.service");
            journal_units.lines().any(|line| line == unit)
        })
    }

    /// The arguments of `journalctl` for these services.
    pub fn journal_arguments(&self, services: &[&str]) -> Vec<String> {
        let LogOptions { since, until, tail_lines, boot, pattern } = &self.options;
        let mut arguments =
            ["--utc", "--no-pager", "--output=short-precise"].map(str::to_owned).to_vec();
        // Upstream omits the zone, so that the machine's own applies.
        let date = |time: &Timestamp| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
        arguments.extend(since.iter().map(|time| format!("--since={}", date(time))));
        arguments.extend(until.iter().map(|time| format!("--until={}", date(time))));
        if let Some(lines) = tail_lines {
            arguments.extend(["--pager-end".to_owned(), format!("--lines={lines}")]);
        }
        arguments.extend(services.iter().map(|service| format!("--unit={service}")));
        arguments.extend(pattern.iter().map(|pattern| format!("--grep={pattern}")));
        if let Some(boot) = boot {
            arguments.extend(["--boot".to_owned(), boot.to_string()]);
        }
        arguments
    }
}

/// The arguments with which `journalctl` lists units with entries.
pub const JOURNAL_UNITS: [&str; 2] = ["--field", "_SYSTEMD_UNIT"];

/// The possible log files of a service, below the system's log directory.
pub fn log_files(service: &str) -> [String; 3] {
    [service.to_owned(), format!("{service}.log"), format!("{service}/{service}.log")]
}

impl LogOptions {
    fn check(&self, errors: &mut Errors) {
        if let (Some(since), Some(until)) = (self.since, self.until)
            && since > until
        {
            errors.invalid("untilTime", until.to_string(), "must be after `sinceTime`");
        }
        if let Some(boot) = self.boot.filter(|boot| *boot > 0) {
            errors.invalid("boot", boot, "must be less than 1");
        }
        if let Some(lines) = self.tail_lines.filter(|lines| !(0..=MOST_LINES).contains(lines)) {
            let detail = format!("must be between 0 and {MOST_LINES}, inclusive");
            errors.invalid("tailLines", lines, &detail);
        }
        let pattern = self.pattern.as_deref().unwrap_or_default();
        if pattern.len() > LONGEST_PATTERN {
            let detail = format!("may not be more than {LONGEST_PATTERN} bytes");
            errors.push("pattern", ErrorKind::TooLong, None, &detail);
        } else if pattern.contains(char::is_control) {
            errors.invalid("pattern", pattern, "input contains unsupported characters");
        } else if let Err(error) = Parser::new().parse(pattern) {
            errors.invalid("pattern", pattern, &error.kind().to_string());
        }
    }
}

/// Why a service name is refused.
fn unsafe_name(service: &str) -> Option<&'static str> {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "-_.:@".contains(c);
    if service.len() > LONGEST_SERVICE {
        return Some("length must be less than 256");
    }
    (!service.chars().all(is_safe)).then_some("input contains unsupported characters")
}

#[derive(Debug, Default)]
struct Errors(Vec<FieldError>);

impl Errors {
    fn push(&mut self, field: &str, kind: ErrorKind, value: Option<Value>, detail: &str) {
        let (path, detail) = (FieldPath::from(field), detail.to_owned());
        self.0.push(FieldError { path, kind, value, detail });
    }

    fn invalid(&mut self, field: &str, value: impl Into<Value>, detail: &str) {
        self.push(field, ErrorKind::Invalid, Some(value.into()), detail);
    }

    fn time(&mut self, field: &str, text: Option<&str>) -> Option<Timestamp> {
        let parsed = text?.parse();
        if parsed.is_err() {
            self.invalid(field, text?, "invalid time format");
        }
        parsed.ok()
    }

    fn number(&mut self, field: &str, text: Option<&str>) -> Option<i64> {
        let text = text?;
        let parsed = text.parse();
        if parsed.is_err() {
            self.invalid(field, text, &format!("strconv.Atoi: parsing {text:?}: invalid syntax"));
        }
        parsed.ok()
    }

    fn into_result(self) -> Result<(), QueryErrors> {
        if self.0.is_empty() { Ok(()) } else { Err(QueryErrors(self.0)) }
    }
}

#[cfg(test)]
#[path = "log_query_tests.rs"]
mod tests;
