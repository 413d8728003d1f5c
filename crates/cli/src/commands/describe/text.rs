//! The text of a description: labels with aligned values.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use status::decide::human_duration;

use super::lines;
use crate::commands::table::clean;

/// The column where values begin.
const VALUES: usize = 20;

/// A description under construction.
#[derive(Debug, Default)]
pub(super) struct Text(String);

impl Text {
    /// A label and its value, with an indentation.
    pub(super) fn field(&mut self, indent: usize, label: &str, value: &str) {
        let label = format!("{:indent$}{}:", "", clean(label));
        let line = format!("{label:<VALUES$} {}", clean(value));
        self.line(line.trim_end());
    }

    /// A label above a section.
    pub(super) fn title(&mut self, title: &str) {
        self.line(&format!("{title}:"));
    }

    /// A label above a section, with an indentation.
    pub(super) fn label(&mut self, indent: usize, label: &str) {
        self.line(&format!("{:indent$}{}:", "", clean(label)));
    }

    /// A value on its own line, with an indentation.
    pub(super) fn value(&mut self, indent: usize, value: &str) {
        self.line(&format!("{:indent$}{}", "", clean(value)));
    }

    /// A table.
    pub(super) fn rows(&mut self, rows: &[Vec<String>]) {
        for line in lines(rows) {
            self.line(&format!("  {line}"));
        }
    }

    /// Keys and values, one line each.
    pub(super) fn pairs(
        &mut self,
        label: &str,
        pairs: Option<&BTreeMap<String, String>>,
        between: &str,
    ) {
        let mut label = label;
        for (key, value) in pairs.into_iter().flatten() {
            let pair = format!("{key}{between}{value}");
            if label.is_empty() {
                self.value(VALUES + 1, &pair);
            } else {
                self.field(0, label, &pair);
            }
            label = "";
        }
        if !label.is_empty() {
            self.field(0, label, "<none>");
        }
    }

    fn line(&mut self, line: &str) {
        writeln!(self.0, "{line}").expect("a string takes every text");
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}

/// A time with its age.
pub(super) fn shown_time(time: &Time, now: Timestamp) -> String {
    format!("{} ({} ago)", time.0, human_duration(now.duration_since(time.0)))
}
