//! Logs in the formats of Kubernetes components: klog's text, and its JSON.
//!
//! ```text
//! I1115 10:22:33.123456   12345 act.rs:120] "container runs" pod="default/web" container="main"
//! {"ts":1763202153123.456,"caller":"act.rs:120","msg":"container runs","v":0,"pod":"default/web"}
//! ```

use std::fmt::{self, Write as _};

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Registry, fmt as layer, reload};

use crate::traces::Traces;

/// The format of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// klog's header and quoted fields.
    Text,
    /// One object for each line.
    Json,
}

/// The log level; can be changed while the program runs.
#[derive(Debug, Clone)]
pub struct Verbosity(reload::Handle<Targets, Registry>);

impl model::program::Verbosity for Verbosity {
    fn set(&self, verbosity: u32) -> Result<(), String> {
        let filter = filter(u8::try_from(verbosity).unwrap_or(u8::MAX));
        self.0.reload(filter).map_err(|error| error.to_string())
    }
}

/// Sends logs to standard error, and spans to the collector if `traces` are given. Called once.
pub fn init(format: Format, verbosity: u8, traces: Option<&Traces>) -> Verbosity {
    let (filter, handle) = reload::Layer::new(filter(verbosity));
    let lines = layer::layer().with_writer(std::io::stderr).event_format(Klog {
        format,
        pid: std::process::id(),
        zone: TimeZone::system(),
    });
    tracing_subscriber::registry().with(filter).with(lines).with(traces.map(Traces::layer)).init();
    Verbosity(handle)
}

/// The crates of the programs.
const OURS: &[&str] = &[
    "allocation",
    "blocking",
    "certificates",
    "cgroups",
    "cli",
    "cluster",
    "config",
    "cri",
    "events",
    "eviction",
    "ferrolet",
    "fetch",
    "gc",
    "hostfs",
    "images",
    "journal",
    "logs",
    "model",
    "node",
    "objects",
    "pleg",
    "podgc",
    "podgc_main",
    "pods",
    "podspec",
    "probes",
    "process",
    "proto",
    "runtime",
    "server",
    "stats",
    "status",
    "volumes",
];

/// Selects the events to log: from our crates by verbosity, from libraries only warnings and errors.
fn filter(verbosity: u8) -> Targets {
    let level = level(verbosity);
    let ours = OURS.iter().map(|name| (*name, level));
    Targets::new().with_default(LevelFilter::WARN).with_targets(ours)
}

fn level(verbosity: u8) -> LevelFilter {
    match verbosity {
        0..=3 => LevelFilter::INFO,
        4..=5 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

struct Klog {
    format: Format,
    pid: u32,
    zone: TimeZone,
}

impl<S, N> FormatEvent<S, N> for Klog
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    #[expect(clippy::disallowed_methods, reason = "a log line carries the machine's own time")]
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let now = Timestamp::now();
        let metadata = event.metadata();
        let file = metadata.file().unwrap_or("unknown");
        let file = file.rsplit('/').next().unwrap_or(file);
        let caller = format!("{file}:{}", metadata.line().unwrap_or(0));
        let mut fields = Fields::default();
        event.record(&mut fields);
        let level = *metadata.level();
        match self.format {
            Format::Text => {
                let now = now.to_zoned(self.zone.clone());
                let header = Header { level, pid: self.pid, now: &now, caller: &caller };
                write_text(writer, &header, &fields)
            }
            Format::Json => write_json(writer, level, now, &caller, fields),
        }
    }
}

/// The header of a text line.
struct Header<'a> {
    level: Level,
    pid: u32,
    now: &'a Zoned,
    caller: &'a str,
}

