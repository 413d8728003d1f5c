//! The command line.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory as _, Parser, Subcommand};
use ferrolet::run_args::{self, Invocation};
use ferrolet::{machine, run};
use process::traces::Traces;
use process::{TraceSettings, klog, version};

use crate::commands::output::Output;
use crate::commands::{
    self, completion, config_check, describe, events, evict_plan, exec, gc, get_node, get_pods,
    image_why, logs, node_clean, pod_gc, port_forward, why,
};
use crate::{all_commands, exit_code, run_help};

/// Another name of the program, under which its arguments are the kubelet's flags.
const KUBELET: &str = "kubelet";

/// A Kubernetes node agent.
#[derive(Debug, Parser)]
#[command(name = "ferrolet", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the node agent; takes the flags of the kubelet.
    #[command(disable_help_flag = true)]
    Run {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        flags: Vec<OsString>,
    },
    /// Check the configuration.
    #[command(disable_help_subcommand = true)]
    Config {
        #[command(subcommand)]
        what: Config,
    },
    /// List objects of the agent.
    Get {
        #[command(subcommand)]
        what: Get,
    },
    /// Describe a pod, or a manifest that was refused.
    Describe(describe::Args),
    /// List events of pods and of the node.
    #[command(visible_alias = "event")]
    Events(events::Args),
    /// Show the log of a container.
    Logs(logs::Args),
    /// Run a command in a container.
    Exec(exec::Args),
    /// Forward local ports to a pod.
    PortForward(port_forward::Args),
    /// Garbage collection: what is removed next, what was removed, and why.
    Gc {
        #[command(subcommand)]
        what: Gc,
    },
    /// Images of this node.
    Image {
        #[command(subcommand)]
        what: Image,
    },
    /// Show why a pod or its containers were killed, restarted, rejected or removed, and who had sessions in them.
    Why(why::Args),
    /// Run the Pod GC controller for a cluster; takes the controller manager's flags.
    #[command(name = "pod-gc", disable_help_flag = true)]
    PodGc {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        args: Vec<OsString>,
    },
    /// See which pods the node would evict.
    Evict {
        #[command(subcommand)]
        what: Evict,
    },
    /// Maintain the node.
    Node {
        #[command(subcommand)]
        what: Node,
    },
    /// Print a script that completes commands and flags in a shell.
    Completion(completion::Args),
    /// Write a manual page for each command.
    #[command(hide = true)]
    Man(completion::ManArgs),
    /// Print the version.
    Version(VersionArgs),
}

#[derive(Debug, Subcommand)]
enum Config {
    /// Print the configuration in effect, or every error in it.
    #[command(disable_help_flag = true)]
    Check {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        args: Vec<OsString>,
    },
}

#[derive(Debug, Subcommand)]
enum Get {
    /// The pods of this node.
    #[command(visible_aliases = ["pod", "po"])]
    Pods(get_pods::Args),
    /// The node: the health of its agent, its pods and versions.
    #[command(visible_aliases = ["nodes", "no"])]
    Node(get_node::Args),
}

#[derive(Debug, Subcommand)]
enum Gc {
    /// Print what the next pass would remove and keep, and why; removes nothing.
    Plan(gc::plan::Args),
    /// Run a pass now.
    Run(gc::run::Args),
    /// Print why something was removed from this node: rule, time and numbers.
    Why(gc::why::Args),
}

#[derive(Debug, Subcommand)]
enum Evict {
    /// Print the eviction signals with their thresholds, and the order in which pods would be evicted; evicts nothing.
    Plan(evict_plan::Args),
}

#[derive(Debug, Subcommand)]
enum Image {
    /// Show for which pod an image was pulled, and which rule keeps, removes or removed it.
    Why(image_why::Args),
}

#[derive(Debug, Subcommand)]
enum Node {
    /// Stop and remove all pods of this node. Refused while an agent runs.
    Clean(node_clean::Args),
}

#[derive(Debug, clap::Args)]
struct VersionArgs {
    /// The format of the output.
    #[arg(short, long, value_enum)]
    output: Option<Output>,
}

/// Runs the command of the command line.
pub fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    match dispatch(&args) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has closed it.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ferrolet: {error:#}");
            ExitCode::from(exit_code::of(&error))
        }
    }
}

