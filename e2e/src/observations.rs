//! The observations of a run: its pods' objects, all events, and the node's files, without values that differ each
//! time.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use testbed::wait;

use crate::cluster_node::{ClusterNode, log_directory};
use crate::node::{NODE_NAME, PATIENCE};
use crate::normalize::Normalizer;

/// The observations.
#[derive(Debug)]
pub struct Observations {
    /// The scenarios of the run.
    pub scenarios: Vec<&'static str>,
    /// By scenarios, then by objects.
    pub play: BTreeMap<String, BTreeMap<String, Value>>,
    /// The object of the node.
    pub node: Value,
}

/// Files by their description; their presence is compared.
type Files = BTreeMap<String, &'static str>;

/// The name of the scenario for objects without a pod.
pub(crate) const NODE: &str = "the node";

/// After this time without a new event, all events count as written: longer than an agent delays
/// events.
const QUIET: Duration = Duration::from_secs(3);

/// How long files of removed pods may stay: upstream removes them once a minute.
const CLEANED: Duration = Duration::from_secs(100);

/// The log directories of pods, and the links to them.
const LOGS: [(&str, &str); 2] = [("logs", "/var/log/pods"), ("links", "/var/log/containers")];

/// The observed objects of pods so far.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// The scenarios so far; the last one is the current one.
    scenarios: Vec<&'static str>,
    /// By the pods' names.
    pods: BTreeMap<String, PodObservation>,
}

/// The observed state of a pod.
#[derive(Debug)]
struct PodObservation {
    scenario: &'static str,
    /// The name in the record: the pod's name, unless that is generated.
    called: String,
    object: Value,
    /// Null if the files were not recorded.
    files: Value,
}

impl Record {
    /// Begins another scenario.
    pub(crate) fn begin(&mut self, scenario: &'static str) {
        self.scenarios.push(scenario);
    }

    fn scenario(&self) -> &'static str {
        self.scenarios.last().copied().unwrap_or_default()
    }

    /// Whether a pod was recorded.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.pods.contains_key(name)
    }
}

fn name(pod: &Value) -> &str {
    pod["metadata"]["name"].as_str().unwrap_or_default()
}

impl ClusterNode {
    /// Records a pod's object as given, and the pod's current files.
    pub(crate) fn look_at(&self, pod: &Value) -> Result<()> {
        self.look_at_as(pod, name(pod))
    }

    /// Like `look_at`, for a pod with a generated name.
    pub(crate) fn look_at_as(&self, pod: &Value, called: &str) -> Result<()> {
        let files = self.files_of(pod)?;
        self.note(pod, called, files);
        Ok(())
    }

    /// Records a pod's object as given, without files, which may be removed soon.
    pub(crate) fn look_at_object(&self, pod: &Value) {
        self.note(pod, name(pod), Value::Null);
    }

    fn note(&self, pod: &Value, called: &str, files: Value) {
        let mut object = self.plain().object(pod);
        // The writers of the object and the parts that they wrote.
        let writers = pod["metadata"]["managedFields"].as_array();
        let writers = writers.into_iter().flatten().map(|one| {
            let text = |key: &str| one[key].as_str().unwrap_or("-").to_owned();
            (["manager", "operation", "subresource"].map(text).join(" "), Value::from("wrote"))
        });
        object["metadata"]["managedFields"] = Value::Object(writers.collect());
        let mut record = self.record().borrow_mut();
        let called = called.to_owned();
        let sight = PodObservation { scenario: record.scenario(), called, object, files };
        record.pods.insert(name(pod).to_owned(), sight);
    }

    fn plain(&self) -> Normalizer {
        Normalizer { node_ip: self.node().instance().node_ip() }
    }

