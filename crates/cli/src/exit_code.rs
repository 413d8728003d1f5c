//! Exit codes: 0 for success, 1 for a failure, 2 for wrong usage. `exec` returns the code of its command.

use config::flags::FlagError;
use config::pod_gc::ArgumentsError;
use ferrolet::run_args::ArgsError;

use crate::commands::UsageError;
use crate::commands::exec::CommandExited;
use crate::commands::select::SelectError;

const FAILURE: u8 = 1;
const USAGE: u8 = 2;

/// The exit code of a command that failed.
pub(crate) fn of(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<CommandExited>() {
        Some(exited) => exited.0,
        None if is_wrong_usage(error) => USAGE,
        None => FAILURE,
    }
}

/// Whether the arguments are wrong, on any machine. An invalid configuration is a failure.
fn is_wrong_usage(error: &anyhow::Error) -> bool {
    let is_agents = |error: &ArgsError| !matches!(error, ArgsError::Config(_));
    let is_pods = |error: &SelectError| matches!(error, SelectError::Elsewhere { .. });
    error.is::<UsageError>()
        || error.is::<FlagError>()
        || error.is::<ArgumentsError>()
        || error.downcast_ref::<ArgsError>().is_some_and(is_agents)
        || error.downcast_ref::<SelectError>().is_some_and(is_pods)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use config::CgroupVersion;

    use super::*;

    #[test]
    fn exit_code_is_2_for_wrong_usage_and_1_for_failures() {
        let run = |args: &[&str]| {
            let args = args.iter().map(OsString::from);
            of(&ferrolet::run_args::parse(args, CgroupVersion::V2).unwrap_err().into())
        };
        let pod_gc = |arg: &str| of(&config::pod_gc::parse([arg]).unwrap_err().into());
        let elsewhere =
            SelectError::Elsewhere { requested: "a/b".to_owned(), namespace: "c".to_owned() };
        let rows = [
            ("run with an unknown flag", run(&["--nonsense"]), 2),
            ("run with an argument", run(&["pods"]), 2),
            ("run with an invalid configuration", run(&["--max-pods=-5"]), 1),
            ("pod-gc with an unknown flag", pod_gc("--nonsense"), 2),
            ("pod-gc with an invalid value", pod_gc("--gc-check-period=-1s"), 2),
            ("two namespaces", of(&elsewhere.into()), 2),
            ("no such pod", of(&SelectError::NotFound("a".to_owned()).into()), 1),
            ("usage", of(&UsageError("x".to_owned()).into()), 2),
            ("failure", of(&anyhow::anyhow!("x")), 1),
            ("exec", of(&CommandExited(7).into()), 7),
        ];
        for (name, code, expected) in rows {
            assert_eq!(code, expected, "{name}");
        }
    }
}
