//! Logs in the text format that readers of node logs know: klog's.
//!
//! `I1115 10:22:33.123456   12345 act.rs:120] "container runs" pod="default/web" container="main"`

use std::fmt::{self, Write as _};

use jiff::Zoned;
use jiff::tz::TimeZone;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Sends logs to standard error.
pub(crate) fn init(verbosity: u8) {
    tracing_subscriber::fmt()
        .with_max_level(level(verbosity))
        .with_writer(std::io::stderr)
        .event_format(Klog { pid: std::process::id(), zone: TimeZone::system() })
        .init();
}

fn level(verbosity: u8) -> LevelFilter {
    match verbosity {
        0..=3 => LevelFilter::INFO,
        4..=5 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

struct Klog {
    pid: u32,
    zone: TimeZone,
}

impl<S, N> FormatEvent<S, N> for Klog
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let now = jiff::Timestamp::now().to_zoned(self.zone.clone());
        let metadata = event.metadata();
        let place = (metadata.file().unwrap_or("unknown"), metadata.line().unwrap_or(0));
        let mut fields = Fields::default();
        event.record(&mut fields);
        write_line(writer, (*metadata.level(), self.pid), &now, place, &fields)
    }
}

fn write_line(
    mut writer: impl fmt::Write,
    (level, pid): (Level, u32),
    now: &Zoned,
    (file, line): (&str, u32),
    fields: &Fields,
) -> fmt::Result {
    let letter = match level {
        Level::ERROR => 'E',
        Level::WARN => 'W',
        _ => 'I',
    };
    let file = file.rsplit('/').next().unwrap_or(file);
    write!(
        writer,
        "{letter}{:02}{:02} {:02}:{:02}:{:02}.{:06} {pid:7} {file}:{line}] {:?}{}",
        now.month(),
        now.day(),
        now.hour(),
        now.minute(),
        now.second(),
        now.subsec_nanosecond() / 1000,
        fields.message,
        fields.others,
    )?;
    writeln!(writer)
}

/// The fields of an event: the message, and the others as `name="value"`.
#[derive(Default)]
struct Fields {
    message: String,
    others: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        self.add(field.name(), &text);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add_plain(field.name(), &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add_plain(field.name(), &value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add_plain(field.name(), &value);
    }
}

impl Fields {
    fn add(&mut self, name: &str, value: &str) {
        if name == "message" {
            value.clone_into(&mut self.message);
        } else {
            // Quoted and escaped, so that nothing a pod says can look like another line or field.
            write!(self.others, " {name}={value:?}").expect("writing to a string does not fail");
        }
    }

    fn add_plain(&mut self, name: &str, value: &dyn fmt::Display) {
        write!(self.others, " {name}={value}").expect("writing to a string does not fail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_klogs_shape_and_cannot_be_broken_by_its_content() {
        let mut fields = Fields { message: "container runs".to_owned(), ..Fields::default() };
        fields.add("pod", "default/web\nE1115 forged");
        fields.add_plain("attempt", &3);
        let now: jiff::Timestamp = "2026-11-15T10:02:33.000123Z".parse().unwrap();
        let now = now.to_zoned(TimeZone::UTC);
        let mut line = String::new();
        let place = ("crates/runtime/src/act.rs", 12);
        write_line(&mut line, (Level::INFO, 321), &now, place, &fields).unwrap();
        let expected = "I1115 10:02:33.000123     321 act.rs:12] \"container runs\" \
                        pod=\"default/web\\nE1115 forged\" attempt=3\n";
        assert_eq!(line, expected);
    }
}
