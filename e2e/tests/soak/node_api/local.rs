//! Streams without an API server: `ferrolet exec` and `ferrolet port-forward`, through the agent's socket.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::node::{Node, PATIENCE, program};
use e2e::node_api::Running;
use e2e::terminal::Terminal;

const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: ferrolet.test/workload:1
    args: [serve, '8080']
";

fn words(node: &Node, args: &[&str]) -> Result<Vec<String>> {
    let (program, root) = (program("ferrolet")?, node.root_dir());
    let (command, rest) = args.split_first().context("a command")?;
    let fixed = [program.display().to_string(), (*command).to_owned()];
    let place = ["--root-dir".to_owned(), root.display().to_string()];
    let rest = rest.iter().map(|word| (*word).to_owned());
    Ok(fixed.into_iter().chain(place).chain(rest).collect())
}

fn spawn(node: &Node, args: &[&str]) -> Result<Running> {
    let words = words(node, args)?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(Running(command.spawn().context("start ferrolet")?))
}

/// What is written to the command comes back.
fn input_reaches_the_command(node: &Node) -> Result<()> {
    let mut exec = spawn(node, &["exec", "-i", "web", "--", "/workload", "copy"])?;
    let mut input = exec.0.stdin.take().context("its standard input")?;
    input.write_all(b"pulse\n")?;
    let mut printed = [0; 6];
    exec.0.stdout.take().context("its standard output")?.read_exact(&mut printed)?;
    ensure!(&printed == b"pulse\n", "{:?}", String::from_utf8_lossy(&printed));
    Ok(())
}

/// The command has a terminal of the size of the caller's, and its exit code is that of `ferrolet exec`.
fn terminal_is_passed_on(node: &Node) -> Result<()> {
    let words = words(node, &["exec", "-it", "web", "--", "/workload", "terminal"])?;
    let mut terminal = Terminal::start(&words, 30, 100)?;
    for (rows, columns) in [(30, 100), (41, 132)] {
        terminal.resize(rows, columns)?;
        terminal.wait_for(&format!("{rows} rows, {columns} columns"))?;
    }
    terminal.write("\u{4}")?;
    let status = terminal.wait_end()?;
    ensure!(status.success(), "{status}");
    let mut failing = spawn(node, &["exec", "web", "--", "/workload", "exit", "7"])?;
    let status = failing.0.wait()?;
    ensure!(status.code() == Some(7), "{status}");
    Ok(())
}

/// The pod responds to requests through a forwarded port, twice over the same forwarder.
fn forwarded_port_answers(node: &Node) -> Result<()> {
    let mut forward = spawn(node, &["port-forward", "web", ":8080"])?;
    let output = forward.0.stdout.take().context("its standard output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    let (_, port) = line.split_once("127.0.0.1:").with_context(|| line.clone())?;
    let digits: String = port.chars().take_while(char::is_ascii_digit).collect();
    let port: u16 = digits.parse().with_context(|| line.clone())?;
    for _ in 0..2 {
        let mut connection = TcpStream::connect(("127.0.0.1", port))?;
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        ensure!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    }
    Ok(())
}

/// A pod with `/var/log` as a volume could make such a link.
fn link_in_the_place_of_a_log_is_refused(node: &Node) -> Result<()> {
    let directory = "/var/log/pods";
    let pods = node.names_in(directory)?;
    let pod = pods.iter().find(|name| name.starts_with("shop_web")).context("logs of the pod")?;
    node.run("ln", &["-sf", "/etc/passwd", &format!("{directory}/{pod}/main/0.log")])?;
    let answer = node.ferrolet(&["logs", "web"]);
    let text = format!("{answer:?}");
    ensure!(answer.is_err() && !text.contains("root:"), "{text}");
    Ok(())
}

#[test]
fn ferrolet_exec_and_port_forward_work_on_a_node_without_a_cluster() -> Result<()> {
    let mut node = Node::start()?;
    node.write_manifest("web.yaml", POD)?;
    node.start_agent()?;
    node.explained(node.wait_running("web"))?;
    node.explained(input_reaches_the_command(&node))?;
    node.explained(terminal_is_passed_on(&node))?;
    node.explained(forwarded_port_answers(&node))?;
    let why = node.ferrolet(&["why", "shop/web"])?;
    for part in ["/workload copy", "port-forward", "8080"] {
        ensure!(why.contains(part), "{part} is not in:\n{why}");
    }
    node.explained(link_in_the_place_of_a_log_is_refused(&node))?;
    node.stop()
}
