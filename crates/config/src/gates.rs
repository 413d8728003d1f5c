//! Feature gates: which exist, and which are on.

mod table;

use std::collections::BTreeMap;
use std::fmt;

use crate::finding::Findings;

/// The stage of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Off by default.
    Alpha,
    /// Mostly on by default.
    Beta,
    /// Stable; the gate will be removed.
    Ga,
    /// To be removed.
    Deprecated,
}

impl fmt::Display for Stage {
    /// The labels of the metric `kubernetes_feature_enabled`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
            Self::Ga => "",
            Self::Deprecated => "DEPRECATED",
        })
    }
}

/// A feature with a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    /// Its name.
    pub name: &'static str,
    /// Its stage.
    pub stage: Stage,
    /// Whether it is on by default.
    pub default: bool,
    /// Whether the gate is locked to its default.
    pub locked: bool,
}

/// Every gate of this version, by name.
pub fn known() -> &'static [Gate] {
    table::GATES
}

/// The gate of that name.
pub fn find(name: &str) -> Option<&'static Gate> {
    let gates = known();
    gates.binary_search_by(|gate| gate.name.cmp(name)).ok().map(|index| &gates[index])
}

/// Names that switch a whole stage; a gate that is set itself is not affected.
const GROUPS: [(&str, Stage); 2] = [("AllAlpha", Stage::Alpha), ("AllBeta", Stage::Beta)];

/// Which features are on.
#[derive(Debug, Clone, Copy)]
pub struct FeatureGates<'a> {
    /// The settings; later maps take precedence.
    explicit: [&'a BTreeMap<String, bool>; 2],
}

impl<'a> FeatureGates<'a> {
    /// The gates of the command line, followed by those of the configuration.
    pub fn new(flags: &'a BTreeMap<String, bool>, configured: &'a BTreeMap<String, bool>) -> Self {
        Self { explicit: [flags, configured] }
    }

    /// Whether the feature is on; an unknown name is off.
    pub fn enabled(&self, name: &str) -> bool {
        find(name).is_some_and(|gate| self.explicit_value(name).unwrap_or(gate.default))
    }

    /// The explicit setting of the feature, by its name or its stage. None for a gate that cannot be
    /// switched.
    pub fn explicit_value(&self, name: &str) -> Option<bool> {
        let gate = find(name).filter(|gate| !gate.locked)?;
        let group = || GROUPS.iter().find(|(_, stage)| *stage == gate.stage);
        self.explicit(name).or_else(|| self.explicit(group()?.0))
    }

    /// Every feature with its stage and whether it is on; also those that switch a whole stage.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, Stage, bool)> {
        let each = known().iter().map(|gate| (gate.name, gate.stage, self.enabled(gate.name)));
        let groups = GROUPS.iter().map(|(name, stage)| {
            let explicit = self.explicit(name);
            (*name, *stage, explicit.unwrap_or(false))
        });
        each.chain(groups)
    }

    fn explicit(&self, name: &str) -> Option<bool> {
        self.explicit.iter().rev().find_map(|map| map.get(name).copied())
    }
}

/// No settings.
pub(crate) fn none() -> &'static BTreeMap<String, bool> {
    static NONE: BTreeMap<String, bool> = BTreeMap::new();
    &NONE
}

/// Reports gates that do not exist, that are locked to another value, or that are deprecated.
pub(crate) fn check(configured: &BTreeMap<String, bool>, findings: &mut Findings) {
    for (name, value) in configured {
        if GROUPS.iter().any(|(group, _)| group == name) {
            continue;
        }
        let field = format_args!("featureGates.{name}");
        match find(name) {
            None => findings.error(field, "no feature of this name exists in Kubernetes v1.36"),
            Some(gate) if gate.locked && gate.default != *value => findings.error(
                field,
                format_args!("the feature is locked to {} and cannot be switched", gate.default),
            ),
            Some(gate) if gate.stage == Stage::Ga => findings.doubt(
                field,
                "the feature is generally available; its gate will be removed in a later version",
            ),
            Some(gate) if gate.stage == Stage::Deprecated => findings
                .doubt(field, "the gate is deprecated and will be removed in a later version"),
            Some(_) => {}
        }
    }
    check_needs(configured, findings);
}

fn check_needs(configured: &BTreeMap<String, bool>, findings: &mut Findings) {
    let gates = FeatureGates::new(none(), configured);
    for (name, needs) in table::NEEDS.iter().filter(|(name, _)| gates.enabled(name)) {
        for needed in needs.iter().filter(|needed| !gates.enabled(needed)) {
            findings.error(
                format_args!("featureGates.{name}"),
                format_args!("the feature is on, but it needs {needed}, which is off"),
            );
        }
    }
}
