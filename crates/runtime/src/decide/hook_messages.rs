//! Messages about failed hooks in container statuses: upstream's texts.

use super::go_text::quoted;

/// The container of a failed hook.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HookedContainer<'a> {
    /// The container.
    pub(crate) container: &'a str,
    /// Its pod in upstream's format: `NAME_NAMESPACE(UID)`.
    pub(crate) pod: &'a str,
}

impl HookedContainer<'_> {
    /// A command did not run or failed with this output.
    pub(crate) fn exec_failed(self, command: &[String], error: &str, output: &str) -> String {
        let what = format!("Exec lifecycle hook ([{}])", command.join(" "));
        format!("{}, message: {}", self.failed(&what, error), quoted(output))
    }

    /// A request got no response.
    pub(crate) fn http_failed(self, path: &str, error: &str) -> String {
        self.failed(&format!("HTTP lifecycle hook ({path})"), error)
    }

    fn failed(self, what: &str, error: &str) -> String {
        let (container, pod) = (quoted(self.container), quoted(self.pod));
        format!("{what} for Container {container} in Pod {pod} failed - error: {error}")
    }
}

/// A command exited with a code other than 0.
pub(crate) fn exited(command: &[String], code: i32, stderr: &str) -> String {
    format!("command '{}' exited with {code}: {stderr}", command.join(" "))
}

/// The runtime cancelled a command, although hooks set no timeout.
pub(crate) fn timed_out(command: &[String]) -> String {
    format!("command timed out: {} timed out after 0s", quoted(&command.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: ACT-126
    #[test]
    fn hook_failure_messages_match_upstream() {
        let whose = HookedContainer { container: "main", pod: "web_default(uid)" };
        let command = ["/bin/sh", "-c", "exit 3"].map(ToOwned::to_owned);
        let rows = [
            (
                whose.exec_failed(&command, &exited(&command, 3, "no\n"), "so\nno\n"),
                "Exec lifecycle hook ([/bin/sh -c exit 3]) for Container \"main\" in Pod \
                 \"web_default(uid)\" failed - error: command '/bin/sh -c exit 3' exited with 3: no\n\
                 , message: \"so\\nno\\n\"",
            ),
            (
                whose.exec_failed(&command, &timed_out(&command), ""),
                "Exec lifecycle hook ([/bin/sh -c exit 3]) for Container \"main\" in Pod \
                 \"web_default(uid)\" failed - error: command timed out: \"/bin/sh -c exit 3\" \
                 timed out after 0s, message: \"\"",
            ),
            (
                whose.http_failed("/hook", "Get \"http://10.0.0.1:80/hook\": refused"),
                "HTTP lifecycle hook (/hook) for Container \"main\" in Pod \"web_default(uid)\" \
                 failed - error: Get \"http://10.0.0.1:80/hook\": refused",
            ),
        ];
        for (said, expected) in rows {
            assert_eq!(said, expected);
        }
    }
}
