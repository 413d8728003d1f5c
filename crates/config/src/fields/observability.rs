//! Logs and traces.

use model::quantity::Quantity;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::as_written::CanonicalQuantity;
use crate::duration::GoDuration;
use crate::finding::{At, Findings};
use crate::setting::{Setting, settings, words};

settings! {
    /// Log output.
    pub struct Logging {
        /// The format of a line.
        format: LogFormat = "format", unset(LogFormat::Text);
        /// How long lines may be buffered.
        flush_frequency: FlushFrequency =
            "flushFrequency", unset(FlushFrequency::Duration(GoDuration::from_secs(5)));
        /// The verbosity.
        verbosity: u32 = "verbosity", absent(0);
        /// The verbosity of some source files.
        vmodule: Vec<ModuleVerbosity> = "vmodule", unset(Vec::new());
        /// Options of each format.
        options: LogOptions = "options", absent(LogOptions::default());
    }
}

words! {
    /// The format of a log line.
    pub enum LogFormat {
        /// A header, a message and `key="value"`.
        Text = "text",
        /// A JSON object.
        Json = "json",
    }
}

/// How long lines may be buffered, in one of two notations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushFrequency {
    /// A duration.
    Duration(GoDuration),
    /// A whole number of nanoseconds, the older notation.
    Nanoseconds(GoDuration),
}

impl FlushFrequency {
    /// The duration of either notation.
    pub const fn duration(self) -> GoDuration {
        match self {
            Self::Duration(duration) | Self::Nanoseconds(duration) => duration,
        }
    }
}

impl Setting for FlushFrequency {
    fn read(node: &Value, at: &At<'_>, findings: &mut Findings) -> Option<Self> {
        if node.is_number() {
            let nanos = i64::read(node, at, findings)?;
            return Some(Self::Nanoseconds(GoDuration::from_nanos(nanos)));
        }
        GoDuration::read(node, at, findings).map(Self::Duration)
    }

    fn is_zero_node(node: &Value) -> bool {
        i64::is_zero_node(node) || GoDuration::is_zero_node(node)
    }
}

impl Serialize for FlushFrequency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Duration(duration) => duration.serialize(serializer),
            Self::Nanoseconds(duration) => serializer.serialize_i64(duration.nanos()),
        }
    }
}

settings! {
    /// The verbosity of some source files.
    pub struct ModuleVerbosity {
        /// Patterns of file names, with wildcards.
        file_pattern: String = "filePattern", absent(String::new());
        /// The verbosity.
        verbosity: u32 = "verbosity", absent(0);
    }
}

settings! {
    /// Options of each log format.
    pub struct LogOptions {
        /// For text.
        text: LogOutput = "text", absent(LogOutput::default());
        /// For JSON.
        json: LogOutput = "json", absent(LogOutput::default());
    }
}

settings! {
    /// Output streams of log lines.
    pub struct LogOutput {
        /// Whether errors go to standard error and the rest to standard output.
        split_stream: bool = "splitStream", unset(false);
        /// How many bytes of the rest may be buffered.
        info_buffer_size: CanonicalQuantity =
            "infoBufferSize", unset(CanonicalQuantity(Quantity::ZERO));
    }
}

settings! {
    /// Traces.
    pub struct Tracing {
        /// The collector; `None` for `localhost:4317`.
        endpoint: Option<String> = "endpoint", absent(None);
        /// The number of sampled root spans per million; `None` to follow the sampling of the caller only.
        sampling_rate_per_million: Option<i32> = "samplingRatePerMillion", absent(None);
    }
}
