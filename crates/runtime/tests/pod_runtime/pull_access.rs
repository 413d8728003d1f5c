//! Which pods may use which images, and with which credentials images are pulled.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use model::image_access::{
    AccessObject, CredentialSource, PullCredential, PullCredentials, RegistryAuth,
};
use model::ports::files::FileError;
use model::ports::image_access::{CredentialsError, ImageAccess, PresentImage};
use model::ports::runtime::Code;
use podspec::view;
use runtime::SyncError;
use runtime::decide::PullSettings;
use testkit::pods;
use testkit::runtime::{Fault, Method, RemoteImage, Rule};
use tokio_util::sync::CancellationToken;

use crate::harness::{Harness, seconds};

const FAR: &str = "ferrolet.test/far:1";

/// Image access with scripted responses, which records its calls.
#[derive(Debug, Default)]
struct ScriptedAccess {
    /// Pods must prove their access to present images.
    must_pull: bool,
    /// The check of a present image returns the credentials that it looked up.
    returns_credentials: bool,
    /// Messages do not mention access.
    is_off: bool,
    /// The names of the secrets of every pod. Their content is that of the first letter.
    secrets: Vec<&'static str>,
    fails: Option<Step>,
    calls: Mutex<Vec<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Check,
    Credentials,
    Begin,
}

impl ScriptedAccess {
    fn note(&self, call: String) {
        self.calls.lock().unwrap().push(call);
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }

    fn refuses(&self, step: Step) -> Result<(), CredentialsError> {
        let error = || CredentialsError("secret default/a: invalid JSON".to_owned());
        if self.fails == Some(step) { Err(error()) } else { Ok(()) }
    }

    fn credentials(&self) -> PullCredentials {
        self.secrets.iter().map(|name| credential(name)).collect()
    }
}

fn credential(secret: &str) -> PullCredential {
    let (namespace, name, uid) = ("default".to_owned(), secret.to_owned(), secret.to_owned());
    let password = secret.chars().take(1).collect();
    PullCredential {
        auth: RegistryAuth { password, ..RegistryAuth::default() },
        source: CredentialSource::Secret(AccessObject { namespace, name, uid }),
    }
}

#[async_trait]
impl ImageAccess for ScriptedAccess {
    fn is_verifying(&self) -> bool {
        !self.is_off
    }

    async fn check_present(
        &self,
        _: &Pod,
        image: &str,
        _: &str,
    ) -> Result<PresentImage, CredentialsError> {
        self.note(format!("check {image}"));
        self.refuses(Step::Check)?;
        let credentials = self.returns_credentials.then(|| self.credentials());
        Ok(if self.must_pull {
            PresentImage::MustPull { credentials }
        } else {
            PresentImage::Allowed
        })
    }

    async fn credentials(&self, pod: &Pod, _: &str) -> Result<PullCredentials, CredentialsError> {
        self.note("credentials".to_owned());
        self.refuses(Step::Credentials)?;
        // Each pod has its own secrets, with the same content.
        let name = view::pod_name(pod).name.to_string();
        let own = |secret: &PullCredential| {
            let mut own = secret.clone();
            if let CredentialSource::Secret(object) = &mut own.source {
                object.name = format!("{}-{name}", object.name);
            }
            own
        };
        Ok(self.credentials().iter().map(own).collect())
    }

    async fn pull_begins(&self, _: &str) -> Result<(), FileError> {
        self.note("begins".to_owned());
        if self.fails != Some(Step::Begin) {
            return Ok(());
        }
        let source = std::io::Error::from_raw_os_error(28);
        Err(FileError { operation: "write", path: "/records/intent".into(), source })
    }

    async fn pull_succeeded(&self, _: &str, image_ref: &str, with: Option<&PullCredential>) {
        assert!(image_ref.starts_with("sha256:"), "{image_ref}");
        let with = match with.map(|credential| &credential.source) {
            Some(CredentialSource::Secret(secret)) => secret.name.as_str(),
            _ => "nothing",
        };
        self.note(format!("succeeded with {with}"));
    }

    async fn pull_failed(&self, _: &str) {
        self.note("failed".to_owned());
    }
}

