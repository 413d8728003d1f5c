//! `ferrolet config check`: prints the configuration in effect, or all errors in it.

use std::ffi::OsString;
use std::io::{self, Write};

use anyhow::{Context, Result, bail};
use clap::builder::PossibleValue;
use clap::{Arg, ArgAction, ValueHint};
use config::flags::{FlagError, FlagSet, find};
use config::{CgroupVersion, ConfigError, FieldError, Warning};
use ferrolet::run_args::{RunArgs, load};
use ferrolet::{machine, supported_settings};
use model::chain::Chain;
use serde_json::{Value, json};

use super::output::Output;
use super::{UsageError, marked_yaml};

/// The text of `--help`.
const HELP: &str = "\
Print the configuration in effect, or every error in it.

Usage: ferrolet config check [FILE] [flags of `ferrolet run`] [-o json|yaml] [--any-machine]

FILE is a KubeletConfiguration, as given by --config. Files are read, and nothing is changed.
Standard output has the configuration: all sources together, with every default, as the kubelet
shows it at /configz. Warnings and errors go to standard error; the exit code is 1 if there are
errors, and 2 if the command line is wrong. With -o, errors are on standard output too, as
{\"errors\": [{source, field, problem}]}.

Values that have no effect yet are marked by a comment; with -o json they are listed on standard error.
With --any-machine the configuration is not checked against this machine (its cgroup version).
";

/// The arguments other than the kubelet's flags, for completion and manual pages.
pub(crate) fn args() -> [Arg; 3] {
    let formats = [PossibleValue::new("json"), PossibleValue::new("yaml")];
    [
        Arg::new("file").value_name("FILE").value_hint(ValueHint::FilePath),
        Arg::new("output").short('o').long("output").value_parser(formats).help("the format"),
        Arg::new("any-machine")
            .long("any-machine")
            .action(ArgAction::SetTrue)
            .help("do not check the configuration against this machine"),
    ]
}

/// The options of `config check`.
#[derive(Debug, Default, PartialEq, Eq)]
struct CheckOptions {
    output: Option<Output>,
    help: bool,
    /// Whether facts of this machine are ignored.
    any_machine: bool,
    flags: FlagSet,
}

/// Checks a configuration for this machine.
pub(crate) fn run(args: &[OsString]) -> Result<()> {
    let texts = args.iter().map(|arg| {
        arg.to_str()
            .map(str::to_owned)
            .ok_or_else(|| UsageError(format!("argument {} is not UTF-8", arg.display())))
    });
    let options = parse(texts.collect::<Result<_, UsageError>>()?)?;
    let (stdout, stderr) = (io::stdout(), io::stderr());
    check(&options, machine::cgroup_version(), &mut stdout.lock(), &mut stderr.lock())
}

/// Splits off the command's own options; the rest are kubelet flags.
fn parse(args: Vec<String>) -> Result<CheckOptions> {
    let mut options = CheckOptions::default();
    let mut flags = Vec::new();
    let mut file = None;
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let (name, value) = arg.split_once('=').unwrap_or((&arg, ""));
        match name {
            "-o" | "--output" => {
                let format = if arg.contains('=') { Some(value.to_owned()) } else { args.next() };
                options.output = match format.as_deref() {
                    Some("json") => Some(Output::Json),
                    Some("yaml") => Some(Output::Yaml),
                    _ => return Err(UsageError(format!("{name} takes json or yaml")).into()),
                };
            }
            "-ojson" => options.output = Some(Output::Json),
            "-oyaml" => options.output = Some(Output::Yaml),
            "-h" | "--help" => options.help = true,
            "--any-machine" => options.any_machine = true,
            _ if !arg.starts_with('-') && file.is_none() => file = Some(arg),
            _ => {
                let takes_next = takes_next(&arg);
                flags.push(arg);
                if takes_next {
                    flags.extend(args.next());
                }
            }
        }
    }
    if let Some(file) = file {
        flags.push(format!("--config={file}"));
    }
    options.flags = FlagSet::parse(flags).map_err(|error| match error {
        FlagError::Positional { argument } => {
            anyhow::Error::from(UsageError(format!("unexpected argument {argument:?}")))
        }
        other => other.into(),
    })?;
    Ok(options)
}

