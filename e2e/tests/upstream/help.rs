//! The known flags and feature gates equal those in the kubelet's help.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use config::flags;
use config::gates::{self, Stage};
use testbed::Cache;

/// The only flag that the kubelet does not have.
const OURS: &str = "ferrolet-config";

/// The output of `kubelet --help`.
fn help() -> Result<String> {
    let kubelet = Cache::from_env()?.parts().program("kubelet");
    let output = Command::new(&kubelet).arg("--help").output();
    let output = output.with_context(|| format!("run {}", kubelet.display()))?;
    ensure!(output.status.success(), "kubelet --help failed");
    String::from_utf8(output.stdout).context("kubelet --help is not text")
}

/// The flags of a help text, each with whether it is deprecated.
fn flags_of(help: &str) -> BTreeMap<&str, bool> {
    let mut found = BTreeMap::new();
    let mut last = None;
    for line in help.lines() {
        let start = line.trim_start();
        let long = start.split_once(", ").filter(|(short, _)| short.len() == 2);
        let start = long.map_or(start, |(_, long)| long);
        if let Some(rest) = start.strip_prefix("--") {
            last = rest.split(|char: char| !char.is_ascii_alphanumeric() && char != '-').next();
        }
        // The text of a flag ends where the next flag begins.
        if let Some(name) = last {
            *found.entry(name).or_insert(false) |= line.contains("(DEPRECATED:");
        }
    }
    found
}

// behaviour: CFG-47
#[test]
fn known_flags_and_deprecations_equal_the_kubelets() {
    let help = help().unwrap();
    let ours = flags::known().iter().filter(|flag| flag.name != OURS);
    let ours: BTreeMap<&str, bool> =
        ours.map(|flag| (flag.name, flag.advice().is_some())).collect();
    let (_, flags) = help.split_once("\nFlags:\n").expect("the help text has flags");
    assert_eq!(ours, flags_of(flags));
}

// behaviour: CFG-55
#[test]
fn known_feature_gates_have_the_kubelets_stages_and_defaults() {
    let help = help().unwrap();
    let theirs: BTreeMap<&str, (&str, bool)> = help
        .lines()
        .filter_map(|line| {
            let (name, rest) = line.trim_start().split_once("=true|false (")?;
            let (stage, rest) = rest.split_once(" - default=")?;
            Some((name, (stage, rest.starts_with("true"))))
        })
        .collect();
    // The kubelet's help lists no GA or deprecated features.
    let is_listed = |stage| matches!(stage, Stage::Alpha | Stage::Beta);
    let ours = gates::known().iter().filter(|gate| is_listed(gate.stage));
    let ours = ours.map(|gate| (gate.name, (gate.stage.to_string(), gate.default)));
    let groups = [("AllAlpha", Stage::Alpha), ("AllBeta", Stage::Beta)];
    let groups = groups.map(|(name, stage)| (name, (stage.to_string(), false)));
    let ours: BTreeMap<&str, (String, bool)> = ours.chain(groups).collect();
    let ours: BTreeMap<&str, (&str, bool)> =
        ours.iter().map(|(name, (stage, on))| (*name, (stage.as_str(), *on))).collect();
    assert_eq!(ours, theirs);
}

#[test]
fn flags_are_read_from_a_help_text() {
    let help = "Usage: --not\n\nFlags:\n      --address ip      Where (default 0.0.0.0) (DEPRECATED: no\n\
                more.)\n      --cert-dir string      A --directory\n  -v, --v Level      How much\n\
                \x20     --vmodule pattern=N,...   a list\n                of (DEPRECATED: x)\n";
    let (_, flags) = help.split_once("Flags:").unwrap();
    let found: Vec<(&str, bool)> = flags_of(flags).into_iter().collect();
    assert_eq!(found, [("address", true), ("cert-dir", false), ("v", false), ("vmodule", true)]);
}