fn harness(access: ScriptedAccess) -> (Harness, Arc<ScriptedAccess>) {
    let access = Arc::new(access);
    let harness = Harness::with_access(PullSettings::default(), Arc::clone(&access) as _);
    harness.runtime.publish(RemoteImage::new(FAR).pull_takes(seconds(2)));
    (harness, access)
}

fn pod(name: &str, policy: &str) -> Pod {
    let mut pod = pods::pod(name).container("main", FAR, ["sleep", "forever"]).build();
    pod.spec.as_mut().unwrap().containers[0].image_pull_policy = Some(policy.to_owned());
    pod
}

/// Reason and message of the container that waits.
async fn failure(harness: &Harness, pod: &Pod) -> (&'static str, String) {
    let (_, error) = harness.failed(pod).await;
    let SyncError::StartContainers(failed) = error else { panic!("{error}") };
    (failed[0].1.label(), failed[0].1.message())
}

// behaviour: PULL-2
#[tokio::test(start_paused = true)]
async fn access_is_checked_before_a_present_image_is_used() {
    let (harness, access) = harness(ScriptedAccess::default());
    harness.runtime.add_image(&RemoteImage::new(FAR));
    harness.synced(&pod("a", "IfNotPresent")).await;
    assert_eq!(access.calls(), [format!("check {FAR}")], "no credentials are looked up");
    let text = "already present on machine and can be accessed by the pod";
    assert_eq!(harness.last_message("Pulled"), format!("Container image {FAR:?} {text}"));
    let (harness, _) = self::harness(ScriptedAccess { is_off: true, ..ScriptedAccess::default() });
    harness.runtime.add_image(&RemoteImage::new(FAR));
    harness.synced(&pod("a", "Never")).await;
    let text = format!("Container image {FAR:?} already present on machine");
    assert_eq!(harness.last_message("Pulled"), text);
}

// behaviour: PULL-2
#[tokio::test(start_paused = true)]
async fn pod_that_must_prove_its_access_pulls_a_present_image() {
    for returns_credentials in [false, true] {
        let secrets = vec!["a"];
        let access =
            ScriptedAccess { must_pull: true, returns_credentials, secrets, ..<_>::default() };
        let (harness, access) = harness(access);
        harness.runtime.add_image(&RemoteImage::new(FAR));
        harness.synced(&pod("one", "IfNotPresent")).await;
        let check = format!("check {FAR}");
        let expected: &[&str] = if returns_credentials {
            &[&check, "begins", "succeeded with a"]
        } else {
            &[&check, "credentials", "begins", "succeeded with a-one"]
        };
        assert_eq!(access.calls(), expected, "credentials are looked up once");
        assert_eq!(harness.runtime.count(Method::PullImage), 1);
    }
}

// behaviour: PULL-2
#[tokio::test(start_paused = true)]
async fn policy_never_does_not_reveal_that_an_image_is_present() {
    let (harness, access) =
        harness(ScriptedAccess { must_pull: true, ..ScriptedAccess::default() });
    let absent = failure(&harness, &pod("a", "Never")).await;
    let event = harness.last_message("ErrImageNeverPull");
    harness.runtime.add_image(&RemoteImage::new(FAR));
    assert_eq!(failure(&harness, &pod("b", "Never")).await, absent);
    assert_eq!((absent.0, harness.last_message("ErrImageNeverPull")), ("ErrImageNeverPull", event));
    assert_eq!(access.calls(), [format!("check {FAR}")], "no pull begins");
}