/// Whether the argument is a flag with its value in the next one.
fn takes_next(arg: &str) -> bool {
    let flag = match arg.strip_prefix("--") {
        Some(name) if !name.contains('=') => find(&name.replace('_', "-")),
        None if arg == "-v" => find("v"),
        _ => None,
    };
    flag.is_some_and(|flag| !flag.syntax.is_switch())
}

fn check(
    options: &CheckOptions,
    machine: CgroupVersion,
    out: &mut impl Write,
    notes: &mut impl Write,
) -> Result<()> {
    if options.help {
        return Ok(out.write_all(HELP.as_bytes())?);
    }
    // Of the two versions, the one for which no configuration is refused.
    let machine = if options.any_machine { CgroupVersion::V2 } else { machine };
    match load(&options.flags, machine) {
        Ok(args) => {
            write_warnings(&args.warnings, notes)?;
            for file in &args.skipped {
                writeln!(
                    notes,
                    "warning: {}: skipped: the name of a drop-in must end in .conf",
                    file.display()
                )?;
            }
            if !args.without_effect.is_empty() {
                writeln!(notes, "warning: no effect yet: {}", args.without_effect.join(", "))?;
            }
            if options.output == Some(Output::Json) {
                let paths =
                    marked_yaml::remarked(&args.config.to_document(), supported_settings::remark);
                writeln!(notes, "without effect: {}", paths.join(", "))?;
            }
            write_configuration(&args, options, out)
        }
        Err(refused) => {
            let errors: Vec<FieldError> = refused.0.iter().flat_map(errors).collect();
            for error in &refused.0 {
                if let ConfigError::Invalid { warnings, .. } = error {
                    write_warnings(warnings, notes)?;
                }
            }
            for error in &errors {
                writeln!(notes, "error: {error}")?;
            }
            if let Some(output) = options.output {
                out.write_all(output.text(&error_object(&errors))?.as_bytes())?;
            }
            bail!("the configuration has {} error{}", errors.len(), plural(errors.len()))
        }
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn write_warnings(warnings: &[Warning], notes: &mut impl Write) -> Result<()> {
    for warning in warnings {
        writeln!(notes, "warning: {warning}")?;
    }
    Ok(())
}

/// The invalid fields; a file that cannot be read is one error.
fn errors(error: &ConfigError) -> Vec<FieldError> {
    match error {
        ConfigError::Invalid { source, .. } => source.0.clone(),
        other => vec![FieldError {
            field: String::new(),
            problem: Chain(other).to_string(),
            source: None,
        }],
    }
}

fn error_object(errors: &[FieldError]) -> Value {
    let errors: Vec<Value> = errors
        .iter()
        .map(|FieldError { field, problem, source }| {
            json!({ "source": source, "field": field, "problem": problem })
        })
        .collect();
    json!({ "errors": errors })
}

/// The kubelet's document, followed by the agent's own, if there is one.
fn write_configuration(args: &RunArgs, options: &CheckOptions, out: &mut impl Write) -> Result<()> {
    let given = options.flags.is_given("ferrolet-config");
    let own = given.then(|| args.own.to_document());
    let document = args.config.to_document();
    if options.output == Some(Output::Json) {
        writeln!(out, "{document:#}")?;
        return own.map_or(Ok(()), |own| Ok(writeln!(out, "{own:#}")?));
    }
    let text = marked_yaml::text(&document, supported_settings::remark)
        .context("write the configuration")?;
    writeln!(out, "{}", text.trim_end())?;
    if let Some(own) = own {
        let text = serde_saphyr::to_string(&own).context("write the configuration")?;
        writeln!(out, "---\n{}", text.trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "config_check_tests.rs"]
mod tests;
