//! Credential provider plugins.

use std::time::Duration;

use images::decide::registry_pattern::matches_image;
use images::read_providers;
use model::ports::image_access::ImageAccess as _;
use testkit::logged::Logged;
use testkit::programs::ProgramScript;
use tokio::time::{Instant, sleep};

use crate::world::{IMAGE, World};

const BIN: &str = "/plugins/get";

/// A node with one plugin, with these fields in addition to the required ones.
async fn world(fields: &str) -> World {
    let mut world = World::new();
    let text = format!(
        "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n\
         - {{name: get, matchImages: [r.io], defaultCacheDuration: 1m, \
         apiVersion: credentialprovider.kubelet.k8s.io/v1{fields}}}\n"
    );
    world.files.write("/providers.yaml", text);
    world.files.write(BIN, "");
    let paths = ["/providers.yaml".as_ref(), "/plugins".as_ref()];
    world.providers = read_providers(&*world.files, paths, true).await.unwrap();
    world
}

fn response(user: &str, cache: &str) -> ProgramScript {
    ProgramScript::Prints(response_text(user, "secret", cache))
}

fn response_text(user: &str, password: &str, cache: &str) -> String {
    format!(
        r#"{{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderResponse",{cache},"auth":{{"r.io":{{"username":"{user}","password":"{password}"}}}}}}"#
    )
}

const BY_IMAGE: &str = r#""cacheKeyType":"Image""#;

