//! All commands with all flags, for completion scripts and manual pages.
//!
//! `run`, `config check` and `pod-gc` parse the flags of upstream's programs themselves; here they are listed.

use clap::{Arg, ArgAction, Command, ValueHint};
use config::flags::{Flag, known};
use config::pod_gc::{flag_help, flags};

use crate::commands::{config_check, pod_gc};
use crate::run_help;

/// The program's command with all flags.
pub(crate) fn with_flags(program: Command) -> Command {
    program
        .mut_subcommand("run", |command| {
            known().iter().filter_map(agents_flag).fold(plain("run", &command), Command::arg)
        })
        .mut_subcommand("config", |config| {
            config.mut_subcommand("check", |command| {
                let check =
                    config_check::args().into_iter().fold(plain("check", &command), Command::arg);
                known().iter().filter_map(agents_flag).fold(check, Command::arg)
            })
        })
        .mut_subcommand("pod-gc", |command| {
            let flags = flags().iter().filter_map(pod_gc_flag);
            flags.fold(plain("pod-gc", &command), Command::arg).subcommand(pod_gc::why_command())
        })
}

/// The command without its arguments.
fn plain(name: &'static str, command: &Command) -> Command {
    let about = command.get_about().cloned().unwrap_or_default();
    Command::new(name).about(about)
}

fn agents_flag(flag: &'static Flag) -> Option<Arg> {
    let (value, meaning) = run_help::meaning(flag);
    let arg = argument(flag, if value.is_empty() { "VALUE" } else { value })?;
    Some(arg.help(meaning))
}

fn pod_gc_flag(flag: &'static Flag) -> Option<Arg> {
    let help = flag_help().iter().find(|help| help.name == flag.name)?;
    let meaning = if help.meaning.is_empty() { "accepted, has no effect" } else { help.meaning };
    Some(argument(flag, if help.value.is_empty() { "VALUE" } else { help.value })?.help(meaning))
}

/// A flag as clap has it; `--help` is there already.
fn argument(flag: &'static Flag, value: &'static str) -> Option<Arg> {
    let arg = match flag.name {
        "help" => return None,
        "v" => Arg::new("v").short('v').long("v"),
        name => Arg::new(name).long(name),
    };
    if flag.syntax.is_switch() {
        return Some(arg.action(ArgAction::SetTrue));
    }
    let hint = match value {
        "FILE" => ValueHint::FilePath,
        "DIR" => ValueHint::DirPath,
        _ => ValueHint::Unknown,
    };
    Some(arg.value_name(value).value_hint(hint))
}