fn write_text(mut writer: impl fmt::Write, header: &Header<'_>, fields: &Fields) -> fmt::Result {
    let Header { level, pid, now, caller } = header;
    let letter = match *level {
        Level::ERROR => 'E',
        Level::WARN => 'W',
        _ => 'I',
    };
    write!(
        writer,
        "{letter}{:02}{:02} {:02}:{:02}:{:02}.{:06} {pid:7} {caller}] {:?}",
        now.month(),
        now.day(),
        now.hour(),
        now.minute(),
        now.second(),
        now.subsec_nanosecond() / 1000,
        fields.message,
    )?;
    for (name, value) in &fields.others {
        match value {
            // Quoted and escaped, so that content of pods cannot forge another line or field.
            Value::String(text) => write!(writer, " {name}={text:?}")?,
            other => write!(writer, " {name}={other}")?,
        }
    }
    writeln!(writer)
}

fn write_json(
    mut writer: impl fmt::Write,
    level: Level,
    now: Timestamp,
    caller: &str,
    fields: Fields,
) -> fmt::Result {
    let microseconds = now.as_microsecond();
    let mut line = String::new();
    write!(line, "{{\"ts\":{}.{:03}", microseconds / 1000, microseconds % 1000)?;
    let mut member = |name: &str, value: &Value| write!(line, ",{}:{value}", Value::from(name));
    member("caller", &caller.into())?;
    member("msg", &fields.message.into())?;
    match level {
        // Errors have no verbosity: they are always shown.
        Level::ERROR => {}
        Level::WARN | Level::INFO => member("v", &0.into())?,
        Level::DEBUG => member("v", &4.into())?,
        _ => member("v", &6.into())?,
    }
    for (name, value) in &fields.others {
        member(name, value)?;
    }
    writeln!(writer, "{line}}}")
}

/// The fields of an event: the message, and the others in order.
#[derive(Debug, Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, Value)>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            (name, value) => self.others.push((name, value)),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_log_warnings_only_at_any_verbosity() {
        for verbosity in [0, 4, 10] {
            let filter = filter(verbosity);
            for target in ["h2::codec", "hyper::proto::h1", "tower::buffer", "tonic::transport"] {
                assert!(!filter.would_enable(target, &Level::INFO), "{target} at {verbosity}");
                assert!(filter.would_enable(target, &Level::WARN));
            }
            let debugged = filter.would_enable("pods::source::file", &Level::DEBUG);
            assert_eq!(debugged, verbosity >= 4);
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the crates there are")]
    fn log_events_of_every_crate_are_logged() {
        let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let mut names: Vec<String> = std::fs::read_dir(crates)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap().replace('-', "_"))
            .filter(|name| !["sim", "testkit"].contains(&name.as_str()))
            .collect();
        names.sort();
        assert_eq!(names, OURS);
    }

    fn fields() -> Fields {
        Fields {
            message: "container runs".to_owned(),
            others: vec![("pod", "default/web\nE1115 forged".into()), ("attempt", 3.into())],
        }
    }

    #[test]
    fn log_line_has_klog_format_and_escapes_its_content() {
        let now: Timestamp = "2026-11-15T10:02:33.000123Z".parse().unwrap();
        let now = now.to_zoned(TimeZone::UTC);
        let mut line = String::new();
        let header = Header { level: Level::INFO, pid: 321, now: &now, caller: "act.rs:12" };
        write_text(&mut line, &header, &fields()).unwrap();
        let expected = "I1115 10:02:33.000123     321 act.rs:12] \"container runs\" \
                        pod=\"default/web\\nE1115 forged\" attempt=3\n";
        assert_eq!(line, expected);
    }

    #[test]
    fn json_log_line_is_one_object() {
        let now: Timestamp = "2026-11-15T10:02:33.000123Z".parse().unwrap();
        let mut line = String::new();
        write_json(&mut line, Level::WARN, now, "act.rs:12", fields()).unwrap();
        let expected = "{\"ts\":1794736953000.123,\"caller\":\"act.rs:12\",\
                        \"msg\":\"container runs\",\"v\":0,\
                        \"pod\":\"default/web\\nE1115 forged\",\"attempt\":3}\n";
        assert_eq!(line, expected);
        serde_json::from_str::<Value>(&line).unwrap();
    }
}
