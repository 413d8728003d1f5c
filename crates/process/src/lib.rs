//! Parts of any program: logs, traces, signals, tasks, the clock, and the service manager.
//!
//! Inputs: the settings of a program, signals, and the environment that systemd passes. Outputs: log lines on standard
//! error, spans for an OpenTelemetry collector, notifications of systemd, and the end of a task or the name of a signal.
//!
//! Invariants:
//! - a log line is one line, in any format and whatever its fields contain;
//! - a collector that does not answer delays no other part of the program;
//! - a long task that ends early is reported with its name;
//! - systemd's watchdog is notified only while all health checks pass.

pub mod clock;
pub mod klog;
pub mod log_events;
pub mod logind;
pub mod memory;
pub mod signals;
pub mod systemd;
pub mod tasks;
mod threads;
mod trace_settings;
#[cfg_attr(not(feature = "otel"), path = "no_traces.rs")]
pub mod traces;
pub mod version;

pub use threads::run_async;
pub use trace_settings::TraceSettings;
