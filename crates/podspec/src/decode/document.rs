//! Decodes bytes to one JSON value, within limits.

use serde::de::DeserializeSeed;
use serde_json::Value;
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Error as YamlError, MessageFormatter as _, UserMessageFormatter};

use super::node::{Limits, NodeSeed};
use super::{DecodeError, Language};

/// The maximum size of a manifest, like upstream.
pub const MAX_MANIFEST_BYTES: usize = 10 << 20;

/// The maximum nesting of lists and maps. A pod has about 15 levels.
pub(super) const MAX_DEPTH: usize = 64;
/// The maximum number of values in a manifest of one pod, including repetitions by aliases. A pod has some hundreds; a
/// decoded value may take a thousand times its bytes.
pub(super) const MAX_POD_NODES: usize = 20_000;
/// The maximum number of values in a list of pods.
pub(super) const MAX_LIST_NODES: usize = 100_000;
/// The maximum size of all texts, including repetitions by aliases.
pub(super) const MAX_TEXT_BYTES: usize = 2 * MAX_MANIFEST_BYTES;
/// The maximum number of anchors, and of aliases.
const MAX_ALIASES: usize = 1_000;

/// The first document of a manifest.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) value: Value,
    /// The first line of the next document, if there is one.
    pub(super) next_at: Option<u64>,
}

pub(super) fn read(bytes: &[u8], max_nodes: usize) -> Result<Document, DecodeError> {
    if bytes.len() > MAX_MANIFEST_BYTES {
        return Err(DecodeError::TooLong);
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        DecodeError::NotText { line: before.split(|byte| *byte == b'\n').count() }
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_start().starts_with('{') {
        read_json(text, max_nodes)
    } else {
        read_yaml(text, max_nodes)
    }
}

fn read_json(text: &str, max_nodes: usize) -> Result<Document, DecodeError> {
    let limits = Limits::new(max_nodes);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = NodeSeed::new(&limits)
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value));
    let error = match value {
        Ok(value) => return Ok(Document { value, next_at: None }),
        Err(error) => error,
    };
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let problem = text.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&text);
    let (line, column) = (line as u64, column as u64);
    Err(limits.exceeded(line, column).unwrap_or_else(|| DecodeError::Syntax {
        language: Language::Json,
        line,
        column,
        problem: problem.to_owned(),
    }))
}

fn read_yaml(text: &str, max_nodes: usize) -> Result<Document, DecodeError> {
    let limits = Limits::new(max_nodes);
    let mut value = None;
    let result =
        serde_saphyr::with_deserializer_from_str_with_options(text, options(max_nodes), |yaml| {
            value = Some(NodeSeed::new(&limits).deserialize(yaml)?);
            Ok(())
        });
    match (result, value) {
        (Ok(()), Some(value)) => Ok(Document { value, next_at: None }),
        (Err(YamlError::MultipleDocuments { location, .. }), Some(value)) => {
            let next_at = Some(location.line()).filter(|line| has_content_from(text, *line));
            Ok(Document { value, next_at })
        }
        (Ok(()), None) => Err(DecodeError::Empty),
        (Err(error), _) => Err(yaml_error(&error, &limits)),
    }
}

/// Whether the lines from this one on (counted from 1) contain more than comments and separators.
fn has_content_from(text: &str, line: u64) -> bool {
    let skipped = usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
    text.lines()
        .skip(skipped)
        .map(str::trim)
        .any(|line| !matches!(line, "" | "---" | "...") && !line.starts_with('#'))
}

fn yaml_error(error: &YamlError, limits: &Limits) -> DecodeError {
    let (line, column) = error.location().map_or((1, 1), |at| (at.line(), at.column()));
    if let Some(exceeded) = limits.exceeded(line, column) {
        return exceeded;
    }
    let error = match error.without_snippet() {
        YamlError::AliasError { error, .. } => error.without_snippet(),
        error => error,
    };
    if let Some(problem) = limit_of(error) {
        return DecodeError::TooComplex { line, column, problem: problem.to_owned() };
    }
    if matches!(error, YamlError::Eof { .. }) {
        return DecodeError::Empty;
    }
    let message = UserMessageFormatter.format_message(error);
    // The message quotes the manifest, and quoted text must be escaped for terminals.
    let problem = message.replace(char::is_control, "\u{fffd}");
    DecodeError::Syntax { language: Language::Yaml, line, column, problem }
}

/// The limit of the YAML parser that an error reports.
fn limit_of(error: &YamlError) -> Option<&'static str> {
    use serde_saphyr::budget::BudgetBreach;
    match error {
        YamlError::Budget { breach, .. } => Some(match breach {
            BudgetBreach::Depth { .. } => "too deeply nested",
            BudgetBreach::Events { .. } | BudgetBreach::Nodes { .. } => "too many values",
            BudgetBreach::ScalarBytes { .. } => "too much text",
            _ => "too many anchors and aliases",
        }),
        YamlError::AliasReplayLimitExceeded { .. }
        | YamlError::AliasExpansionLimitExceeded { .. }
        | YamlError::AliasReplayStackDepthExceeded { .. } => Some("aliases repeat too much"),
        _ => None,
    }
}

fn options(max_nodes: usize) -> serde_saphyr::Options {
    let mut alias_limits = serde_saphyr::options::AliasLimits::default();
    alias_limits.max_total_replayed_events = MAX_POD_NODES;
    alias_limits.max_replay_stack_depth = MAX_DEPTH;
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            flow_nesting_limit: MAX_DEPTH,
            max_depth: MAX_DEPTH,
            max_events: 4 * max_nodes,
            max_nodes: max_nodes,
            max_aliases: MAX_ALIASES,
            max_anchors: MAX_ALIASES,
            max_merge_keys: MAX_ALIASES,
            max_recorded_anchor_events: max_nodes,
            max_recorded_anchor_bytes: MAX_TEXT_BYTES,
            max_total_scalar_bytes: MAX_TEXT_BYTES,
        },
        alias_limits: alias_limits,
        duplicate_keys: DuplicateKeyPolicy::Error,
        legacy_octal_numbers: true,
        // A short commit hash like 12e4567 must stay a text.
        non_finite_float_policy: NonFiniteFloatPolicy::Reject,
        with_snippet: false,
    }
}
