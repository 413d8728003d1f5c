//! Logs and traces.

use crate::fields::{KubeletConfiguration, LogFormat, Logging, Tracing};
use crate::finding::Findings;
use crate::gates::FeatureGates;

pub(super) fn check(
    config: &KubeletConfiguration,
    gates: &FeatureGates<'_>,
    findings: &mut Findings,
) {
    logging(&config.logging, gates, findings);
    if let Some(tracing) = &config.tracing {
        traces(tracing, findings);
    }
}

fn logging(logging: &Logging, gates: &FeatureGates<'_>, findings: &mut Findings) {
    let frequency = logging.flush_frequency.duration();
    findings.require(
        !frequency.is_zero() && !frequency.is_negative(),
        "logging.flushFrequency",
        "must be more than zero",
    );
    findings.require(
        logging.vmodule.is_empty() || logging.format == LogFormat::Text,
        "logging.vmodule",
        "works with format text alone",
    );
    for (index, module) in logging.vmodule.iter().enumerate() {
        let field = format_args!("logging.vmodule[{index}].filePattern");
        findings.require(!module.file_pattern.is_empty(), field, "must not be empty");
        findings.require(
            !module.file_pattern.contains(['=', ',']),
            field,
            "must have no equals sign and no comma",
        );
    }
    let gate = "LoggingAlphaOptions";
    if gates.enabled(gate) {
        return;
    }
    for (format, output) in [("text", &logging.options.text), ("json", &logging.options.json)] {
        let problem = format_args!("needs feature gate {gate}");
        findings.require(
            !output.split_stream,
            format_args!("logging.options.{format}.splitStream"),
            problem,
        );
        findings.require(
            output.info_buffer_size.0.is_zero(),
            format_args!("logging.options.{format}.infoBufferSize"),
            problem,
        );
    }
}

fn traces(tracing: &Tracing, findings: &mut Findings) {
    if let Some(rate) = tracing.sampling_rate_per_million {
        findings.require(
            (0..=1_000_000).contains(&rate),
            "tracing.samplingRatePerMillion",
            "must be from 0 to 1000000",
        );
    }
    if let Some(endpoint) = &tracing.endpoint
        && let Some((scheme, _)) = endpoint.split_once("//")
    {
        findings.require(
            matches!(scheme, "dns:" | "unix:" | "unix-abstract:"),
            "tracing.endpoint",
            "must have no scheme, or dns, unix or unix-abstract",
        );
    }
}
