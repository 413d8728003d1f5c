//! The scripts that query the node of `make run`.

use std::process::Command;

/// The output of a piece of shell in the directory of the sources. `$DIR` is an empty directory with a
/// program `ferrolet` that prints its arguments.
fn written(script: &str) -> String {
    let directory = tempfile::tempdir().expect("make a directory");
    let prepared = format!(
        "set -euo pipefail\nprintf '#!/bin/sh\\necho \"$@\"\\n' >$DIR/ferrolet\nchmod +x $DIR/ferrolet\n\
         . scripts/roots.sh\n{script}"
    );
    let output = Command::new("bash")
        .args(["-c", &prepared])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .env("DIR", directory.path())
        .env("FERROLET_PROGRAMS", directory.path())
        .env("FERROLET_NOTE", directory.path().join("note"))
        .output()
        .expect("run bash");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.replace(&directory.path().display().to_string(), "DIR")
}

#[test]
fn second_node_restores_the_first_as_current_when_it_ends() {
    let text = written(
        "for node in one two; do\n\
           mkdir -p $DIR/$node/kubelet/ferrolet; touch $DIR/$node/kubelet/ferrolet/agent.sock\n\
           with_note $FERROLET_NOTE add_root $DIR/$node/kubelet\n\
         done\n\
         scripts/ask.sh get pods 2>&1\n\
         FERROLET_ROOT=$DIR/one/kubelet scripts/ask.sh get pods\n\
         with_note $FERROLET_NOTE remove_root $DIR/two/kubelet\n\
         scripts/ask.sh gc plan\n\
         with_note $FERROLET_NOTE remove_root $DIR/one/kubelet\n\
         ! scripts/ask.sh get pods 2>&1; ls $DIR",
    );
    let expected = "Asking the newest of several agents, DIR/two/kubelet; FERROLET_ROOT chooses another: DIR/one/kubelet\n\
                    get pods --root-dir DIR/two/kubelet\n\
                    get pods --root-dir DIR/one/kubelet\n\
                    gc plan --root-dir DIR/one/kubelet\n\
                    neither make run nor make cluster is running\nferrolet\none\ntwo\n";
    assert_eq!(text, expected);
}

#[test]
fn killed_node_is_not_used() {
    let text = written(
        "mkdir -p $DIR/one/kubelet/ferrolet; touch $DIR/one/kubelet/ferrolet/agent.sock\n\
         printf '%s\\n' $DIR/one/kubelet $DIR/gone/kubelet >$FERROLET_NOTE\n\
         scripts/ask.sh get pods\n\
         with_note $FERROLET_NOTE add_root $DIR/ferrolet/x\n\
         with_note $FERROLET_NOTE add_root $DIR/one/kubelet; cat $FERROLET_NOTE",
    );
    assert_eq!(text, "get pods --root-dir DIR/one/kubelet\nDIR/one/kubelet\n");
}

#[test]
fn script_without_arguments_or_for_the_version_needs_no_node() {
    let text = written(
        "scripts/ask.sh; scripts/ask.sh help; scripts/ask.sh version; scripts/ask.sh get --help",
    );
    assert_eq!(text, "--help\n--help\nversion\nget --help\n");
}

#[test]
fn script_reports_missing_program_and_root_directory() {
    let text = written(
        "! FERROLET_ROOT=$DIR/no/kubelet scripts/ask.sh get pods 2>&1\n\
         rm $DIR/ferrolet; ! scripts/ask.sh version 2>&1",
    );
    let expected = "FERROLET_ROOT: no directory DIR/no/kubelet\n\
                    ferrolet is not built yet; make run builds it\n";
    assert_eq!(text, expected);
}

#[test]
fn log_of_the_agent_ends_unless_it_is_followed() {
    let text = written(
        "mkdir -p $DIR/one/kubelet/ferrolet; touch $DIR/one/kubelet/ferrolet/agent.sock\n\
         with_note $FERROLET_NOTE add_root $DIR/one/kubelet\n\
         seq 60 >$DIR/one/ferrolet.log\n\
         timeout 60 scripts/ask.sh log | head -1\n\
         (timeout 1 scripts/ask.sh log -f || true) | tail -1",
    );
    assert_eq!(text, "11\n60\n");
}
