//! The selection of specs.

/// The specs that run by default.
const FOCUS: &str = r"\[sig-(node|storage|network)\].*\[NodeConformance\]";
/// The specs that never run by default: they need an otherwise idle node, much time, or missing parts.
const SKIP: &str = r"\[Serial\]|\[Slow\]|\[Disruptive\]|\[Flaky\]|\[Feature:";

/// A dozen specs that take two minutes, of all kinds of volumes and pod fields.
const QUICK: [&str; 12] = [
    "[sig-node] ConfigMap should be consumable via environment variable [NodeConformance]",
    "[sig-node] Container Runtime blackbox test on terminated container should report termination message from log output if",
    "[sig-node] Downward API should provide pod name, namespace and IP address as env vars [NodeConformance]",
    "[sig-node] InitContainer [NodeConformance] should invoke init containers on a RestartNever pod",
    "[sig-node] Kubelet when scheduling a busybox command in a pod should print the output to logs [NodeConformance]",
    "[sig-node] Variable Expansion should allow composing env vars into new env vars [NodeConformance]",
    "[sig-storage] ConfigMap should be consumable from pods in volume [NodeConformance]",
    "[sig-storage] Downward API volume should provide podname only [NodeConformance]",
    "[sig-storage] EmptyDir volumes should support (root,0644,tmpfs) [LinuxOnly] [NodeConformance]",
    "[sig-storage] HostPath should support subPath [NodeConformance]",
    "[sig-storage] Projected combined should project all components that make up the projection API",
    "[sig-storage] Secrets should be consumable from pods in volume [NodeConformance]",
];

/// The selection of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// All specs that the project follows.
    Whole,
    /// A dozen of them.
    Quick,
    /// The special characters of regular expressions.
    Chosen { focus: Option<String>, skip: Option<String> },
}

impl Selection {
    /// The selection of the command line. Empty expressions count as absent.
    pub fn new(quick: bool, focus: Option<String>, skip: Option<String>) -> Self {
        let focus = focus.filter(|text| !text.is_empty());
        let skip = skip.filter(|text| !text.is_empty());
        match (quick, &focus, &skip) {
            (true, ..) => Self::Quick,
            (false, None, None) => Self::Whole,
            _ => Self::Chosen { focus, skip },
        }
    }

    /// Its name in the table of results.
    pub fn name(&self) -> String {
        match self {
            Self::Whole => "default".to_owned(),
            Self::Quick => "quick".to_owned(),
            Self::Chosen { focus, skip } => {
                let part = |name, text: &Option<String>| {
                    text.as_ref().map(|text| format!("{name}={}", text.replace('|', "\\|")))
                };
                let parts = [part("FOCUS", focus), part("SKIP", skip)];
                parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
            }
        }
    }

    /// The flags of ginkgo that select the specs.
    pub fn flags(&self) -> Vec<String> {
        let skip = |skip: Option<&String>| format!("--skip={}", skip.map_or(SKIP, String::as_str));
        match self {
            Self::Whole => vec![format!("--focus={FOCUS}"), skip(None)],
            Self::Quick => {
                let names = QUICK.map(|name| format!("--focus={}", escape(name)));
                names.into_iter().chain([skip(None)]).collect()
            }
            Self::Chosen { focus, skip: chosen } => {
                let focus = focus.as_deref().unwrap_or(FOCUS);
                vec![format!("--focus={focus}"), skip(chosen.as_ref())]
            }
        }
    }
}

/// A regular expression that matches a text and nothing else.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        if r"\.+*?()|[]{}^$".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_becomes_a_selection() {
        let text = |text: &str| Some(text.to_owned());
        let cases = [
            ((false, None, None), "default"),
            ((false, text(""), text("")), "default"),
            ((true, None, None), "quick"),
            ((false, text("sig-storage"), None), "FOCUS=sig-storage"),
            ((false, text("a|b"), text("c")), r"FOCUS=a\|b SKIP=c"),
        ];
        for ((quick, focus, skip), expected) in cases {
            assert_eq!(Selection::new(quick, focus, skip).name(), expected);
        }
    }

    #[test]
    fn chosen_selection_keeps_the_defaults_of_absent_expressions() {
        let chosen = Selection::Chosen { focus: None, skip: Some("x".to_owned()) };
        assert_eq!(chosen.flags(), [format!("--focus={FOCUS}"), "--skip=x".to_owned()]);
        let chosen = Selection::Chosen { focus: Some("x".to_owned()), skip: None };
        assert_eq!(chosen.flags(), ["--focus=x".to_owned(), format!("--skip={SKIP}")]);
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(escape("[a] (b,c) d.*"), r"\[a\] \(b,c\) d\.\*");
        assert_eq!(Selection::Quick.flags().len(), QUICK.len() + 1);
    }
}
