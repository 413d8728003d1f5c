//! Prometheus' text format, with the times of samples.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Any value.
    Gauge,
}

const INFALLIBLE: &str = "writing to a string does not fail";

#[derive(Debug)]
struct Family {
    help: &'static str,
    kind: Kind,
    lines: String,
}

/// Metrics by name.
#[derive(Debug, Default)]
pub struct Page(BTreeMap<&'static str, Family>);

/// The name, kind and description of a metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// The kind.
    pub kind: Kind,
    /// The description.
    pub help: &'static str,
}

/// The labels of a sample.
pub type Labels<'a> = [(&'a str, &'a str)];

impl Page {
    /// Adds a sample; `time` is when it was measured.
    #[expect(
        clippy::cast_precision_loss,
        reason = "values of the format are floating-point numbers"
    )]
    pub fn add(
        &mut self,
        metric: Metric,
        labels: &Labels<'_>,
        value: u64,
        time: Option<Timestamp>,
    ) {
        self.add_number(metric, labels, value as f64, time);
    }

    /// Adds a sample with a fraction.
    pub fn add_number(
        &mut self,
        metric: Metric,
        labels: &Labels<'_>,
        value: f64,
        time: Option<Timestamp>,
    ) {
        let Metric { name, kind, help } = metric;
        let family =
            self.0.entry(name).or_insert_with(|| Family { help, kind, lines: String::new() });
        let lines = &mut family.lines;
        lines.push_str(name);
        if !labels.is_empty() {
            lines.push('{');
            for (at, (label, value)) in labels.iter().enumerate() {
                let comma = if at > 0 { "," } else { "" };
                write!(lines, "{comma}{label}=\"{}\"", escaped(value)).expect(INFALLIBLE);
            }
            lines.push('}');
        }
        write!(lines, " {value}").expect(INFALLIBLE);
        if let Some(time) = time {
            write!(lines, " {}", time.as_millisecond()).expect(INFALLIBLE);
        }
        lines.push('\n');
    }

    /// The whole page.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (name, Family { help, kind, lines }) in &self.0 {
            let kind = match kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
            };
            write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{lines}").expect(INFALLIBLE);
        }
        text
    }
}

/// Seconds of a time in nanoseconds.
#[expect(clippy::cast_precision_loss, reason = "values of the format are floating-point numbers")]
pub fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_written_by_metric_with_their_times() {
        let mut page = Page::default();
        let used = Metric { name: "used_bytes", kind: Kind::Gauge, help: "Used." };
        let time = Timestamp::from_millisecond(1_700_000_000_123).unwrap();
        page.add(used, &[("pod", "a\"b\\c\nd"), ("namespace", "")], 64 << 20, Some(time));
        page.add(Metric { name: "errors_total", kind: Kind::Counter, help: "E." }, &[], 0, None);
        page.add_number(used, &[], 0.25, None);
        let expected = "\
# HELP errors_total E.
# TYPE errors_total counter
errors_total 0
# HELP used_bytes Used.
# TYPE used_bytes gauge
used_bytes{pod=\"a\\\"b\\\\c\\nd\",namespace=\"\"} 67108864 1700000000123
used_bytes 0.25
";
        assert_eq!(page.text(), expected);
    }
}
