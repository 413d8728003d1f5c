//! `ferrolet logs`.

use std::io::{self, Write};

use anyhow::{Result, bail};
use config::GoDuration;
use k8s_openapi::api::core::v1::Pod;
use podspec::view;

use super::agent::AgentClient;
use super::select::select;
use super::{Place, UsageError};

/// The annotation that names the default container.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// The arguments of `logs`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub place: Place,
    /// The pod, as NAME or NAMESPACE/NAME; the node's name suffix may be left out.
    pub pod: String,
    /// Namespace of the pod; any unless given.
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// The container; the pod's first one unless given.
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// Follow the log until the container ends.
    #[arg(short, long)]
    pub follow: bool,
    /// The log of the previous instance of the container.
    #[arg(short, long)]
    pub previous: bool,
    /// Only the last lines, up to this number; -1 for all.
    #[arg(long, value_name = "LINES", allow_negative_numbers = true)]
    pub tail: Option<i64>,
    /// No lines older than this, such as 10m or 2h30m.
    #[arg(long, value_name = "DURATION")]
    pub since: Option<GoDuration>,
    /// Show the time of each line.
    #[arg(long)]
    pub timestamps: bool,
}

pub(crate) async fn run(args: &Args) -> Result<()> {
    logs(&args.place.agent(), args, &mut io::stdout()).await
}

/// Writes the log of a container.
pub async fn logs(agent: &AgentClient, args: &Args, out: &mut dyn Write) -> Result<()> {
    let query = query(args)?;
    let pods = agent.pods().await?.items;
    let pod = select(pods, &args.pod, args.namespace.as_deref())?.pod;
    let container = container(&pod, args.container.as_deref())?;
    let name = view::pod_name(&pod);
    let path = format!("/logs/{}/{}/{container}?{query}", name.namespace, name.name);
    let mut text = agent.get(&path).await?;
    while let Some(piece) = text.next().await? {
        out.write_all(&piece)?;
        out.flush()?;
    }
    Ok(())
}

fn query(args: &Args) -> Result<String> {
    let mut parameters = vec![
        format!("follow={}", args.follow),
        format!("previous={}", args.previous),
        format!("timestamps={}", args.timestamps),
    ];
    if let Some(lines) = args.tail.filter(|lines| *lines >= 0) {
        parameters.push(format!("tailLines={lines}"));
    }
    if let Some(since) = args.since {
        let since = since.to_std();
        if since.is_zero() {
            return Err(UsageError("--since must be more than nothing".to_owned()).into());
        }
        // Rounded up to whole seconds: a few more lines are better than missing lines.
        let seconds = since.as_secs() + u64::from(since.subsec_nanos() > 0);
        parameters.push(format!("sinceSeconds={seconds}"));
    }
    Ok(parameters.join("&"))
}

/// The container to read.
pub(crate) fn container<'a>(pod: &'a Pod, requested: Option<&'a str>) -> Result<&'a str> {
    let name = view::pod_name(pod);
    let all: Vec<&str> = names(pod).collect();
    if let Some(requested) = requested {
        if !all.contains(&requested) {
            bail!("pod {name} has no container {requested:?}; it has {}", all.join(", "));
        }
        return Ok(requested);
    }
    let default = pod.metadata.annotations.as_ref().and_then(|all| all.get(DEFAULT_CONTAINER));
    if let Some(default) = default.filter(|default| all.contains(&default.as_str())) {
        return Ok(default);
    }
    let Some(first) = view::containers(pod).first() else { bail!("pod {name} has no container") };
    if let Some(note) = defaulted(pod, &first.name) {
        // On standard error, so that standard output contains only the log.
        eprintln!("{note}");
    }
    Ok(&first.name)
}

/// The note that a container was chosen of several, as kubectl prints it.
fn defaulted(pod: &Pod, chosen: &str) -> Option<String> {
    let spec = view::spec(pod)?;
    let init = spec.init_containers.iter().flatten().map(|one| format!("{} (init)", one.name));
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    let ephemeral = ephemeral.map(|one| format!("{} (ephem)", one.name));
    let plain = view::containers(pod).iter().map(|one| one.name.clone());
    let all: Vec<String> = plain.chain(ephemeral).chain(init).collect();
    let all = (all.len() > 1).then(|| all.join(", "))?;
    Some(format!("Defaulted container {chosen:?} out of: {all}"))
}

/// The names of all containers of a pod, of every kind.
fn names(pod: &Pod) -> impl Iterator<Item = &str> {
    let spec = view::spec(pod);
    let init = spec.and_then(|spec| spec.init_containers.as_ref()).into_iter().flatten();
    let ephemeral = spec.and_then(|spec| spec.ephemeral_containers.as_ref()).into_iter().flatten();
    let plain = view::containers(pod).iter().chain(init).map(|one| one.name.as_str());
    plain.chain(ephemeral.map(|one| one.name.as_str()))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parsed(line: &str) -> Args {
        Line::parse_from(std::iter::once("logs").chain(line.split(' '))).args
    }

    #[test]
    fn log_options_become_query_parameters() {
        let none = "follow=false&previous=false&timestamps=false";
        let rows = [
            ("web", none.to_owned()),
            ("web --tail=-1", none.to_owned()),
            ("web --tail 0", format!("{none}&tailLines=0")),
            ("web --since 1m30s", format!("{none}&sinceSeconds=90")),
            ("web --since 1500ms", format!("{none}&sinceSeconds=2")),
            ("web -f -p --timestamps", "follow=true&previous=true&timestamps=true".to_owned()),
        ];
        for (line, expected) in rows {
            assert_eq!(query(&parsed(line)).unwrap(), expected, "{line}");
        }
        assert!(query(&parsed("web --since 0s")).is_err());
    }

    #[test]
    fn first_container_is_the_default() {
        let one = testkit::pods::pod("one").container("main", "image", [""; 0]).build();
        let mut two = testkit::pods::pod("two")
            .container("main", "image", [""; 0])
            .container("side", "image", [""; 0])
            .build();
        assert_eq!(container(&one, None).unwrap(), "main");
        assert_eq!(container(&two, Some("side")).unwrap(), "side");
        let error = container(&two, Some("other")).unwrap_err().to_string();
        assert_eq!(error, "pod default/two has no container \"other\"; it has main, side");
        assert_eq!(container(&two, None).unwrap(), "main");
        assert_eq!(defaulted(&one, "main"), None);
        let note = "Defaulted container \"main\" out of: main, side";
        assert_eq!(defaulted(&two, "main").as_deref(), Some(note));
        let init = serde_json::json!([{ "name": "setup" }]);
        let mut three = one.clone();
        three.spec.as_mut().unwrap().init_containers = serde_json::from_value(init).unwrap();
        let note = "Defaulted container \"main\" out of: main, setup (init)";
        assert_eq!(defaulted(&three, "main").as_deref(), Some(note));
        let annotation = (DEFAULT_CONTAINER.to_owned(), "side".to_owned());
        two.metadata.annotations = Some([annotation].into());
        assert_eq!(container(&two, None).unwrap(), "side");
    }
}
