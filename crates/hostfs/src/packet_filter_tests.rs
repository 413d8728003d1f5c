use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use testkit::contract::packet_filter::{FAMILIES, packet_filter_contract};

use super::*;

const CHAIN: FilterChain = FilterChain { table: Table::Mangle, name: "HINT" };

fn install(directory: &Path, program: &str, script: &str) {
    let text = directory.join("script");
    fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
    // With another process: a program cannot be executed while another test's child has it open for writing.
    let mut install = Command::new("install");
    install.args(["-m", "755"]).arg(text).arg(directory.join(program));
    assert!(install.status().unwrap().success());
}

fn with_programs(script: &str) -> (HostPacketFilter, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    for program in ["iptables", "ip6tables", "iptables-restore", "ip6tables-restore"] {
        install(directory.path(), program, script);
    }
    let place = Some(directory.path().to_owned());
    (HostPacketFilter { directory: place, ..HostPacketFilter::default() }, directory)
}

/// A network namespace, removed with this.
struct Network(Child);

impl Network {
    fn new() -> Self {
        let mut command = Command::new("unshare");
        command.args(["-n", "sh", "-c", "echo ready; exec sleep 600"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "a network namespace needs privileges");
        Self(child)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[tokio::test]
async fn packet_filter_passes_the_contract() {
    let network = Network::new();
    let enter =
        format!("exec nsenter --net=/proc/{}/ns/net \"$(basename \"$0\")\" \"$@\"", network.0.id());
    let (filter, _programs) = with_programs(&enter);
    for family in FAMILIES {
        packet_filter_contract(&filter, family).await.unwrap();
    }
}

#[tokio::test]
async fn iptables_calls_are_short_and_wait_for_the_lock() {
    let (filter, programs) = with_programs("echo \"$0 $*\" >> \"$0.asked\"; cat >> \"$0.asked\"");
    let jump = FilterRule { chain: CHAIN, place: Place::First, words: &["-j", "OTHER"] };
    let words = &["--comment", "two words", "-j", "DROP"];
    let last = FilterRule { chain: CHAIN, place: Place::Last, words };
    filter.has_chain(Family::V6, CHAIN).await.unwrap();
    filter.has_rule(Family::V6, &last).await.unwrap();
    let filtered = FilterChain { table: Table::Filter, name: "FIRE" };
    let additions = [
        Addition::Chain(CHAIN),
        Addition::Chain(filtered),
        Addition::Rule(jump),
        Addition::Rule(last),
    ];
    filter.add(Family::V4, &additions).await.unwrap();
    let requested = |program: &str| {
        let path = programs.path().join(program).display().to_string();
        fs::read_to_string(format!("{path}.asked")).unwrap().replace(&path, program)
    };
    let looks = "ip6tables -w 5 -S HINT -t mangle\n\
                 ip6tables -w 5 -C HINT -t mangle --comment two words -j DROP\n";
    assert_eq!(requested("ip6tables"), looks);
    let restored = "iptables-restore -w 5 --noflush\n\
                    *filter\n-N FIRE\nCOMMIT\n\
                    *mangle\n-N HINT\n-I HINT -j OTHER\n-A HINT --comment \"two words\" -j DROP\nCOMMIT\n";
    assert_eq!(requested("iptables-restore"), restored);
}

#[tokio::test]
async fn missing_chain_is_not_a_failure_and_failures_are_reported() {
    let look = async |script: &str| {
        let (filter, _programs) = with_programs(script);
        filter.has_chain(Family::V4, CHAIN).await.map_err(|error| error.to_string())
    };
    assert_eq!(look("exit 0").await, Ok(true));
    assert_eq!(look("echo 'No chain' >&2; exit 1").await, Ok(false));
    let refused = look("echo 'you must be\nroot' >&2; exit 4").await;
    assert_eq!(refused, Err("iptables: you must be; root (exit status: 4)".to_owned()));
    let (filter, programs) = with_programs("exit 0");
    fs::remove_file(programs.path().join("iptables")).unwrap();
    let error = filter.has_chain(Family::V4, CHAIN).await.unwrap_err();
    assert!(matches!(error, FilterError::NoProgram { program: "iptables" }), "{error}");
    assert!(filter.has_chain(Family::V6, CHAIN).await.unwrap());
}
