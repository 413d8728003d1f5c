//! Rules that lower levels test too: `make soak PART=end-to-end` runs these.
#![allow(clippy::wildcard_imports, reason = "tests of the module above, run elsewhere")]

use super::*;

#[test]
fn pod_restart_reruns_init_containers_in_its_sandbox_and_keeps_logs() -> Result<()> {
    let mut node = Node::start()?;
    let spec = "
  initContainers:
  - {name: prepare, image: IMAGE, args: [args, prepared]}
  containers:
  - name: asks
    image: IMAGE
    args: [trap, USR1, --exit, '42']
    restartPolicy: Never
    restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]
  - {name: other, image: IMAGE, args: [trap, TERM]}
";
    node.write_manifest("over.yaml", &manifest("over", spec))?;
    node.start_agent()?;
    let said = [("prepare", "prepared"), ("asks", "trapping"), ("other", "trapping")];
    let times = |number| -> Result<Vec<String>> {
        let times =
            said.iter().map(|(name, text)| written(&node, &log("over", name, number), text));
        node.explained(times.collect())
    };
    let first = times(0)?;
    let before = sandboxes(&node)?;
    ensure!(before.len() == 1, "{before:?}");
    let asks = node.wait_for_containers("over", "it runs", |containers| {
        containers.iter().find(|one| one.name == "asks" && one.state == "RUNNING").cloned()
    })?;
    node.run("kill", &["-USR1", &asks.pid.to_string()])?;
    let second = times(1)?;
    ensure!(second[0] < second[1] && second[0] < second[2], "not in order: {second:?}");
    ensure!(first.iter().max() < second.iter().min(), "{first:?} {second:?}");
    ensure!(sandboxes(&node)? == before, "it has another sandbox");
    ensure!(times(0)? == first, "a log was rewritten");
    let log_text = node.read(&log("over", "other", 0))?;
    ensure!(log_text.contains("received"), "it was not asked to end: {log_text}");
    node.wait_for_containers("over", "of each there is one", |containers| {
        let mut names: Vec<&str> = containers.iter().map(|one| one.name.as_str()).collect();
        names.sort_unstable();
        (names == ["asks", "other", "prepare"]).then_some(())
    })?;
    wait_for_status(&node, "over", "all were restarted once", |status| {
        let all = ["initContainerStatuses", "containerStatuses"].map(|kind| &status[kind]);
        let mut all = all.into_iter().filter_map(Value::as_array).flatten();
        all.all(|one| one["restartCount"] == 1) && status["phase"] == "Running"
    })?;
    node.stop()
}
