use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use cluster::NEEDED;
use config::pod_gc::{Invocation, PodGcArguments, parse};
use podgc::cache::{Cache, SharedCache};
use serde::Deserialize;
use serde_json::Value;

use crate::health::Health;

const RBAC: &str = include_str!("../../../deploy/pod-gc/rbac.yaml");
const DEPLOYMENT: &str = include_str!("../../../deploy/pod-gc/deployment.yaml");

/// The package that is built, and its program.
const PACKAGE: &str = "cli";
const PROGRAM: &str = "ferrolet";

/// The root of the sources, which the image is built from.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const WORKSPACE: &str = include_str!("../../../Cargo.toml");
const DOCKERFILE: &str = include_str!("../../../deploy/pod-gc/Dockerfile");
const IGNORED: &str = include_str!("../../../deploy/pod-gc/Dockerfile.dockerignore");
const TOOLCHAIN: &str = include_str!("../../../rust-toolchain.toml");
const DOCS: &str = include_str!("../../../docs/pod-gc.md");

#[derive(Debug, Deserialize)]
struct Role {
    kind: String,
    metadata: Reference,
    #[serde(default)]
    rules: Vec<Rule>,
    #[serde(default, rename = "roleRef")]
    of: Option<Reference>,
    /// The subjects of the role.
    #[serde(default)]
    subjects: Vec<Reference>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Reference {
    #[serde(default)]
    kind: String,
    name: String,
    #[serde(default)]
    namespace: String,
}

impl Reference {
    fn place(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }
}

/// The Deployment, and the settings of its container.
fn deployed() -> (Value, PodGcArguments) {
    let object: Value = serde_saphyr::from_str(DEPLOYMENT).unwrap();
    let container = &object["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(words(container, "command"), ["ferrolet", "pod-gc"]);
    let Ok(Invocation::Run(args)) = parse(words(container, "args")) else {
        panic!("the flags do not run the controller");
    };
    (object, *args)
}

fn words(container: &Value, key: &str) -> Vec<String> {
    let list = container[key].as_array().unwrap();
    list.iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

fn roles() -> Vec<Role> {
    RBAC.split("\n---\n").map(|text| serde_saphyr::from_str(text).unwrap()).collect()
}

// behaviour: PGC-103
#[test]
fn roles_grant_exactly_the_requests_of_the_program() {
    let mut granted = BTreeSet::new();
    for rule in roles().iter().flat_map(|role| &role.rules) {
        for group in &rule.api_groups {
            for resource in &rule.resources {
                for verb in &rule.verbs {
                    let is_new = granted.insert((group.clone(), resource.clone(), verb.clone()));
                    assert!(is_new, "granted twice: {verb} {resource}");
                }
            }
        }
    }
    // This built-in role of Kubernetes grants these two.
    let delegator =
        |role: &Role| role.of.as_ref().is_some_and(|to| to.name == "system:auth-delegator");
    assert!(roles().iter().any(delegator));
    let reviews = ["tokenreviews", "subjectaccessreviews"];
    let needed = NEEDED.iter().filter(|one| !reviews.contains(&one.resource));
    let needed = needed
        .map(|one| (one.group.to_owned(), one.resource.to_owned(), one.verb.to_owned()))
        .collect();
    assert_eq!(granted, needed);
}

// behaviour: PGC-103
#[test]
fn role_and_program_name_the_same_lease() {
    let election = deployed().1.election.unwrap();
    let role = roles().into_iter().find(|role| role.kind == "Role").unwrap();
    assert_eq!(role.rules.len(), 2);
    assert_eq!(role.metadata.namespace, election.namespace);
    let named: Vec<String> = roles()
        .into_iter()
        .flat_map(|role| role.rules)
        .flat_map(|rule| rule.resource_names)
        .collect();
    assert_eq!(named, [election.name]);
}

// behaviour: PGC-103
#[test]
fn role_bindings_name_the_service_account_of_the_pods() {
    let (object, _) = deployed();
    let account = &object["spec"]["template"]["spec"]["serviceAccountName"];
    let account = (object["metadata"]["namespace"].as_str().unwrap(), account.as_str().unwrap());
    let of_kind = |kind: &str| {
        let mut all = roles();
        all.retain(|role| role.kind == kind);
        all
    };
    let accounts = of_kind("ServiceAccount");
    assert_eq!(accounts.iter().map(|one| one.metadata.place()).collect::<Vec<_>>(), [account]);
    for (binding, kind) in [("ClusterRoleBinding", "ClusterRole"), ("RoleBinding", "Role")] {
        let mut unbound: BTreeSet<String> =
            of_kind(kind).into_iter().map(|role| role.metadata.name).collect();
        for binding in of_kind(binding) {
            let role = binding.of.unwrap();
            let is_ours = unbound.remove(&role.name);
            assert!(is_ours || role.name == "system:auth-delegator", "{role:?}");
            assert_eq!(role.kind, kind);
            let [subject] = &binding.subjects[..] else { panic!("{:?}", binding.subjects) };
            assert_eq!((&*subject.kind, subject.place()), ("ServiceAccount", account));
        }
        assert_eq!(unbound, BTreeSet::new(), "roles without a binding");
    }
}

// behaviour: PGC-139
#[test]
fn deployment_flags_are_valid() {
    let (object, args) = deployed();
    let container = &object["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        i64::from(args.serving.port),
        container["ports"][0]["containerPort"].as_i64().unwrap()
    );
    let mounted = container["volumeMounts"][0]["mountPath"].as_str().unwrap();
    assert_eq!(args.state_dir.to_str(), Some(mounted));
    assert_eq!(args.without_effect, [""; 0]);
}

// behaviour: PGC-139
#[test]
fn probe_paths_are_public() {
    let (object, args) = deployed();
    let container = &object["spec"]["template"]["spec"]["containers"][0];
    let cache = Arc::new(SharedCache::new(Cache::default()));
    // It does not know all pods yet: it is not ready, which must not restart it.
    let health = Health { election: None, cache };
    for (probe, is_well) in [("livenessProbe", true), ("readinessProbe", false)] {
        let requested = &container[probe]["httpGet"];
        assert_eq!(requested["scheme"], "HTTPS", "{probe}");
        assert_eq!(requested["port"], container["ports"][0]["name"], "{probe}");
        let path = requested["path"].as_str().unwrap();
        assert!(args.serving.access.open_paths.iter().any(|open| open == path), "{path}");
        let answer = health.answer(path, false);
        assert_eq!(answer.map(|(is_well, _)| is_well), Some(is_well), "{path}");
    }
}

#[test]
fn image_has_the_compiler_version_of_the_sources_and_the_deployment_user() {
    let object: Value = serde_saphyr::from_str(DEPLOYMENT).unwrap();
    let pod = &object["spec"]["template"]["spec"];
    let (user, group) =
        (&pod["securityContext"]["runAsUser"], &pod["securityContext"]["runAsGroup"]);
    assert!(DOCKERFILE.contains(&format!("\nUSER {user}:{group}\n")), "{DOCKERFILE}");
    let channel = TOOLCHAIN.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap();
    let channel = channel.trim_matches('"');
    for line in [format!("FROM rust:{channel}-"), format!("RUSTUP_TOOLCHAIN={channel}\n")] {
        assert!(DOCKERFILE.contains(&line), "{line}");
    }
    // The documentation replaces this text.
    let image = format!("image: {}", pod["containers"][0]["image"].as_str().unwrap());
    assert!(DOCS.contains(&format!("s|{image}|")) && DEPLOYMENT.contains(&image), "{image}");
    assert_eq!(image, concat!("image: ferrolet:", env!("CARGO_PKG_VERSION")));
}

/// The words after an instruction of the Dockerfile.
fn instructions(name: &str) -> Vec<Vec<&'static str>> {
    let lines = DOCKERFILE.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    lines.map(|line| line.split_whitespace().collect()).collect()
}

/// Whether a path from the root of the sources is excluded from the build.
fn is_ignored(path: &str) -> bool {
    IGNORED.lines().any(|line| Path::new("/").join(path).starts_with(line))
}

#[test]
fn image_is_built_from_existing_files() {
    let (stages, copies) = (instructions("FROM"), instructions("COPY"));
    let ([first, _], [sources, program_file]) = (&stages[..], &copies[..]) else {
        panic!("{DOCKERFILE}");
    };
    assert_eq!(first[1..], ["AS", "build"]);
    // All sources that are not ignored.
    assert_eq!(sources[..], [".", "."]);
    assert!(is_ignored("target/release/ferrolet") && is_ignored(".git"));
    let mut needed = vec!["Cargo.toml", "Cargo.lock", "rust-toolchain.toml"];
    let members = WORKSPACE.split_once("\nmembers = [").unwrap().1.split_once(']').unwrap().0;
    needed.extend(members.split('"').skip(1).step_by(2).map(|name| name.trim_end_matches("/*")));
    assert!(needed.len() > 4, "{needed:?}");
    for path in needed {
        assert!(Path::new(ROOT).join(path).exists(), "there is no {path}");
        assert!(!is_ignored(path), "{path} is ignored");
    }
    // The built program is the one that is copied.
    let commands = instructions("RUN");
    let [cargo] = &commands[..] else { panic!("{DOCKERFILE}") };
    let behind = |flag: &str| {
        let place = cargo.iter().position(|word| *word == flag).expect("the flag is there");
        cargo[place + 1]
    };
    assert!(cargo.contains(&"--release"));
    assert_eq!(behind("-p"), PACKAGE);
    let [from, source, target] = program_file[..] else { panic!("{program_file:?}") };
    assert_eq!(from, "--from=build");
    assert_eq!(source, format!("{}/release/{PROGRAM}", behind("--target-dir")));
    // The directory is in PATH, so the name alone suffices.
    assert_eq!(target, format!("/usr/local/bin/{PROGRAM}"));
    assert_eq!(instructions("ENTRYPOINT"), [[format!("[\"{PROGRAM}\"]")]]);
}
