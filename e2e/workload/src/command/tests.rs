use super::*;
use crate::logs::{Pace, Settings, Stream};

fn parsed(line: &str) -> Result<Command, String> {
    parse(Parser::from_args(line.split_whitespace())).map_err(|error| error.to_string())
}

fn signals<const N: usize>(names: [&str; N]) -> BTreeSet<Signal> {
    names.into_iter().map(|name| Signal::named(name).unwrap()).collect()
}

#[test]
fn every_command_is_parsed() {
    let second = Duration::from_secs(1);
    let table = [
        ("pause", Command::Pause),
        ("sleep 1", Command::Sleep { time: Some(second) }),
        ("sleep forever", Command::Sleep { time: None }),
        ("exit 7", Command::Exit { code: 7 }),
        ("crash-after 1s", Command::CrashAfter { time: second, code: 1 }),
        ("crash-after 1s 3", Command::CrashAfter { time: second, code: 3 }),
        ("ignore TERM INT", Command::Ignore { signals: signals(["INT", "TERM"]) }),
        ("env", Command::Env),
        ("uid", Command::Uid),
        ("cat /a", Command::Cat { file: "/a".into() }),
        ("remove /a", Command::Remove { file: "/a".into() }),
        ("cp -f /a /b", Command::Cp { files: vec!["/a".into()], into: "/b".into() }),
        ("get web 80", Command::Get { host: "web".to_owned(), port: 80 }),
        ("args", Command::Args { arguments: vec![] }),
        ("write /a b", Command::Write { file: "/a".into(), text: "b".into(), code: 0 }),
        ("write /a b --exit 3", Command::Write { file: "/a".into(), text: "b".into(), code: 3 }),
        ("hold 64", Command::Hold { mebibytes: 64 }),
        ("fill /a 64", Command::Fill { file: "/a".into(), mebibytes: 64 }),
        ("serve 80", Command::Serve { port: 80 }),
        ("grpc 90", Command::Grpc { port: 90 }),
        ("terminal", Command::Terminal),
        ("copy", Command::Copy),
        ("tar cf - /a", Command::Tar(tar::Task::Write(vec!["/a".into()]))),
        ("tar -xmf - -C /b", Command::Tar(tar::Task::Unpack("/b".into()))),
        (
            "tar --no-same-permissions --no-same-owner -xmf -",
            Command::Tar(tar::Task::Unpack(".".into())),
        ),
    ];
    for (line, command) in table {
        assert_eq!(parsed(line), Ok(command), "{line}");
    }
}

#[test]
fn arguments_to_print_are_not_parsed() {
    let arguments = ["--help", "-x", "--", "sleep", "--a=b"].map(OsString::from).to_vec();
    assert_eq!(parsed("args --help -x -- sleep --a=b"), Ok(Command::Args { arguments }));
}

#[test]
fn duration_without_unit_is_in_seconds() {
    let table = [
        ("0", Duration::ZERO),
        ("2", Duration::from_secs(2)),
        ("0.25", Duration::from_millis(250)),
        ("40ms", Duration::from_millis(40)),
        ("3s", Duration::from_secs(3)),
        ("1.5m", Duration::from_secs(90)),
        ("2h", Duration::from_hours(2)),
    ];
    for (text, expected) in table {
        assert_eq!(duration(text), Ok(expected), "{text}");
    }
}

#[test]
fn logs_have_defaults_for_all_but_the_rate() {
    let expected =
        Settings { pace: Pace::PerSecond(0.5), count: None, stream: Stream::Stdout, size: 0 };
    assert_eq!(parsed("logs --rate 0.5"), Ok(Command::Logs(expected)));
}

#[test]
fn logs_take_every_option_in_any_order() {
    let expected =
        Settings { pace: Pace::Unlimited, count: Some(9), stream: Stream::Stderr, size: 100 };
    assert_eq!(
        parsed("logs --stderr --size 100 --count=9 --rate max"),
        Ok(Command::Logs(expected))
    );
}

#[test]
fn trap_accepts_options_among_the_signals() {
    let expected =
        Trap { signals: signals(["TERM", "USR1"]), code: 3, delay: Duration::from_millis(20) };
    assert_eq!(parsed("trap SIGTERM --exit 3 usr1 --delay 20ms"), Ok(Command::Trap(expected)));
}

#[test]
fn trap_exits_with_zero_immediately_by_default() {
    let expected = Trap { signals: signals(["HUP"]), code: 0, delay: Duration::ZERO };
    assert_eq!(parsed("trap HUP"), Ok(Command::Trap(expected)));
}

#[test]
fn invalid_command_lines_are_rejected() {
    let lines = [
        "",
        "--help",
        "run",
        "pause 1",
        "sleep",
        "sleep never",
        "sleep -1",
        "sleep 1d",
        "sleep nan",
        "sleep 1 2",
        "exit",
        "exit 256",
        "exit -1",
        "crash-after",
        "crash-after forever",
        "crash-after 1s 2 3",
        "logs",
        "logs --rate 0",
        "logs --rate inf",
        "logs --rate 1 extra",
        "logs --rate 1 --stderr=yes",
        "trap",
        "trap --exit 1",
        "trap KILL",
        "ignore",
        "ignore STOP",
        "ignore TERM --exit 1",
        "env extra",
    ];
    for line in lines {
        assert!(parsed(line).is_err(), "{line:?}");
    }
}