fn dispatch(args: &[OsString]) -> Result<()> {
    let args = &*help_as_flag(args);
    // The kubelet's flags have their own syntax.
    if let Some(flags) = kubelet_flags(args) {
        return run_agent(flags);
    }
    // The same holds for the controller manager's.
    if let [_, command, rest @ ..] = args
        && command == "pod-gc"
    {
        return pod_gc::run(rest);
    }
    match Cli::parse_from(args).command {
        Command::Run { flags } => run_agent(&flags),
        Command::Config { what: Config::Check { args } } => config_check::run(&args),
        Command::Get { what: Get::Pods(args) } => commands::block_on(get_pods::run(&args)),
        Command::Get { what: Get::Node(args) } => commands::block_on(get_node::run(&args)),
        Command::Events(args) => commands::block_on(events::run(&args)),
        Command::Describe(args) => commands::block_on(describe::run(&args)),
        Command::Logs(args) => commands::block_on(logs::run(&args)),
        Command::Exec(args) => commands::block_on(exec::run(&args)),
        Command::PortForward(args) => commands::block_on(port_forward::run(&args)),
        Command::Gc { what: Gc::Plan(args) } => commands::block_on(gc::plan::run(&args)),
        Command::Gc { what: Gc::Run(args) } => commands::block_on(gc::run::run(&args)),
        Command::Gc { what: Gc::Why(args) } => commands::block_on(gc::why::run(&args)),
        Command::Evict { what: Evict::Plan(args) } => commands::block_on(evict_plan::run(&args)),
        Command::Image { what: Image::Why(args) } => commands::block_on(image_why::run(&args)),
        Command::Why(args) => commands::block_on(why::run(&args)),
        Command::PodGc { args } => pod_gc::run(&args),
        Command::Node { what: Node::Clean(args) } => commands::block_on(node_clean::run(&args)),
        Command::Completion(args) => completion::run(&args, all_commands()),
        Command::Man(args) => completion::write_man(&args, all_commands()),
        Command::Version(args) => print_version(&args),
    }
}

/// The program's command with all flags of all commands.
pub(crate) fn all_commands() -> clap::Command {
    all_commands::with_flags(Cli::command())
}

/// Converts `help COMMAND` to `COMMAND --help` for commands that parse their flags themselves.
fn help_as_flag(args: &[OsString]) -> Cow<'_, [OsString]> {
    const OWN_HELP: [&[&str]; 4] =
        [&["run"], &["config", "check"], &["pod-gc"], &["pod-gc", "why"]];
    match args {
        [program, help, command @ ..] if help == "help" && OWN_HELP.contains(&&*texts(command)) => {
            let flag = OsString::from("--help");
            [program].into_iter().chain(command).chain([&flag]).cloned().collect()
        }
        _ => Cow::Borrowed(args),
    }
}

fn texts(args: &[OsString]) -> Vec<&str> {
    args.iter().map(|arg| arg.to_str().unwrap_or_default()).collect()
}

/// The arguments that are kubelet flags, if any are.
fn kubelet_flags(args: &[OsString]) -> Option<&[OsString]> {
    let (program, rest) = args.split_first()?;
    if Path::new(program).file_name() == Some(OsStr::new(KUBELET)) {
        return Some(rest);
    }
    let (command, flags) = rest.split_first()?;
    (command == "run").then_some(flags)
}

fn run_agent(flags: &[OsString]) -> Result<()> {
    let text = match run_args::parse(flags.iter().cloned(), machine::cgroup_version())? {
        Invocation::Run(args) => {
            let logging = &args.config.logging;
            let format = match logging.format.as_str() {
                "json" => klog::Format::Json,
                _ => klog::Format::Text,
            };
            let verbosity = u8::try_from(logging.verbosity).unwrap_or(u8::MAX);
            let node_name = run::node_name(args.hostname_override.as_deref())?;
            let traces = args.config.tracing.as_ref().map(|tracing| TraceSettings {
                endpoint: tracing.endpoint.clone(),
                sampling_rate_per_million: tracing.sampling_rate_per_million,
            });
            let traces = Traces::new(traces, &node_name);
            let verbosity = klog::init(format, verbosity, traces.as_ref());
            return run::run(*args, verbosity, traces);
        }
        Invocation::Help => run_help::help(),
        Invocation::Version => version::text(),
    };
    Ok(io::stdout().write_all(text.as_bytes())?)
}

