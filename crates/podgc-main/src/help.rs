//! The text of `ferrolet pod-gc --help`.

use std::fmt::Write as _;

use config::flags::{Flag, Target};
use config::pod_gc::{FlagHelp, flag_help, flags};

/// The flags: upstream's, our own, and those without an effect.
pub(crate) fn help() -> String {
    let mut text = String::from(
        "Run the Pod GC controller: delete pods that no other controller deletes: terminated pods\n\
         beyond a threshold, terminating pods of nodes out of service, pods of nodes that do not exist,\n\
         and terminating pods that never got a node.\n\n\
         Usage: ferrolet pod-gc [flags]\n\
         \x20      ferrolet pod-gc why NAMESPACE/NAME    print why a pod was deleted\n\n\
         Flags have the syntax of the controller manager: --flag=value or --flag value, but a\n\
         boolean flag only as --flag or --flag=false. The controller manager's own controller is better\n\
         switched off: --controllers=*,-pod-garbage-collector-controller\n\n\
         As in the controller manager:\n\n",
    );
    let with_effect = || flag_help().iter().filter(|help| !help.meaning.is_empty());
    for help in with_effect().filter(|help| help.is_upstreams) {
        line(&mut text, help);
    }
    text.push_str("\nOur own:\n\n");
    for help in with_effect().filter(|help| !help.is_upstreams) {
        line(&mut text, help);
    }
    text.push_str("\nThese are accepted, and have no effect:\n\n     ");
    for help in flag_help().iter().filter(|help| help.meaning.is_empty()) {
        write!(text, " --{}", help.name).expect("a string takes every text");
    }
    text.push('\n');
    text
}

fn line(text: &mut String, help: &FlagHelp) {
    let usage = format!("--{} {}", help.name, help.value);
    let default = flags().iter().find(|flag| flag.name == help.name).map(default_of);
    let default = default.filter(|default| !["", "false", "0", "0s"].contains(default));
    let default = default.map(|default| format!(" (default {default})")).unwrap_or_default();
    writeln!(text, "      {usage:<44} {}{default}", help.meaning)
        .expect("a string takes every text");
}

fn default_of(flag: &Flag) -> &'static str {
    match flag.target {
        Target::Own { default, .. } => default,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_is_listed_once() {
        let text = help();
        for help in flag_help() {
            let name = format!("--{} ", help.name);
            let lines = text.replace('\n', " \n");
            let usage = lines.split("As in the controller manager:").nth(1).unwrap();
            assert_eq!(usage.matches(&name).count(), 1, "{name}");
        }
        assert!(text.contains("(default 12500)"), "{text}");
    }
}
