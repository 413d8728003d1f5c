//! Feature gates.

use config::gates::{self, Stage};

use crate::{configured, errors};

#[test]
fn gate_table_is_sorted_and_alpha_gates_are_off() {
    assert!(gates::known().is_sorted_by(|one, other| one.name < other.name));
    assert_eq!(gates::known().len(), 240);
    for gate in gates::known() {
        assert!(gate.stage != Stage::Alpha || !gate.default, "{}", gate.name);
        assert!(gate.stage != Stage::Ga || gate.default, "{}", gate.name);
    }
}

// behaviour: CFG-50, CFG-52
#[test]
fn unknown_or_locked_gate_or_missing_dependency_is_an_error() {
    for (gate, expected) in [
        (
            "NoSuchThing: true",
            "featureGates.NoSuchThing: no feature of this name exists in Kubernetes v1.36",
        ),
        (
            "NodeSwap: false",
            "featureGates.NodeSwap: the feature is locked to true and cannot be switched",
        ),
        (
            "GangScheduling: true",
            "featureGates.GangScheduling: the feature is on, but it needs GenericWorkload, which \
             is off",
        ),
    ] {
        let found: Vec<String> =
            errors(&format!("featureGates: {{{gate}}}")).iter().map(ToString::to_string).collect();
        assert_eq!(found, [expected]);
    }
}

// behaviour: CFG-53
#[test]
fn all_alpha_and_all_beta_apply_to_gates_not_named_themselves() {
    for (gates, name, expected) in [
        ("", "MemoryQoS", false),
        ("", "KubeletSeparateDiskGC", true),
        ("MemoryQoS: true", "MemoryQoS", true),
        ("AllAlpha: true", "MemoryQoS", true),
        ("AllAlpha: true, MemoryQoS: false", "MemoryQoS", false),
        ("AllBeta: false", "KubeletSeparateDiskGC", false),
        ("AllBeta: false, KubeletSeparateDiskGC: true", "KubeletSeparateDiskGC", true),
        ("AllAlpha: true", "NodeSwap", true),
        ("", "NoSuchThing", false),
    ] {
        let config = configured(&format!("featureGates: {{{gates}}}"));
        assert_eq!(config.features().enabled(name), expected, "{gates} {name}");
    }
}

#[test]
fn explicit_value_is_none_when_a_gate_is_not_set() {
    for (gates, name, expected) in [
        ("", "EventedPLEG", None),
        ("EventedPLEG: false", "EventedPLEG", Some(false)),
        ("AllAlpha: false", "EventedPLEG", Some(false)),
        ("AllAlpha: false, EventedPLEG: true", "EventedPLEG", Some(true)),
        ("AllBeta: false", "EventedPLEG", None),
        ("AllBeta: true", "NodeSwap", None),
        ("", "NoSuchThing", None),
    ] {
        let config = configured(&format!("featureGates: {{{gates}}}"));
        assert_eq!(config.features().explicit_value(name), expected, "{gates} {name}");
    }
}