// behaviour: PULL-42
#[tokio::test(start_paused = true)]
async fn plugin_receives_the_image_and_its_credentials_come_last() {
    let mut world = world(", args: [get, it], env: [{name: A, value: b}]").await;
    world.programs.set(BIN, response("plugin", BY_IMAGE));
    world.put_secret("key", "p");
    world.files.write("/root/.docker/config.json", r#"{"auths":{"r.io":{"username":"n"}}}"#);
    let pod = world.pod("web", &["key"]);
    let expected = ["u:p of shop/key", "n: of node", "plugin:secret of node"];
    assert_eq!(world.start().credentials(&pod).await, expected);
    let runs = world.programs.runs();
    let [run] = runs.as_slice() else { panic!("{runs:?}") };
    assert_eq!(
        (&run.args[..], &run.env[..]),
        (&["get".to_owned(), "it".to_owned()][..], &[("A".to_owned(), "b".to_owned())][..])
    );
    assert_eq!((run.limit, run.path.to_str()), (Duration::from_mins(1), Some(BIN)));
    let input = String::from_utf8(run.input.clone()).unwrap();
    assert!(input.contains(r#""image":"r.io/team/web"}"#), "{input}");
    assert_eq!(world.start().credentials_for(&pod, "other.io/a:1").await, [""; 0]);
    assert_eq!(world.programs.runs().len(), 1, "it is not run for other images");
    assert!(!matches_image("r.io", "other.io/a"));
    world.providers = None;
    assert_eq!(world.start().credentials(&pod).await.len(), 2);
}

// behaviour: PULL-43
#[tokio::test(start_paused = true)]
async fn response_is_cached_for_its_time_and_its_images() {
    let rows = [
        (r#""cacheKeyType":"Image""#, [1, 2, 3]),
        (r#""cacheKeyType":"Registry""#, [1, 1, 2]),
        (r#""cacheKeyType":"Global","cacheDuration":"1h""#, [1, 1, 1]),
        (r#""cacheKeyType":"Global","cacheDuration":"0s""#, [2, 3, 4]),
    ];
    for (cache, expected) in rows {
        let world = world("").await;
        world.programs.set(BIN, response("u", cache));
        let (agent, pod) = (world.start(), world.pod("web", &[]));
        let mut runs = Vec::new();
        agent.credentials(&pod).await;
        agent.credentials(&pod).await;
        runs.push(world.programs.runs().len());
        agent.credentials_for(&pod, "r.io/other:1").await;
        runs.push(world.programs.runs().len());
        sleep(Duration::from_mins(1)).await;
        agent.credentials(&pod).await;
        runs.push(world.programs.runs().len());
        assert_eq!(runs, expected, "{cache}");
    }
}

// behaviour: PULL-44
#[tokio::test(start_paused = true)]
async fn equal_requests_share_one_run() {
    let world = world("").await;
    let text = response_text("u", "secret", r#""cacheKeyType":"Image","cacheDuration":"0s""#);
    world.programs.set(BIN, ProgramScript::PrintsAfter(Duration::from_secs(5), text));
    let (agent, one, two) = (world.start(), world.pod("one", &[]), world.pod("two", &[]));
    let (first, second) = tokio::join!(agent.credentials(&one), agent.credentials(&two));
    assert_eq!(first, ["u:secret of node"]);
    assert_eq!(first, second);
    assert_eq!(world.programs.runs().len(), 1);
    agent.credentials(&one).await;
    assert_eq!(world.programs.runs().len(), 2);
}

// behaviour: PULL-45
#[tokio::test(start_paused = true)]
async fn plugin_that_fails_or_hangs_has_no_credentials_and_nothing_it_printed_is_shown() {
    let flood = "hidden".repeat(1 << 20);
    let wrong_version = response_text("hidden", "hidden", BY_IMAGE).replace("io/v1", "io/v1beta1");
    let rows = [
        (ProgramScript::Fails, 0),
        (ProgramScript::Hangs, 60),
        (ProgramScript::Prints("hidden".to_owned()), 0),
        (ProgramScript::Prints(flood), 0),
        (ProgramScript::Prints(wrong_version), 0),
    ];
    for (script, seconds) in rows {
        let logged = Logged::new();
        let world = world("").await;
        world.put_secret("key", "p");
        world.programs.set(BIN, script);
        let (agent, pod, begun) = (world.start(), world.pod("web", &["key"]), Instant::now());
        assert_eq!(agent.credentials(&pod).await, ["u:p of shop/key"], "the pull goes on");
        assert_eq!(begun.elapsed(), Duration::from_secs(seconds));
        let warnings = logged.warnings().join("\n");
        assert!(warnings.contains("Credential provider plugin failed"), "{warnings}");
        assert!(!warnings.contains("hidden"), "{warnings}");
        let errors = r#"kubelet_credential_provider_plugin_errors_total{plugin_name="get"}"#;
        assert_eq!(agent.metric(errors), "1");
        let runs = r#"kubelet_credential_provider_plugin_duration_count{plugin_name="get"}"#;
        assert_eq!(agent.metric(runs), "1");
    }
}

fn token_attributes(rest: &str) -> String {
    format!(
        ", tokenAttributes: {{serviceAccountTokenAudience: r.io, requireServiceAccount: true{rest}}}"
    )
}

// behaviour: PULL-46
#[tokio::test(start_paused = true)]
async fn plugin_receives_a_token_and_annotations_of_the_service_account() {
    let keys = ", cacheType: ServiceAccount, requiredServiceAccountAnnotationKeys: [r.io/id], \
                optionalServiceAccountAnnotationKeys: [r.io/x, r.io/none]";
    let world = world(&token_attributes(keys)).await;
    world.programs.set(BIN, response("u", BY_IMAGE));
    let (agent, pod) = (world.start(), world.pod("web", &[]));
    assert_eq!(agent.credentials(&pod).await, [""; 0], "there is no such service account");
    world.accounts.put("robot", &[("r.io/x", "y")]);
    assert_eq!(agent.credentials(&pod).await, [""; 0], "an annotation is missing");
    world.accounts.put("robot", &[("r.io/id", "7"), ("r.io/x", "y"), ("other", "z")]);
    assert_eq!(agent.credentials(&pod).await, ["u:secret of account robot"]);
    let runs = world.programs.runs();
    let input = String::from_utf8(runs[0].input.clone()).unwrap();
    let rest = r#""serviceAccountToken":"token-of-web","serviceAccountAnnotations":{"r.io/id":"7","r.io/x":"y"}}"#;
    assert!(input.contains(rest), "{input}");
    let requests = world.accounts.requests.lock().unwrap().clone();
    assert_eq!(requests[0].audiences, ["r.io"]);
    assert_eq!(&*requests[0].pod.name, "web");
    let mut without = world.pod("none", &[]);
    without.spec.as_mut().unwrap().service_account_name = None;
    assert_eq!(agent.credentials(&without).await, [""; 0]);
}

// behaviour: PULL-46
#[tokio::test(start_paused = true)]
async fn credentials_are_cached_by_service_account_or_by_token() {
    for (cache_type, expected) in [("ServiceAccount", 1), ("Token", 2)] {
        let world = world(&token_attributes(&format!(", cacheType: {cache_type}"))).await;
        world.accounts.put("robot", &[]);
        world.programs.set(BIN, response("u", BY_IMAGE));
        let agent = world.start();
        for pod in ["one", "two", "one"] {
            agent.credentials(&world.pod(pod, &[])).await;
        }
        assert_eq!(world.programs.runs().len(), expected, "{cache_type}");
    }
}

// behaviour: PULL-46
#[tokio::test(start_paused = true)]
async fn token_as_password_is_refused_if_credentials_are_those_of_the_account() {
    // Another test reads this warning: the first thread that logs it decides whether it is enabled for all
    // threads.
    let _logged = Logged::new();
    for (cache_type, expected) in [("ServiceAccount", 0), ("Token", 1)] {
        let world = world(&token_attributes(&format!(", cacheType: {cache_type}"))).await;
        world.accounts.put("robot", &[]);
        let text = response_text("u", "token-of-web", BY_IMAGE);
        world.programs.set(BIN, ProgramScript::Prints(text));
        let found = world.start().credentials(&world.pod("web", &[])).await;
        assert_eq!(found.len(), expected, "{cache_type}");
    }
}

// behaviour: PULL-46
#[tokio::test(start_paused = true)]
async fn image_pulled_for_a_service_account_is_open_to_its_pods_alone() {
    let world = world(&token_attributes(", cacheType: ServiceAccount")).await;
    world.accounts.put("robot", &[]);
    world.accounts.put("other", &[]);
    world.programs.set(BIN, response("u", BY_IMAGE));
    let agent = world.start();
    agent.pull(&world.pod("one", &[])).await;
    assert!(agent.may_use(&world.pod("two", &[])).await);
    let mut other = world.pod("three", &[]);
    other.spec.as_mut().unwrap().service_account_name = Some("other".to_owned());
    assert!(!agent.may_use(&other).await);
    assert!(agent.access.credentials(&other, IMAGE).await.is_ok());
}
