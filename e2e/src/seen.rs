//! What can be seen of a play: the objects of its pods, all events, and the files of the node, without what is another
//! thing each time.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use testbed::wait;

use crate::cluster_node::{ClusterNode, log_directory};
use crate::node::{NODE_NAME, PATIENCE};
use crate::plain::Plain;

/// What was seen in the end.
#[derive(Debug)]
pub struct Seen {
    /// What was played.
    pub scenarios: Vec<&'static str>,
    /// By scenarios, then by objects.
    pub play: BTreeMap<String, BTreeMap<String, Value>>,
    /// The object of the node.
    pub node: Value,
}

/// Lines about files; that they are there is what is compared.
type Files = BTreeMap<String, &'static str>;

/// The scenario that is of no pod.
pub(crate) const NODE: &str = "the node";

/// How long no new event may come until all are taken as written: longer than an agent delays events.
const QUIET: Duration = Duration::from_secs(3);

/// How long files of pods may be there after them: upstream looks for them once a minute.
const CLEANED: Duration = Duration::from_secs(100);

/// Where the logs of pods are, and links to them by names of containers.
const LOGS: [(&str, &str); 2] = [("logs", "/var/log/pods"), ("links", "/var/log/containers")];

/// What was seen of pods so far.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// What was played so far; the last one now.
    scenarios: Vec<&'static str>,
    /// By the pods' names.
    pods: BTreeMap<String, Sight>,
}

/// What was seen of a pod.
#[derive(Debug)]
struct Sight {
    scenario: &'static str,
    /// What it is called here: the name, unless that is made up.
    called: String,
    object: Value,
    /// Null if files were not looked at.
    files: Value,
}

impl Record {
    /// Another scenario begins.
    pub(crate) fn begin(&mut self, scenario: &'static str) {
        self.scenarios.push(scenario);
    }

    fn scenario(&self) -> &'static str {
        self.scenarios.last().copied().unwrap_or_default()
    }

    /// Whether a pod was looked at.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.pods.contains_key(name)
    }
}

fn name(pod: &Value) -> &str {
    pod["metadata"]["name"].as_str().unwrap_or_default()
}

impl ClusterNode {
    /// Takes a pod's object as it was found, and looks at the pod's files as they are now.
    pub(crate) fn look_at(&self, pod: &Value) -> Result<()> {
        self.look_at_as(pod, name(pod))
    }

    /// The same of a pod whose name is made up.
    pub(crate) fn look_at_as(&self, pod: &Value, called: &str) -> Result<()> {
        let files = self.files_of(pod)?;
        self.note(pod, called, files);
        Ok(())
    }

    /// Takes a pod's object as it was found. Its files may be gone soon.
    pub(crate) fn look_at_object(&self, pod: &Value) {
        self.note(pod, name(pod), Value::Null);
    }

    fn note(&self, pod: &Value, called: &str, files: Value) {
        let mut object = self.plain().object(pod);
        // Who wrote it, and which part of it.
        let writers = pod["metadata"]["managedFields"].as_array();
        let writers = writers.into_iter().flatten().map(|one| {
            let text = |key: &str| one[key].as_str().unwrap_or("-").to_owned();
            (["manager", "operation", "subresource"].map(text).join(" "), Value::from("wrote"))
        });
        object["metadata"]["managedFields"] = Value::Object(writers.collect());
        let mut record = self.record().borrow_mut();
        let called = called.to_owned();
        let sight = Sight { scenario: record.scenario(), called, object, files };
        record.pods.insert(name(pod).to_owned(), sight);
    }

    fn plain(&self) -> Plain {
        Plain { node_ip: self.node().instance().node_ip() }
    }

    /// All that was seen: waits until no new event comes and no more files are removed.
    pub fn seen(&self) -> Result<Seen> {
        let (events, files) = (self.events()?, self.left_files()?);
        let record = self.record().borrow();
        let mut play: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
        let mut add = |scenario: &str, object: String, part: &str, value: Value| {
            let object = play.entry(scenario.to_owned()).or_default().entry(object);
            object.or_insert_with(|| json!({}))[part] = value;
        };
        // A name that is made up is in messages, too.
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
                // Others of many alike are not looked at one by one.
                None if kind == "Pod" => {}
                _ => add(NODE, format!("{} {name}", kind.to_lowercase()), "events", lines),
            }
        }
        add(NODE, "directories".to_owned(), "files", files);
        add(NODE, "packet filter".to_owned(), "rules", json!(self.chains()?));
        Ok(Seen { scenarios: record.scenarios.clone(), play, node: self.node_object()? })
    }

    /// The object of the node. Its address is another one each time.
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
        let said = by_object.into_iter().map(|(object, lines)| {
            let said =
                lines.into_iter().map(|(line, (by, times))| (line, format!("{by}, {times}")));
            (object, json!(said.collect::<BTreeMap<String, String>>()))
        });
        Ok(said.collect())
    }

    /// The files of a pod: its directory, its logs, and links to them.
    fn files_of(&self, pod: &Value) -> Result<Value> {
        let uid = |pod: &Value| {
            // The directory of a static pod has the static pod's own uid.
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

    /// The files of the node, once none is left of a pod, or it is left for good.
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

    /// Chains that others expect of a node, and rules in them or that lead there: each with its table, and how often it is
    /// there.
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

    /// The files of a directory whose paths in it begin so, each with its kind, its mode and what it links to.
    fn find(&self, kind: &str, directory: &str, begin: &str) -> Result<Files> {
        // What goes meanwhile is no error.
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
