use std::collections::BTreeSet;

use cluster::NEEDED;
use serde::Deserialize;

const RBAC: &str = include_str!("../../../../deploy/pod-gc/rbac.yaml");
const DEPLOYMENT: &str = include_str!("../../../../deploy/pod-gc/deployment.yaml");

const DOCKERFILE: &str = include_str!("../../../../deploy/pod-gc/Dockerfile");
const TOOLCHAIN: &str = include_str!("../../../../rust-toolchain.toml");
const DOCS: &str = include_str!("../../../../docs/pod-gc.md");

#[derive(Debug, Deserialize)]
struct Role {
    kind: String,
    #[serde(default)]
    rules: Vec<Rule>,
    #[serde(default, rename = "roleRef")]
    of: Option<Reference>,
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
    name: String,
}

fn roles() -> Vec<Role> {
    RBAC.split("\n---\n").map(|text| serde_saphyr::from_str(text).unwrap()).collect()
}

// behaviour: PGC-103
#[test]
fn the_roles_grant_just_what_the_program_asks_for() {
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
    // This role of Kubernetes' own grants these two.
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
fn the_lease_that_may_be_written_is_the_one_that_is_written() {
    let config::pod_gc::Asked::Run(args) = config::pod_gc::parse([""; 0]).unwrap() else {
        panic!("no flags mean to run");
    };
    let election = args.election.unwrap();
    let named: Vec<String> = roles()
        .into_iter()
        .flat_map(|role| role.rules)
        .flat_map(|rule| rule.resource_names)
        .collect();
    assert_eq!(named, [election.name]);
    let role = roles().into_iter().find(|role| role.kind == "Role").unwrap();
    assert_eq!(role.rules.len(), 2);
}

#[test]
fn the_deployment_gives_flags_that_are_understood() {
    let object: serde_json::Value = serde_saphyr::from_str(DEPLOYMENT).unwrap();
    let container = &object["spec"]["template"]["spec"]["containers"][0];
    let words = |key: &str| -> Vec<String> {
        let list = container[key].as_array().unwrap();
        list.iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(words("command"), ["ferrolet", "pod-gc"]);
    let config::pod_gc::Asked::Run(args) = config::pod_gc::parse(words("args")).unwrap() else {
        panic!("it asks for something else");
    };
    assert_eq!(
        i64::from(args.serving.port),
        container["ports"][0]["containerPort"].as_i64().unwrap()
    );
    let mounted = container["volumeMounts"][0]["mountPath"].as_str().unwrap();
    assert_eq!(args.state_dir.to_str(), Some(mounted));
}

#[test]
fn the_image_is_made_with_the_compiler_of_the_sources_and_runs_as_the_deployment_says() {
    let object: serde_json::Value = serde_saphyr::from_str(DEPLOYMENT).unwrap();
    let pod = &object["spec"]["template"]["spec"];
    let (user, group) =
        (&pod["securityContext"]["runAsUser"], &pod["securityContext"]["runAsGroup"]);
    assert!(DOCKERFILE.contains(&format!("\nUSER {user}:{group}\n")), "{DOCKERFILE}");
    let channel = TOOLCHAIN.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap();
    let channel = channel.trim_matches('"');
    for line in [format!("FROM rust:{channel}-"), format!("RUSTUP_TOOLCHAIN={channel}\n")] {
        assert!(DOCKERFILE.contains(&line), "{line}");
    }
    // What the documentation replaces is there.
    let image = format!("image: {}", pod["containers"][0]["image"].as_str().unwrap());
    assert!(DOCS.contains(&format!("s|{image}|")) && DEPLOYMENT.contains(&image), "{image}");
}
