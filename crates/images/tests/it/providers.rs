//! Credential provider plugins.

use std::time::Duration;

use images::decide::registry_pattern::matches_image;
use images::read_providers;
use model::ports::image_access::ImageAccess as _;
use testkit::logged::Logged;
use testkit::programs::ProgramScript;
use tokio::time::{Instant, sleep};

use crate::harness::{Harness, IMAGE};

const BIN: &str = "/plugins/get";

/// A node with one plugin, with these fields in addition to the required ones.
async fn harness(fields: &str) -> Harness {
    let mut harness = Harness::new();
    let text = format!(
        "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n\
         - {{name: get, matchImages: [r.io], defaultCacheDuration: 1m, \
         apiVersion: credentialprovider.kubelet.k8s.io/v1{fields}}}\n"
    );
    harness.files.write("/providers.yaml", text);
    harness.files.write(BIN, "");
    let paths = ["/providers.yaml".as_ref(), "/plugins".as_ref()];
    harness.providers = read_providers(&*harness.files, paths, true).await.unwrap();
    harness
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
    let mut harness = harness(", args: [get, it], env: [{name: A, value: b}]").await;
    harness.programs.set(BIN, response("plugin", BY_IMAGE));
    harness.put_secret("key", "p");
    harness.files.write("/root/.docker/config.json", r#"{"auths":{"r.io":{"username":"n"}}}"#);
    let pod = harness.pod("web", &["key"]);
    let expected = ["u:p of shop/key", "n: of node", "plugin:secret of node"];
    assert_eq!(harness.start().credentials(&pod).await, expected);
    let runs = harness.programs.runs();
    let [run] = runs.as_slice() else { panic!("{runs:?}") };
    assert_eq!(
        (&run.args[..], &run.env[..]),
        (&["get".to_owned(), "it".to_owned()][..], &[("A".to_owned(), "b".to_owned())][..])
    );
    assert_eq!((run.limit, run.path.to_str()), (Duration::from_mins(1), Some(BIN)));
    let input = String::from_utf8(run.input.clone()).unwrap();
    assert!(input.contains(r#""image":"r.io/team/web"}"#), "{input}");
    assert_eq!(harness.start().credentials_for(&pod, "other.io/a:1").await, [""; 0]);
    assert_eq!(harness.programs.runs().len(), 1, "it is not run for other images");
    assert!(!matches_image("r.io", "other.io/a"));
    harness.providers = None;
    assert_eq!(harness.start().credentials(&pod).await.len(), 2);
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
        let harness = harness("").await;
        harness.programs.set(BIN, response("u", cache));
        let (agent, pod) = (harness.start(), harness.pod("web", &[]));
        let mut runs = Vec::new();
        agent.credentials(&pod).await;
        agent.credentials(&pod).await;
        runs.push(harness.programs.runs().len());
        agent.credentials_for(&pod, "r.io/other:1").await;
        runs.push(harness.programs.runs().len());
        sleep(Duration::from_mins(1)).await;
        agent.credentials(&pod).await;
        runs.push(harness.programs.runs().len());
        assert_eq!(runs, expected, "{cache}");
    }
}

// behaviour: PULL-44
#[tokio::test(start_paused = true)]
async fn equal_requests_share_one_run() {
    let harness = harness("").await;
    let text = response_text("u", "secret", r#""cacheKeyType":"Image","cacheDuration":"0s""#);
    harness.programs.set(BIN, ProgramScript::PrintsAfter(Duration::from_secs(5), text));
    let (agent, one, two) = (harness.start(), harness.pod("one", &[]), harness.pod("two", &[]));
    let (first, second) = tokio::join!(agent.credentials(&one), agent.credentials(&two));
    assert_eq!(first, ["u:secret of node"]);
    assert_eq!(first, second);
    assert_eq!(harness.programs.runs().len(), 1);
    agent.credentials(&one).await;
    assert_eq!(harness.programs.runs().len(), 2);
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
        let harness = harness("").await;
        harness.put_secret("key", "p");
        harness.programs.set(BIN, script);
        let (agent, pod, begun) = (harness.start(), harness.pod("web", &["key"]), Instant::now());
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
    let harness = harness(&token_attributes(keys)).await;
    harness.programs.set(BIN, response("u", BY_IMAGE));
    let (agent, pod) = (harness.start(), harness.pod("web", &[]));
    assert_eq!(agent.credentials(&pod).await, [""; 0], "there is no such service account");
    harness.accounts.put("robot", &[("r.io/x", "y")]);
    assert_eq!(agent.credentials(&pod).await, [""; 0], "an annotation is missing");
    harness.accounts.put("robot", &[("r.io/id", "7"), ("r.io/x", "y"), ("other", "z")]);
    assert_eq!(agent.credentials(&pod).await, ["u:secret of account robot"]);
    let runs = harness.programs.runs();
    let input = String::from_utf8(runs[0].input.clone()).unwrap();
    let rest = r#""serviceAccountToken":"token-of-web","serviceAccountAnnotations":{"r.io/id":"7","r.io/x":"y"}}"#;
    assert!(input.contains(rest), "{input}");
    let requests = harness.accounts.requests.lock().unwrap().clone();
    assert_eq!(requests[0].audiences, ["r.io"]);
    assert_eq!(&*requests[0].pod.name, "web");
    let mut without = harness.pod("none", &[]);
    without.spec.as_mut().unwrap().service_account_name = None;
    assert_eq!(agent.credentials(&without).await, [""; 0]);
}

// behaviour: PULL-46
#[tokio::test(start_paused = true)]
async fn credentials_are_cached_by_service_account_or_by_token() {
    for (cache_type, expected) in [("ServiceAccount", 1), ("Token", 2)] {
        let harness = harness(&token_attributes(&format!(", cacheType: {cache_type}"))).await;
        harness.accounts.put("robot", &[]);
        harness.programs.set(BIN, response("u", BY_IMAGE));
        let agent = harness.start();
        for pod in ["one", "two", "one"] {
            agent.credentials(&harness.pod(pod, &[])).await;
        }
        assert_eq!(harness.programs.runs().len(), expected, "{cache_type}");
    }
}

// behaviour: PULL-46
#[tokio::test(start_paused = true)]
async fn token_as_password_is_refused_if_credentials_are_those_of_the_account() {
    // Another test reads this warning: the first thread that logs it decides whether it is enabled for all
    // threads.
    let _logged = Logged::new();
    for (cache_type, expected) in [("ServiceAccount", 0), ("Token", 1)] {
        let harness = harness(&token_attributes(&format!(", cacheType: {cache_type}"))).await;
        harness.accounts.put("robot", &[]);
        let text = response_text("u", "token-of-web", BY_IMAGE);
        harness.programs.set(BIN, ProgramScript::Prints(text));
        let found = harness.start().credentials(&harness.pod("web", &[])).await;
        assert_eq!(found.len(), expected, "{cache_type}");
    }
}

// behaviour: PULL-46
#[tokio::test(start_paused = true)]
async fn image_pulled_for_a_service_account_is_only_open_to_its_pods() {
    let harness = harness(&token_attributes(", cacheType: ServiceAccount")).await;
    harness.accounts.put("robot", &[]);
    harness.accounts.put("other", &[]);
    harness.programs.set(BIN, response("u", BY_IMAGE));
    let agent = harness.start();
    agent.pull(&harness.pod("one", &[])).await;
    assert!(agent.may_use(&harness.pod("two", &[])).await);
    let mut other = harness.pod("three", &[]);
    other.spec.as_mut().unwrap().service_account_name = Some("other".to_owned());
    assert!(!agent.may_use(&other).await);
    assert!(agent.access.credentials(&other, IMAGE).await.is_ok());
}
