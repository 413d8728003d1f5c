//! What containers of a plan have beyond a program: hooks, rules for restarts, a stop signal, last words.

use std::fmt;
use std::time::Duration;

use super::pods::Policy;

/// Where hooks by HTTP are answered, outside of all pods.
pub(crate) const HOOKS: &str = "hooks.test";

/// Exit codes upon which all containers of a pod start over. No program ends with one of them soon after
/// its start, so that none starts over all the time.
const RESTART_ALL: [i32; 2] = [3, 137];

/// What a container has beyond a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extras {
    /// What runs right after its start.
    pub post_start: Option<Hook>,
    /// What runs before it is asked to end.
    pub pre_stop: Option<Hook>,
    /// Its own policy, and when that does not count.
    pub rule: Option<RestartRule>,
    /// The signal that asks it to end.
    pub signal: Option<&'static str>,
    /// Whether the end of its log stands for its last words.
    pub last_words_from_log: bool,
}

/// A hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// A command that takes so long and ends with this code.
    Exec(Duration, u8),
    /// A request.
    Http,
    /// Seconds that pass.
    Sleep(u64),
}

/// A policy of a container's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartRule {
    /// What counts otherwise.
    pub policy: Policy,
    /// What happens upon some exit codes.
    pub action: Action,
}

/// What happens upon some exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The container starts again upon this one.
    Restart(i32),
    /// The container starts again upon all others.
    RestartUnless(i32),
    /// All containers of the pod start over.
    RestartAll,
}

impl RestartRule {
    /// Whether a container that ended with this code is started again.
    pub fn restarts(self, exit_code: i32) -> bool {
        let by_rule = match self.action {
            Action::Restart(code) => code == exit_code,
            Action::RestartUnless(code) => code != exit_code,
            Action::RestartAll => RESTART_ALL.contains(&exit_code),
        };
        by_rule || self.policy.restarts(exit_code)
    }

    /// Whether all containers of its pod start over when a container ended with this code.
    pub fn restarts_all(self, exit_code: i32) -> bool {
        self.action == Action::RestartAll && RESTART_ALL.contains(&exit_code)
    }

    fn yaml(self) -> String {
        let Self { policy, action } = self;
        let (action, operator, codes) = match action {
            Action::Restart(code) => ("Restart", "In", vec![code]),
            Action::RestartUnless(code) => ("Restart", "NotIn", vec![code]),
            Action::RestartAll => ("RestartAllContainers", "In", RESTART_ALL.to_vec()),
        };
        format!(
            ", restartPolicy: {policy:?}, restartPolicyRules: [{{action: {action}, \
             exitCodes: {{operator: {operator}, values: {codes:?}}}}}]"
        )
    }
}

impl Extras {
    /// Whether its end may be that of all others in its pod.
    pub fn restarts_all(&self) -> bool {
        self.rule.is_some_and(|rule| rule.action == Action::RestartAll)
    }

    /// What a manifest says of it, behind the rest of a container.
    pub(super) fn yaml(&self) -> String {
        let hooks = [("postStart", self.post_start), ("preStop", self.pre_stop)];
        let hooks =
            hooks.into_iter().filter_map(|(name, hook)| Some(format!("{name}: {}", hook?.yaml())));
        let signal = self.signal.map(|signal| format!("stopSignal: {signal}"));
        let lifecycle: Vec<String> = hooks.chain(signal).collect();
        let has_any = !lifecycle.is_empty();
        let lifecycle = has_any.then(|| format!(", lifecycle: {{{}}}", lifecycle.join(", ")));
        let rule = self.rule.map(RestartRule::yaml);
        let words = ", terminationMessagePolicy: FallbackToLogsOnError";
        let words = self.last_words_from_log.then(|| words.to_owned());
        [lifecycle, rule, words].into_iter().flatten().collect()
    }
}

impl Hook {
    /// Whether it does, without anything going wrong.
    pub fn fails(self) -> bool {
        matches!(self, Self::Exec(_, 1..))
    }

    /// The same within a grace: none may wait longer than that.
    pub(super) fn within(self, grace: u64) -> Self {
        match self {
            Self::Sleep(_) if grace == 0 => Self::Exec(Duration::ZERO, 0),
            Self::Sleep(seconds) => Self::Sleep(seconds.min(grace)),
            hook => hook,
        }
    }

    /// The command that runs for it, if one does.
    pub fn command(self) -> Option<Vec<String>> {
        let Self::Exec(time, code) = self else { return None };
        let time = format!("{}ms", time.as_millis());
        let mut command = vec!["/workload".to_owned()];
        match code {
            0 => command.extend(["sleep".to_owned(), time]),
            code => command.extend(["crash-after".to_owned(), time, code.to_string()]),
        }
        Some(command)
    }

    fn yaml(self) -> String {
        match self {
            Self::Exec(..) => {
                // A number alone would not be text.
                let is_number = |word: &String| word.parse::<u8>().is_ok();
                let word = |word: String| if is_number(&word) { format!("{word:?}") } else { word };
                let words: Vec<_> = self.command().into_iter().flatten().map(word).collect();
                format!("{{exec: {{command: [{}]}}}}", words.join(", "))
            }
            Self::Http => format!("{{httpGet: {{host: {HOOKS}, port: 80, path: /}}}}"),
            Self::Sleep(seconds) => format!("{{sleep: {{seconds: {seconds}}}}}"),
        }
    }
}

impl fmt::Display for Extras {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(hook) = self.post_start {
            write!(f, " post-start {hook:?}")?;
        }
        if let Some(hook) = self.pre_stop {
            write!(f, " pre-stop {hook:?}")?;
        }
        if let Some(RestartRule { policy, action }) = self.rule {
            write!(f, " {policy:?} but {action:?}")?;
        }
        if let Some(signal) = self.signal {
            write!(f, " {signal}")?;
        }
        if self.last_words_from_log {
            f.write_str(" last-words")?;
        }
        Ok(())
    }
}
