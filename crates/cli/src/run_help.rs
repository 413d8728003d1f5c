//! The text of `ferrolet run --help`.

use std::fmt::Write as _;

use config::flags::{Flag, Target, known};
use ferrolet::supported_settings::has_effect;

/// The maximum width of a line of names.
const WIDTH: usize = 96;

/// Flags without a field: value and meaning.
const OWN: &[(&str, &str, &str)] = &[
    (
        "bootstrap-kubeconfig",
        "FILE",
        "kubeconfig of a node that joins the cluster; writes --kubeconfig",
    ),
    ("cert-dir", "DIR", "certificates of the node (default /var/lib/kubelet/pki)"),
    ("cloud-provider", "external", "an external cloud provider manages the node too"),
    ("config", "FILE", "a KubeletConfiguration"),
    ("config-dir", "DIR", "drop-ins for the configuration, in lexical order"),
    (
        "experimental-allocatable-ignore-eviction",
        "",
        "pods can request what eviction thresholds reserve",
    ),
    ("ferrolet-config", "FILE", "settings that the kubelet does not have"),
    ("hostname-override", "NAME", "name of this node instead of the host name"),
    ("image-credential-provider-bin-dir", "DIR", "programs of the credential providers"),
    (
        "image-credential-provider-config",
        "PATH",
        "configuration of credential providers: a file or a directory",
    ),
    ("kubeconfig", "FILE", "kubeconfig for the API server; without it, the node runs standalone"),
    ("maximum-dead-containers", "N", "dead containers kept on the node (default no limit)"),
    ("maximum-dead-containers-per-container", "N", "the same for each container (default 1)"),
    ("minimum-container-ttl-duration", "AGE", "minimum age of a dead container for removal"),
    ("node-ip", "ADDRESSES", "addresses of this node instead of those of its network"),
    ("node-labels", "KEY=VALUE,...", "labels of the Node object at its creation"),
    ("root-dir", "DIR", "the agent's files (default /var/lib/kubelet)"),
    ("seccomp-default", "", "the same as seccompDefault: true"),
    ("version", "", "print the version"),
];

/// The flags: those without a field, those that set a field with an effect, and the names of
/// the others, which are accepted.
pub(crate) fn help() -> String {
    let mut text = String::from(
        "Run the node agent: run the pods of this machine as specified.\n\n\
         Usage: ferrolet run [flags]\n\n\
         The flags are those of the kubelet, with its syntax: --flag=value or --flag value,\n\
         but a yes-or-no flag only as --flag or --flag=false.\n\n",
    );
    let own = known().iter().filter(|flag| matches!(flag.target, Target::Own { .. }));
    for flag in own.filter(|flag| has_effect(flag) && flag.name != "help") {
        let known = OWN.iter().find(|(name, ..)| *name == flag.name);
        let (_, value, meaning) = known.copied().unwrap_or_default();
        let usage = format!("{} {value}", flag.name);
        writeln!(text, "      --{usage:<26} {meaning}").expect("a string takes every text");
    }
    text.push_str(
        "  -v, --v LEVEL                    4 logs decisions, 6 calls too\n\
         \x20 -h, --help                       print this help\n\n\
         These set a field of the configuration and have an effect:\n\n",
    );
    for (flag, field) in fields().filter(|(flag, _)| has_effect(flag)) {
        writeln!(text, "      --{:<32} {field}", flag.name).expect("a string takes every text");
    }
    text.push_str("\nThese are accepted, and have no effect yet:\n\n");
    let mut line = String::new();
    for flag in known().iter().filter(|flag| !has_effect(flag)) {
        if line.len() + flag.name.len() > WIDTH {
            writeln!(text, "      {}", line.trim_end()).expect("a string takes every text");
            line.clear();
        }
        write!(line, "--{} ", flag.name).expect("a string takes every text");
    }
    writeln!(text, "      {}", line.trim_end()).expect("a string takes every text");
    text
}

/// The value and the meaning of a flag, for completion and manual pages.
pub(crate) fn meaning(flag: &Flag) -> (&'static str, String) {
    let own = OWN.iter().find(|(name, ..)| *name == flag.name);
    match (own, &flag.target) {
        (Some((_, value, meaning)), _) => (value, (*meaning).to_owned()),
        _ if flag.name == "v" => ("LEVEL", "4 logs decisions, 6 calls too".to_owned()),
        _ if !has_effect(flag) => ("", "accepted, has no effect yet".to_owned()),
        (None, Target::Field { path, .. }) => ("", format!("sets {path}")),
        (None, _) => ("", String::new()),
    }
}

/// Flags that set a field, with the field; `-v` is listed above.
fn fields() -> impl Iterator<Item = (&'static Flag, &'static str)> {
    known().iter().filter_map(|flag| match flag.target {
        Target::Field { path, .. } if flag.name != "v" => Some((flag, path)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_is_listed_by_whether_it_has_an_effect() {
        let text = help();
        let (with, without) = text.split_once("have no effect yet").unwrap();
        for flag in known() {
            let name = format!("--{}", flag.name);
            let count = |part: &str| part.split_whitespace().filter(|word| *word == name).count();
            assert_eq!(count(with) > 0, has_effect(flag), "{name}");
            assert_eq!(count(without) > 0, !has_effect(flag), "{name}");
        }
        for name in ["--pod-manifest-path", "--container-runtime-endpoint", "--feature-gates"] {
            assert!(with.contains(name), "{name}");
        }
        assert!(without.split_whitespace().any(|word| word == "--lock-file"), "{without}");
        assert!(text.lines().all(|line| line.len() <= 110), "{text}");
        let own = known().iter().filter(|flag| matches!(flag.target, Target::Own { .. }));
        let listed: Vec<&str> = own.filter(|flag| has_effect(flag)).map(|flag| flag.name).collect();
        let explained: Vec<&str> = OWN.iter().map(|(name, ..)| *name).chain(["help"]).collect();
        assert!(listed.iter().all(|name| explained.contains(name)), "{listed:?} {explained:?}");
    }
}
