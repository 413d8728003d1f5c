//! Which credentials a pod has, and which present images it may use.

use config::ImagePullCredentialsVerificationPolicy as Policy;
use model::ports::image_access::{ImageAccess as _, PresentImage};
use testkit::logged::Logged;
use tokio::time::{Duration, sleep};

use crate::harness::{Harness, IMAGE, REF, texts};

// behaviour: PULL-24
#[tokio::test(start_paused = true)]
async fn pull_secrets_come_before_the_node_and_missing_ones_are_reported() {
    let harness = Harness::new();
    harness.put_secret("b", "second");
    harness.put_secret("a", "first");
    let older = r#"{"https://r.io/v1/":{"auth":"dTpvbGQ="}}"#;
    harness.put_object("old", ["kubernetes.io/dockercfg", ".dockercfg"], older);
    harness.put_object("opaque", ["Opaque", ".dockerconfigjson"], "{");
    harness.files.write("/root/.docker/config.json", r#"{"auths":{"r.io":{"auth":"bjpvZGU="}}}"#);
    let pod = harness.pod("web", &["b", "gone", "a", "", "old", "opaque", "lost"]);
    let credentials = harness.start().credentials(&pod).await;
    let expected =
        ["u:second of shop/b", "u:first of shop/a", "u:old of shop/old", "n:ode of node"];
    assert_eq!(credentials, expected);
    let events = harness.events.all();
    let [event] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(event.reason, "FailedToRetrieveImagePullSecret");
    let text = "Unable to retrieve some image pull secrets (gone, lost); \
                attempting to pull the image may not succeed.";
    assert_eq!(event.message, text);
}

// behaviour: PULL-24
#[tokio::test(start_paused = true)]
async fn malformed_pull_secret_fails_the_lookup_and_is_not_shown() {
    let harness = Harness::new();
    let kind = ["kubernetes.io/dockerconfigjson", ".dockerconfigjson"];
    harness.put_object("bad", kind, r#"{"auths":{"r.io":{"password":"hidden""#);
    let pod = harness.pod("web", &["bad"]);
    let error = harness.start().access.credentials(&pod, IMAGE).await.unwrap_err();
    let expected = "pull secret shop/bad: invalid JSON in line 1, column 37";
    assert_eq!(error.to_string(), expected);
}

// behaviour: PULL-25
#[tokio::test(start_paused = true)]
async fn first_file_of_the_node_that_can_be_read_is_used() {
    let config = |user: &str| format!(r#"{{"auths":{{"r.io":{{"username":"{user}"}}}}}}"#);
    let older = |user: &str| format!(r#"{{"r.io":{{"username":"{user}"}}}}"#);
    let files = [
        ("/.dockercfg", older("h")),
        ("/root/.dockercfg", older("g")),
        ("/work/.dockercfg", older("f")),
        ("/var/lib/kubelet/.dockercfg", older("e")),
        ("/.docker/config.json", config("d")),
        ("/root/.docker/config.json", config("c")),
        ("/work/config.json", config("b")),
        ("/var/lib/kubelet/config.json", config("a")),
    ];
    let harness = Harness::new();
    let pod = harness.pod("web", &[]);
    assert_eq!(harness.start().credentials(&pod).await, [""; 0]);
    for (path, content) in files {
        let user = content.split('"').nth_back(1).unwrap().to_owned();
        harness.files.write(path, content);
        assert_eq!(harness.start().credentials(&pod).await, [format!("{user}: of node")], "{path}");
    }
    let logged = Logged::new();
    harness.files.write("/var/lib/kubelet/config.json", r#"{"auths":{"r.io":{"auth":"hidden"}}}"#);
    assert_eq!(harness.start().credentials(&pod).await, ["b: of node"]);
    let warnings = logged.warnings().join("\n");
    assert!(warnings.contains("/var/lib/kubelet/config.json"), "{warnings}");
    assert!(!warnings.contains("hidden"), "{warnings}");
}

// behaviour: PULL-25
#[tokio::test(start_paused = true)]
async fn credentials_of_the_node_are_read_again_after_five_minutes() {
    let harness = Harness::new();
    let (pod, agent) = (harness.pod("web", &[]), harness.start());
    let path = "/var/lib/kubelet/config.json";
    let write = |user: &str| {
        harness.files.write(path, format!(r#"{{"auths":{{"r.io":{{"username":"{user}"}}}}}}"#));
    };
    assert_eq!(agent.credentials(&pod).await, [""; 0]);
    write("old");
    assert_eq!(agent.credentials(&pod).await, ["old: of node"], "a new file counts at once");
    write("new");
    sleep(Duration::from_secs(299)).await;
    assert_eq!(agent.credentials(&pod).await, ["old: of node"]);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(agent.credentials(&pod).await, ["new: of node"]);
}

// behaviour: PULL-33
#[tokio::test(start_paused = true)]
async fn tenant_without_the_secret_cannot_use_the_image_of_another() {
    let harness = Harness::new();
    harness.put_secret("key", "p");
    harness.put_secret("copy", "p");
    harness.put_secret("wrong", "q");
    let (agent, owner) = (harness.start(), harness.pod("owner", &["key"]));
    agent.pull(&owner).await;
    assert!(agent.may_use(&owner).await);
    assert!(agent.may_use(&harness.pod("copy", &["copy"])).await);
    assert!(!agent.may_use(&harness.pod("none", &[])).await);
    let wrong = harness.pod("wrong", &["wrong"]);
    let checked = agent.access.check_present(&wrong, IMAGE, REF).await.unwrap();
    let PresentImage::MustPull { credentials: Some(credentials) } = checked else {
        panic!("{checked:?}")
    };
    assert_eq!(texts(&credentials), ["u:q of shop/wrong"], "looked up once");
    assert!(!agent.may_use_as(&owner, "r.io/team/alias:1").await, "another name");
    assert!(agent.may_use_as(&owner, "r.io/team/web:2").await, "another tag");
    let found = agent.metric(
        r#"kubelet_imagemanager_image_mustpull_checks_total{result="credentialRecordFound"}"#,
    );
    let refused = agent
        .metric(r#"kubelet_imagemanager_image_mustpull_checks_total{result="mustAuthenticate"}"#);
    assert_eq!((found.as_str(), refused.as_str()), ("3", "3"));
}

// behaviour: PULL-33
#[tokio::test(start_paused = true)]
async fn changed_secret_is_added_to_the_record() {
    let harness = Harness::new();
    harness.put_secret("key", "p");
    let (agent, owner) = (harness.start(), harness.pod("owner", &["key"]));
    agent.pull(&owner).await;
    harness.put_secret("key", "changed");
    assert!(agent.may_use(&owner).await, "the same secret");
    harness.put_secret("copy", "changed");
    assert!(agent.may_use(&harness.pod("copy", &["copy"])).await, "its new content is recorded");
    harness.put_secret("old", "p");
    assert!(!agent.may_use(&harness.pod("old", &["old"])).await, "its former content is not");
}

// behaviour: PULL-31
#[tokio::test(start_paused = true)]
async fn policy_decides_about_images_that_the_agent_has_not_pulled() {
    let rows = [
        (Policy::NeverVerifyPreloadedImages, true, false),
        (Policy::NeverVerify, true, true),
        (Policy::NeverVerifyAllowlistedImages, false, false),
        (Policy::AlwaysVerify, false, false),
    ];
    for (policy, is_preloaded_usable, is_pulled_usable) in rows {
        let harness = Harness::with_policy(policy, &[]);
        harness.put_secret("key", "p");
        let (agent, other) = (harness.start(), harness.pod("other", &[]));
        assert_eq!(agent.may_use(&other).await, is_preloaded_usable, "{policy:?}");
        agent.pull(&harness.pod("owner", &["key"])).await;
        assert_eq!(agent.may_use(&other).await, is_pulled_usable, "{policy:?}");
    }
    let harness = Harness::with_policy(Policy::NeverVerifyAllowlistedImages, &["r.io/team/*"]);
    assert!(harness.start().may_use(&harness.pod("other", &[])).await);
}

// behaviour: PULL-32
#[tokio::test(start_paused = true)]
async fn image_pulled_anonymously_or_by_the_node_is_open_to_all() {
    for has_node_config in [false, true] {
        let harness = Harness::new();
        if has_node_config {
            let config = r#"{"auths":{"r.io":{"username":"n"}}}"#;
            harness.files.write("/var/lib/kubelet/config.json", config);
        }
        let agent = harness.start();
        agent.pull(&harness.pod("one", &[])).await;
        assert!(agent.may_use(&harness.pod("two", &[])).await);
        assert!(harness.record("pulled", REF).unwrap().contains(r#""nodePodsAccessible":true"#));
    }
}

// behaviour: PULL-31
#[tokio::test(start_paused = true)]
async fn gate_off_verifies_and_records_nothing() {
    let harness = Harness { policy: None, ..Harness::new() };
    harness.put_secret("key", "p");
    let agent = harness.start();
    assert!(!agent.access.is_verifying());
    agent.pull(&harness.pod("owner", &["key"])).await;
    assert!(agent.may_use(&harness.pod("other", &[])).await);
    assert_eq!((harness.record("pulled", REF), harness.has_intent()), (None, false));
}
