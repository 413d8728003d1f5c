//! The flags of a command line.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Flag, Syntax, Target, find_among, known, node_label_problems, parse_bool, value};
use crate::duration::GoDuration;
use crate::fields::KubeletConfiguration;
use crate::finding::{At, FieldError, Findings, Warning};
use crate::setting::Setting;

/// The parsed flags of a command line, not yet applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlagSet {
    /// The known flags, by name.
    pub(super) flags: &'static [Flag],
    /// In the order of the command line.
    pub(super) given: Vec<(&'static Flag, String)>,
}

impl Default for FlagSet {
    fn default() -> Self {
        Self { flags: known(), given: Vec::new() }
    }
}

impl FlagSet {
    /// The flag of that name, with hyphens, if it is known.
    pub(super) fn find(&self, name: &str) -> Option<&'static Flag> {
        find_among(self.flags, name)
    }

    /// Whether the flag was given.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.iter().any(|(flag, _)| flag.name == name)
    }

    /// The last text given for the flag, or its default.
    pub fn text(&self, name: &str) -> &str {
        self.texts(name).last().copied().unwrap_or_else(|| {
            match self.find(name).map(|f| f.target) {
                Some(Target::Own { default, .. }) => default,
                _ => "",
            }
        })
    }

    /// The effective flags without a field, and those that were given, by name. Headers, which may have secrets,
    /// are masked.
    pub fn shown(&self) -> Vec<(String, String)> {
        let shown = self.flags.iter().filter_map(|flag| {
            let given = self.texts(flag.name);
            let text = match (&given[..], flag.target, flag.syntax) {
                ([], Target::Own { default, .. }, _) => default.to_owned(),
                ([], ..) => return None,
                (_, _, Syntax::Headers) => "<masked>".to_owned(),
                (given, ..) => given.join(","),
            };
            Some((flag.name.to_owned(), text))
        });
        shown.collect()
    }

    /// Whether a boolean flag is true.
    pub fn is_on(&self, name: &str) -> bool {
        parse_bool(self.text(name)).unwrap_or(false)
    }

    /// The whole number given for the flag, or its default.
    pub fn integer(&self, name: &str) -> Option<i64> {
        value::join(Syntax::Integer, &[self.text(name)]).ok().and_then(|value| value.as_i64())
    }

    /// The number given for the flag, or its default.
    pub fn number(&self, name: &str) -> Option<f64> {
        value::join(Syntax::Number, &[self.text(name)]).ok().and_then(|value| value.as_f64())
    }

    /// All items given for a list, or those of its default.
    pub fn list(&self, name: &str) -> Vec<String> {
        let given = self.texts(name);
        let texts = if given.is_empty() { vec![self.text(name)] } else { given };
        let Ok(Value::Array(items)) = value::join(Syntax::List, &texts) else { return Vec::new() };
        items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
    }

    /// The duration given for the flag, or its default.
    pub fn duration(&self, name: &str) -> Option<GoDuration> {
        self.text(name).parse().ok()
    }

    /// The labels for the node.
    pub fn node_labels(&self) -> BTreeMap<String, String> {
        let Ok(Value::Object(labels)) = value::join(Syntax::Labels, &self.texts("node-labels"))
        else {
            return BTreeMap::new();
        };
        let text = |value: Value| value.as_str().unwrap_or_default().to_owned();
        labels.into_iter().map(|(key, value)| (key, text(value))).collect()
    }

    /// The feature gates of the command line.
    pub fn feature_gates(&self) -> BTreeMap<String, bool> {
        let Ok(Value::Object(gates)) = value::join(Syntax::Gates, &self.texts("feature-gates"))
        else {
            return BTreeMap::new();
        };
        gates.into_iter().map(|(name, value)| (name, value == true)).collect()
    }

    /// A warning for each deprecated flag, once.
    pub fn warnings(&self) -> Vec<Warning> {
        let names: BTreeMap<_, _> = self.given.iter().map(|(flag, _)| (flag.name, flag)).collect();
        names
            .values()
            .filter_map(|flag| {
                let advice = flag.advice()?;
                Some(Warning::DeprecatedFlag { flag: flag.name, advice })
            })
            .collect()
    }

    /// Validates flags without a field.
    pub(crate) fn check(&self, findings: &mut Findings) {
        for problem in node_label_problems(&self.node_labels()) {
            findings.flag_error("--node-labels", problem);
        }
        let provider = self.text("cloud-provider");
        if !matches!(provider, "" | "external") {
            let problem = format!("{provider:?} is not built in; the only provider is external");
            findings.flag_error("--cloud-provider", problem);
        }
        if self.is_on("exit-on-lock-contention") && self.text("lock-file").is_empty() {
            findings.flag_error("--exit-on-lock-contention", "needs --lock-file");
        }
    }

    /// Sets the fields of the flags. Unlike in a file, a zero is a value.
    pub fn apply(&self, config: &mut KubeletConfiguration, findings: &mut Findings) {
        for flag in known() {
            let Target::Field { path, .. } = flag.target else { continue };
            let texts = self.texts(flag.name);
            if texts.is_empty() || (flag.syntax == Syntax::Address && texts.ends_with(&[""])) {
                continue;
            }
            let mut own = Findings::default();
            match value::join(flag.syntax, &texts) {
                Ok(value) if flag.syntax == Syntax::Gates => {
                    // Unlike other maps, this one is merged with that of the file.
                    let mut gates = serde_json::to_value(&config.feature_gates).unwrap_or_default();
                    crate::dropins::merge(&mut gates, value);
                    config.assign(&[path], &gates, &At::ROOT, &mut own);
                }
                Ok(value) => {
                    let path: Vec<&str> = path.split('.').collect();
                    config.assign(&path, &value, &At::ROOT, &mut own);
                }
                Err(problem) => own.error(path, problem),
            }
            let source = Some(format!("--{}", flag.name));
            let errors = own.errors.into_iter();
            findings
                .errors
                .extend(errors.map(|error| FieldError { source: source.clone(), ..error }));
        }
    }

    /// The flag that set the field of that path, or one above or below it.
    pub(crate) fn of_field(&self, field: &str) -> Option<&'static Flag> {
        let is_below = |path: &str, above: &str| {
            path.strip_prefix(above)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let flags = self.given.iter().map(|(flag, _)| *flag);
        let mut flags = flags.filter(|flag| match flag.target {
            Target::Field { path, .. } => is_below(field, path) || is_below(path, field),
            _ => false,
        });
        flags.next_back()
    }

    fn texts(&self, name: &str) -> Vec<&str> {
        self.given
            .iter()
            .filter(|(flag, _)| flag.name == name)
            .map(|(_, text)| text.as_str())
            .collect()
    }
}