// behaviour: PULL-7
#[tokio::test(start_paused = true)]
async fn credentials_are_tried_in_order_until_one_succeeds() {
    let secrets = vec!["a", "b"];
    let (harness, access) = harness(ScriptedAccess { secrets, ..ScriptedAccess::default() });
    let refused = Rule::on(Method::PullImage, Fault::error(Code::Unauthenticated));
    harness.runtime.inject(refused.clone().times(2));
    let pod = pod("one", "IfNotPresent");
    let (reason, message) = failure(&harness, &pod).await;
    let text = "rpc error: code = Unauthenticated desc = injected by a test";
    assert_eq!((reason, message.as_str()), ("ErrImagePull", text), "equal errors are one");
    assert_eq!(harness.runtime.count(Method::PullImage), 2, "there is no anonymous attempt");
    tokio::time::sleep(seconds(10)).await;
    harness.runtime.inject(refused.once());
    harness.runtime.inject(Rule::on(Method::PullImage, Fault::error(Code::Unknown)).once());
    let (_, message) = failure(&harness, &pod).await;
    assert_eq!(message, format!("[{text}, injected by a test]"));
    access.calls();
    tokio::time::sleep(seconds(20)).await;
    harness.runtime.inject(Rule::on(Method::PullImage, Fault::error(Code::Unknown)).once());
    harness.synced(&pod).await;
    assert_eq!(access.calls(), ["credentials", "begins", "succeeded with b-one"]);
    let pulls = harness.incidents.lines();
    let text = format!(
        "pull {FAR} image-absent: container main, credential secret default/b-one, took 2s, size 1000000"
    );
    assert_eq!(pulls, [text]);
}

// behaviour: PULL-2
#[tokio::test(start_paused = true)]
async fn pull_intent_is_recorded_before_the_back_off_and_removed_after_a_failure() {
    let (harness, access) = harness(ScriptedAccess::default());
    harness.runtime.unpublish(FAR);
    let pod = pod("a", "IfNotPresent");
    for reason in ["ErrImagePull", "ImagePullBackOff"] {
        assert_eq!(failure(&harness, &pod).await.0, reason);
        assert_eq!(access.calls(), ["credentials", "begins", "failed"], "{reason}");
    }
}

// behaviour: PULL-11
#[tokio::test(start_paused = true)]
async fn intent_is_removed_when_the_pod_ends_during_its_pull() {
    let (harness, access) = harness(ScriptedAccess::default());
    harness.runtime.inject(Rule::on(Method::PullImage, Fault::hang()));
    let (pod, cancel) = (pod("a", "IfNotPresent"), CancellationToken::new());
    let cancelled = async {
        tokio::time::sleep(seconds(5)).await;
        cancel.cancel();
    };
    let (synced, ()) = tokio::join!(harness.first_sync(&pod, &cancel), cancelled);
    assert!(synced.is_err());
    assert_eq!(access.calls(), ["credentials", "begins", "failed"]);
}

// behaviour: PULL-10
#[tokio::test(start_paused = true)]
async fn each_pod_of_a_shared_pull_records_its_own_secret() {
    let secrets = vec!["a"];
    let (harness, access) = harness(ScriptedAccess { secrets, ..ScriptedAccess::default() });
    let pods = ["one", "two"].map(|name| pod(name, "IfNotPresent"));
    let cancel = CancellationToken::new();
    let [one, two] = &pods;
    let (one, two) =
        tokio::join!(harness.first_sync(one, &cancel), harness.first_sync(two, &cancel));
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(harness.runtime.count(Method::PullImage), 1);
    let mut calls = access.calls();
    calls.sort();
    let each = |call: &str| [call.to_owned(), call.to_owned()];
    let succeeded = ["succeeded with a-one", "succeeded with a-two"].map(str::to_owned);
    assert_eq!(calls, [each("begins"), each("credentials"), succeeded].concat());
}

// behaviour: PULL-2
#[tokio::test(start_paused = true)]
async fn failure_of_the_access_check_is_shown_and_nothing_is_pulled() {
    let secret = "secret default/a: invalid JSON";
    let record = format!(
        "Failed to record image pull intent for container image {FAR:?}: \
         write /records/intent: no space left on device"
    );
    for (step, text) in [(Step::Check, secret), (Step::Credentials, secret), (Step::Begin, &record)]
    {
        let (harness, _) =
            harness(ScriptedAccess { fails: Some(step), ..ScriptedAccess::default() });
        if step == Step::Check {
            harness.runtime.add_image(&RemoteImage::new(FAR));
        }
        let shown = failure(&harness, &pod("a", "IfNotPresent")).await;
        assert_eq!(shown, ("ErrImagePull", text.to_owned()), "{step:?}");
        let mut events = harness.events.reasons();
        events.retain(|reason| reason != "MissingClusterDNS");
        assert_eq!(events, ["Failed", "Failed"], "{step:?}");
        assert_eq!(harness.runtime.count(Method::PullImage), 0, "{step:?}");
    }
}
