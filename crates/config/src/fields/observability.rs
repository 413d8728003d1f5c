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
        /// Form of a line.
        format: LogFormat = "format", unset(LogFormat::Text);
        /// How long a line may be held back.
        flush_frequency: FlushFrequency =
            "flushFrequency", unset(FlushFrequency::Duration(GoDuration::from_secs(5)));
        /// How much is told.
        verbosity: u32 = "verbosity", absent(0);
        /// How much is told by some source files.
        vmodule: Vec<ModuleVerbosity> = "vmodule", unset(Vec::new());
        /// Finer points of each form.
        options: LogOptions = "options", absent(LogOptions::default());
    }
}

words! {
    /// Form of a log line.
    pub enum LogFormat {
        /// A header, a message and `key="value"`.
        Text = "text",
        /// A JSON object.
        Json = "json",
    }
}

/// How long a line may be held back, written in one of two ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushFrequency {
    /// As other durations are.
    Duration(GoDuration),
    /// As a whole number of nanoseconds, which is how it was once.
    Nanoseconds(GoDuration),
}

impl FlushFrequency {
    /// How long, however it is written.
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
    /// How much is told by some source files.
    pub struct ModuleVerbosity {
        /// Names of the files, with wildcards.
        file_pattern: String = "filePattern", absent(String::new());
        /// How much.
        verbosity: u32 = "verbosity", absent(0);
    }
}

settings! {
    /// Finer points of each log format.
    pub struct LogOptions {
        /// For text.
        text: LogOutput = "text", absent(LogOutput::default());
        /// For JSON.
        json: LogOutput = "json", absent(LogOutput::default());
    }
}

settings! {
    /// Where lines go.
    pub struct LogOutput {
        /// Whether errors go to standard error and the rest to standard output.
        split_stream: bool = "splitStream", unset(false);
        /// How much of the rest may be held back.
        info_buffer_size: CanonicalQuantity =
            "infoBufferSize", unset(CanonicalQuantity(Quantity::ZERO));
    }
}

settings! {
    /// Traces.
    pub struct Tracing {
        /// The collector; none for `localhost:4317`.
        endpoint: Option<String> = "endpoint", absent(None);
        /// How many of a million traces are begun here; none for those begun elsewhere alone.
        sampling_rate_per_million: Option<i32> = "samplingRatePerMillion", absent(None);
    }
}
