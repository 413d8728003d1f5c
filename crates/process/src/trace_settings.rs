//! Settings of traces.

/// The sampling of traces and their receiver: the field `tracing` of the configuration.
#[derive(Debug, Clone, Default)]
pub struct TraceSettings {
    /// The collector, by gRPC's rules for names; the usual environment variables apply without one.
    pub endpoint: Option<String>,
    /// How many of a million root spans are sampled.
    pub sampling_rate_per_million: Option<i32>,
}
