//! Optional features of planned containers: hooks, restart rules, a stop signal, termination messages.

use std::fmt;
use std::time::Duration;

use super::pods::Policy;

/// The address of the server for HTTP hooks, outside of all pods.
pub(crate) const HOOKS: &str = "hooks.test";

/// Exit codes that restart all containers of a pod. No program exits with one of them soon after its start, so
/// that no pod restarts all the time.
const RESTART_ALL: [i32; 2] = [3, 137];

/// The optional features of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extras {
    /// Its postStart hook.
    pub post_start: Option<Hook>,
    /// Its preStop hook.
    pub pre_stop: Option<Hook>,
    /// Its own restart policy, with exceptions.
    pub rule: Option<RestartRule>,
    /// Its stop signal.
    pub signal: Option<&'static str>,
    /// Whether the end of its log is used as its termination message.
    pub message_from_log: bool,
}

/// A hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// A command with this duration and exit code.
    Exec(Duration, u8),
    /// An HTTP request.
    Http,
    /// A sleep in seconds.
    Sleep(u64),
}

/// The restart policy of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartRule {
    /// The default.
    pub policy: Policy,
    /// The exception for some exit codes.
    pub action: Action,
}

/// An exception for some exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The container restarts with this code.
    Restart(i32),
    /// The container restarts with all other codes.
    RestartUnless(i32),
    /// All containers of the pod restart.
    RestartAll,
}

impl RestartRule {
    /// Whether a container restarts after this exit code.
    pub fn restarts(self, exit_code: i32) -> bool {
        let by_rule = match self.action {
            Action::Restart(code) => code == exit_code,
            Action::RestartUnless(code) => code != exit_code,
            Action::RestartAll => RESTART_ALL.contains(&exit_code),
        };
        by_rule || self.policy.restarts(exit_code)
    }

    /// Whether all containers of its pod restart after this exit code of a container.
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
    /// Whether its exit may restart its whole pod.
    pub fn restarts_all(&self) -> bool {
        self.rule.is_some_and(|rule| rule.action == Action::RestartAll)
    }

    /// The rest of a container's manifest.
    pub(super) fn yaml(&self) -> String {
        let hooks = [("postStart", self.post_start), ("preStop", self.pre_stop)];
        let hooks =
            hooks.into_iter().filter_map(|(name, hook)| Some(format!("{name}: {}", hook?.yaml())));
        let signal = self.signal.map(|signal| format!("stopSignal: {signal}"));
        let lifecycle: Vec<String> = hooks.chain(signal).collect();
        let has_any = !lifecycle.is_empty();
        let lifecycle = has_any.then(|| format!(", lifecycle: {{{}}}", lifecycle.join(", ")));
        let rule = self.rule.map(RestartRule::yaml);
        let policy = ", terminationMessagePolicy: FallbackToLogsOnError";
        let policy = self.message_from_log.then(|| policy.to_owned());
        [lifecycle, rule, policy].into_iter().flatten().collect()
    }
}

impl Hook {
    /// Whether it fails without an injected fault.
    pub fn fails(self) -> bool {
        matches!(self, Self::Exec(_, 1..))
    }

    /// The same hook with a duration within a grace.
    pub(super) fn within(self, grace: u64) -> Self {
        match self {
            Self::Sleep(_) if grace == 0 => Self::Exec(Duration::ZERO, 0),
            Self::Sleep(seconds) => Self::Sleep(seconds.min(grace)),
            hook => hook,
        }
    }

    /// Its command, if it has one.
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
                // An unquoted number would not be a string.
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
        if self.message_from_log {
            f.write_str(" message-from-log")?;
        }
        Ok(())
    }
}