    /// All that was seen: waits until no new event comes and no more files are removed.
    pub fn seen(&self) -> Result<Observations> {
        let (events, files) = (self.events()?, self.left_files()?);
        let record = self.record().borrow();
        let mut play: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
        let mut add = |scenario: &str, object: String, part: &str, value: Value| {
            let object = play.entry(scenario.to_owned()).or_default().entry(object);
            object.or_insert_with(|| json!({}))[part] = value;
        };
        // Messages have generated names, too.
        let renamed = |value: &Value, from: &str, to: &str| -> Result<Value> {
            Ok(serde_json::from_str(&value.to_string().replace(from, to))?)
        };
        for (name, sight) in &record.pods {
            let called = format!("pod {}", sight.called);
            let renamed = |value: &Value| renamed(value, name, &sight.called);
            add(sight.scenario, called.clone(), "object", renamed(&sight.object)?);
            if !sight.files.is_null() {
                add(sight.scenario, called, "files", renamed(&sight.files)?);
            }
        }
        for ((kind, name), lines) in events {
            match record.pods.get(&name) {
                Some(sight) if kind == "Pod" => {
                    let called = format!("pod {}", sight.called);
                    let lines = renamed(&lines, &name, &sight.called)?;
                    add(sight.scenario, called, "events", lines);
                }
                // Many similar pods are not recorded one by one.
                None if kind == "Pod" => {}
                _ => add(NODE, format!("{} {name}", kind.to_lowercase()), "events", lines),
            }
        }
        add(NODE, "directories".to_owned(), "files", files);
        add(NODE, "packet filter".to_owned(), "rules", json!(self.chains()?));
        Ok(Observations { scenarios: record.scenarios.clone(), play, node: self.node_object()? })
    }

    /// The object of the node. Its address differs each time.
    fn node_object(&self) -> Result<Value> {
        let node = self.api().get(&format!("/api/v1/nodes/{NODE_NAME}"))?;
        let node = node.context("there is a node")?.to_string();
        let address = format!("\"{}\"", self.node().instance().node_ip());
        Ok(serde_json::from_str(&node.replace(&address, "\"NODE-IP\""))?)
    }

    /// The agent's events of each object, once no new event comes.
    fn events(&self) -> Result<BTreeMap<(String, String), Value>> {
        let mut before = 0;
        let what = "no new event comes";
        let all = wait::every(QUIET, what, PATIENCE, || {
            let mut all = self.api().list("/api/v1/events")?;
            all.retain(|event| event["source"]["component"] == "kubelet");
            let times = all.iter().map(|event| event["count"].as_u64().unwrap_or(1)).sum();
            let is_quiet = times == before;
            before = times;
            Ok(if is_quiet { Ok(all) } else { Err(format!("{before} so far")) })
        })?;
        let mut by_object: BTreeMap<_, BTreeMap<String, (String, Times)>> = BTreeMap::new();
        for event in &all {
            let text = |key: &str| event["involvedObject"][key].as_str().unwrap_or_default();
            let object = (text("kind").to_owned(), text("name").to_owned());
            let (line, by) = line(event);
            let of_object = by_object.entry(object).or_default();
            // Another pod of the same name may have the same event.
            let (_, times) = of_object
                .entry(self.plain().text(&line))
                .or_insert_with(|| (self.plain().text(&by), Times::default()));
            times.add(event);
        }
        let error_text = by_object.into_iter().map(|(object, lines)| {
            let error_text =
                lines.into_iter().map(|(line, (by, times))| (line, format!("{by}, {times}")));
            (object, json!(error_text.collect::<BTreeMap<String, String>>()))
        });
        Ok(error_text.collect())
    }

    /// The files of a pod: its directory, its logs, and links to them.
    fn files_of(&self, pod: &Value) -> Result<Value> {
        let uid = |pod: &Value| {
            // The directory of a static pod has the static pod's UID.
            let own = &pod["metadata"]["annotations"]["kubernetes.io/config.hash"];
            own.as_str().or(pod["metadata"]["uid"].as_str()).unwrap_or_default().to_owned()
        };
        let root = self.node().root_dir().join("pods").join(uid(pod)).display().to_string();
        let mut own = pod.clone();
        own["metadata"]["uid"] = uid(pod).into();
        let mut all = self.find("root", &root, "")?;
        all.extend(self.find("logs", &log_directory(&own), "")?);
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        let links = format!("{}_{namespace}_", name(pod));
        all.extend(self.find("links", LOGS[1].1, &links)?);
        Ok(json!(all))
    }