fn print_version(args: &VersionArgs) -> Result<()> {
    let text = match args.output {
        None => version::text(),
        Some(output) => output.text(&ferrolet::version())?,
    };
    Ok(io::stdout().write_all(text.as_bytes())?)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<io::Error>();
    cause.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn command_line_passes_the_assertions_of_clap() {
        Cli::command().debug_assert();
        all_commands().debug_assert();
    }

    #[test]
    fn kubelet_flags_are_parsed_after_run_and_after_the_program_name() {
        let rows = [
            ("ferrolet run --a -h", Some("--a -h")),
            ("/usr/bin/kubelet --a run", Some("--a run")),
            ("kubelet get", Some("get")),
            ("ferrolet get run", None),
            ("ferrolet", None),
        ];
        for (line, expected) in rows {
            let args = words(line);
            assert_eq!(kubelet_flags(&args), expected.map(words).as_deref(), "{line}");
        }
    }

    #[test]
    fn every_command_is_parsed() {
        for line in [
            "get pods",
            "get po -A -o wide --watch",
            "get pods -n kube-system -o json --root-dir /r",
            "get pods -w -o yaml",
            "get pods web db",
            "config check",
            "config check /etc/kubelet.yaml --max-pods=3 -o json -v 4",
            "describe default/web",
            "describe pod web -n default",
            "logs web -n default",
            "logs web -c main -f --previous --tail 5 --since 10m --timestamps",
            "logs web --tail=-1",
            "exec web -- ls -l",
            "exec default/web -n default -c main -i -t -- sh",
            "port-forward web 8080:80 :443",
            "gc plan",
            "gc plan -o json --root-dir /r",
            "gc plan --container-runtime-endpoint /run/c.sock --maximum-dead-containers -1",
            "gc plan --runtime-endpoint /run/c.sock --minimum-container-ttl-duration -1s",
            "gc run -o json",
            "evict plan",
            "evict plan -o json --root-dir /r",
            "image why registry.example/web:1 --limit 3 -o json",
            "why default/web -o json",
            "why web/main -o yaml --limit 5",
            "gc why default/web -o json --limit 3 --root-dir /r",
            "node clean --force --runtime-endpoint unix:///a --config /b",
            "node clean --container-runtime-endpoint unix:///a",
            "get node -o yaml",
            "events",
            "events default/web -o json --warnings",
            "describe web -o yaml",
            "gc plan --remove-only -o yaml",
            "gc run -o yaml",
            "gc why web -o yaml",
            "image why web -o yaml",
            "completion bash",
            "man /tmp",
            "version -o yaml",
            "version -o json",
        ] {
            let parsed = Cli::try_parse_from(words(&format!("ferrolet {line}")));
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }

    #[test]
    fn help_is_printed_for_every_command_with_its_full_path() {
        for command in ["", "get", "get pods", "gc plan", "node clean", "completion", "version"] {
            let line = format!("ferrolet help {command}");
            let error = Cli::try_parse_from(words(line.trim_end())).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DisplayHelp, "{line}");
            let usage = format!("Usage: ferrolet {command}");
            assert!(error.to_string().contains(usage.trim_end()), "{error}");
        }
        for command in ["run", "config check", "pod-gc", "pod-gc why"] {
            let (line, flag) =
                (format!("ferrolet help {command}"), format!("ferrolet {command} --help"));
            assert_eq!(*help_as_flag(&words(&line)), *words(&flag), "{command}");
        }
        let other = words("ferrolet help gc plan");
        assert_eq!(*help_as_flag(&other), *other);
        let mut why = pod_gc::why_command();
        assert!(why.render_help().to_string().contains("Usage: ferrolet pod-gc why "), "{why:?}");
    }

    #[test]
    fn usage_error_has_its_exit_code() {
        for line in [
            "",
            "get",
            "get pods -A -n x",
            "logs",
            "logs a --tail x",
            "exec web",
            "exec web ls",
            "port-forward web",
            "gc why ",
            "frobnicate",
        ] {
            let error = Cli::try_parse_from(words(&format!("ferrolet {line}"))).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
        }
        let help = Cli::try_parse_from(words("ferrolet --help")).unwrap_err();
        assert_eq!((help.kind(), help.exit_code()), (ErrorKind::DisplayHelp, 0));
    }
}
