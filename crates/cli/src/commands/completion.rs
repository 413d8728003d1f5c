//! `ferrolet completion` and `ferrolet man`.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;

/// The arguments of `completion`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: ShellName,
}

/// A shell with completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ShellName {
    /// source <(ferrolet completion bash)
    Bash,
    /// ferrolet completion zsh > "${fpath[1]}/_ferrolet"
    Zsh,
    /// ferrolet completion fish > ~/.config/fish/completions/ferrolet.fish
    Fish,
}

/// The arguments of `man`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ManArgs {
    /// An existing directory for the pages.
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// Prints the script of a shell.
pub(crate) fn run(args: &Args, program: Command) -> Result<()> {
    Ok(io::stdout().write_all(&script(args.shell, program))?)
}

/// The script of a shell.
fn script(shell: ShellName, mut program: Command) -> Vec<u8> {
    let shell = match shell {
        ShellName::Bash => Shell::Bash,
        ShellName::Zsh => Shell::Zsh,
        ShellName::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, "ferrolet", &mut script);
    script
}

/// Writes a manual page for each command.
pub(crate) fn write_man(args: &ManArgs, program: Command) -> Result<()> {
    let written = clap_mangen::generate_to(program, &args.dir);
    written.with_context(|| format!("write the manual pages to {}", args.dir.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::all_commands;

    /// The full names of all visible commands, such as `ferrolet gc plan`.
    fn names(command: &Command, before: &str) -> Vec<String> {
        let name = format!("{before}{}", command.get_name());
        let inner = command.get_subcommands().filter(|command| !command.is_hide_set());
        let inner = inner.flat_map(|command| names(command, &format!("{name} ")));
        std::iter::once(name.clone()).chain(inner).collect()
    }

    #[test]
    fn completion_knows_every_command_and_flag_in_every_shell() {
        let program = all_commands();
        for shell in [ShellName::Bash, ShellName::Zsh, ShellName::Fish] {
            let text = String::from_utf8(script(shell, program.clone())).unwrap();
            for name in names(&program, "") {
                let last = name.rsplit(' ').next().unwrap();
                assert!(text.contains(last), "{shell:?}: {name}");
            }
            for flag in ["max-pods", "quarantine-time", "any-machine", "container-runtime-endpoint"]
            {
                assert!(text.contains(flag), "{shell:?}: {flag}");
            }
        }
    }

    #[test]
    fn every_command_has_a_manual_page() {
        let dir = tempfile::tempdir().unwrap();
        write_man(&ManArgs { dir: dir.path().to_owned() }, all_commands()).unwrap();
        let program = all_commands();
        let all = names(&program, "");
        assert!(all.len() > 20, "{all:?}");
        for name in all {
            let page = dir.path().join(format!("{}.1", name.replace(' ', "-")));
            assert!(page.is_file(), "{}", page.display());
        }
        let missing = ManArgs { dir: dir.path().join("missing") };
        let error = write_man(&missing, all_commands()).unwrap_err().to_string();
        assert!(error.starts_with("write the manual pages to "), "{error}");
    }
}