    /// The node's files, once those of pods are removed, or are left after the timeout.
    fn left_files(&self) -> Result<Value> {
        let root = self.node().root_dir().display().to_string();
        let of_pods = || -> Result<Files> {
            let mut all = self.find("pods", &format!("{root}/pods"), "")?;
            for (kind, directory) in LOGS {
                all.extend(self.find(kind, directory, "")?);
            }
            Ok(all)
        };
        let mut left = of_pods()?;
        let gone = wait::every(Duration::from_secs(1), "all files are gone", CLEANED, || {
            left = of_pods()?;
            Ok(if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) })
        });
        if let Err(error) = gone {
            println!("{error:#}");
        }
        let mut all = self.find("root", &root, "")?;
        all.retain(|line, _| !line.starts_with("root pods/"));
        all.extend(left);
        Ok(json!(all))
    }

    /// iptables chains that other components expect on a node, with the rules in them and the jumps to them: each with
    /// its table and its count.
    pub fn chains(&self) -> Result<BTreeMap<String, u32>> {
        let mut all = BTreeMap::new();
        for program in ["iptables", "ip6tables"] {
            for table in ["filter", "mangle", "nat"] {
                let list = self.node().run(program, &["-w", "5", "-t", table, "-S"])?;
                for line in list.lines().filter(|line| line.contains("KUBE-")) {
                    *all.entry(format!("{program} {table} {line}")).or_default() += 1;
                }
            }
        }
        Ok(all)
    }

    /// Files of a directory whose relative paths have this prefix, each with its type, mode and link target.
    fn find(&self, kind: &str, directory: &str, begin: &str) -> Result<Files> {
        // Files that are removed meanwhile are no error.
        let list = format!(
            "cd {directory} 2>/dev/null || exit 0; \
             find . -mindepth 1 -printf '%P %y %m %l\\n' 2>/dev/null || true"
        );
        let list = self.node().run("sh", &["-c", &list])?;
        let lines = list.lines().filter(|line| line.starts_with(begin));
        Ok(lines.map(|line| (format!("{kind} {}", self.plain().file(line)), "there")).collect())
    }
}

/// Events that repeat while their cause lasts: their number depends on timing.
const AGAIN_AND_AGAIN: [&str; 6] = [
    "BackOff",
    "ErrImageNeverPull",
    "Failed",
    "FailedCreatePodSandBox",
    "NetworkNotReady",
    "Pulling",
];

/// How often an event was recorded.
#[derive(Debug, Default)]
enum Times {
    #[default]
    Never,
    Once,
    More,
    Again,
}

impl Times {
    fn add(&mut self, event: &Value) {
        let again = AGAIN_AND_AGAIN.iter().any(|reason| event["reason"] == *reason);
        *self = match self {
            _ if again => Self::Again,
            Self::Never if event["count"].as_u64().is_none_or(|count| count == 1) => Self::Once,
            _ => Self::More,
        };
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Never => "never",
            Self::Once => "once",
            Self::More => "more than once",
            Self::Again => "again and again",
        })
    }
}

/// The text of an event, and its object and source. The order of events depends on timing.
fn line(event: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let object = &event["involvedObject"];
    let (kind, reason) = (text(&event["type"]), text(&event["reason"]));
    let (part, message) = (text(&object["fieldPath"]), text(&event["message"]));
    let about = ["apiVersion", "namespace", "uid"].map(|key| text(&object[key])).join(" ");
    let host = text(&event["source"]["host"]);
    let reporting = ["reportingComponent", "reportingInstance"].map(|key| text(&event[key]));
    let by = format!("of {about} by {host} {}", reporting.join(" "));
    (format!("{kind} {reason} of {part}: {message}"), by)
}
