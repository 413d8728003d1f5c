//! Each kind of fault: what the agent receives, and what the runtime does.

use std::time::Duration;

use proto::runtime_v1 as cri;
use tokio::time::timeout;
use tonic::{Code, Request};

use crate::pair::{LONG, Pair, sandbox, version};

/// The agent's deadline.
const BRIEFLY: Duration = Duration::from_millis(300);

async fn sandboxes(pair: &Pair) -> usize {
    let list = pair.client().list_pod_sandbox(cri::ListPodSandboxRequest::default()).await;
    list.unwrap().into_inner().items.len()
}

#[tokio::test]
async fn refused_call_has_its_code_and_is_not_forwarded() {
    let rows = [
        ("unavailable", Code::Unavailable),
        ("not-found", Code::NotFound),
        ("deadline", Code::DeadlineExceeded),
    ];
    for (kind, code) in rows {
        let pair = Pair::start(&[&format!("Version={kind} skip=1 times=2")]);
        let mut client = pair.client();
        client.version(version()).await.unwrap();
        for _ in 0..2 {
            let failed = client.version(version()).await.unwrap_err();
            assert_eq!(failed.code(), code, "{failed}");
            assert_eq!(failed.message(), "cri-proxy injected a failure of Version");
        }
        assert_eq!(pair.runtime_calls("Version"), 1, "{kind}");
        client.version(version()).await.unwrap();
        assert_eq!(pair.proxy.script().counts()["Version"].spoilt, 2);
    }
}

#[tokio::test]
async fn refusal_can_be_delayed() {
    let pair = Pair::start(&["Version=deadline after=500ms"]);
    let begun = tokio::time::Instant::now();
    pair.client().version(version()).await.unwrap_err();
    assert!(begun.elapsed() >= Duration::from_millis(500));
}

#[tokio::test]
async fn hung_call_delays_no_other_and_is_forwarded_when_faults_are_cleared() {
    let pair = Pair::start(&["RunPodSandbox=hang times=2"]);
    let mut client = pair.client();
    timeout(BRIEFLY, client.run_pod_sandbox(sandbox("given-up"))).await.unwrap_err();
    let mut patient = pair.client();
    let waiting = patient.run_pod_sandbox(sandbox("waited-for"));
    let clearing = async {
        let both = |pair: &Pair| pair.proxy.script().counts()["RunPodSandbox"].spoilt == 2;
        pair.until("both hang", both).await;
        client.version(version()).await.unwrap();
        assert_eq!(pair.runtime_calls("RunPodSandbox"), 0);
        pair.proxy.script().clear();
    };
    let (answer, ()) = timeout(LONG, async { tokio::join!(waiting, clearing) }).await.unwrap();
    answer.unwrap();
    assert_eq!(sandboxes(&pair).await, 1, "the cancelled call was never forwarded");
    assert_eq!(pair.runtime_calls("RunPodSandbox"), 1);
}

#[tokio::test]
async fn late_call_is_forwarded_although_its_caller_is_gone() {
    let pair = Pair::start(&["RunPodSandbox=late"]);
    // Longer than the agent waits, and than its deadline.
    pair.hollow.gate().delay(&testkit::hollow::Delay::parse("RunPodSandbox=1s").unwrap());
    {
        let mut client = pair.client();
        let mut request = Request::new(sandbox("web"));
        request.set_timeout(BRIEFLY);
        client.run_pod_sandbox(request).await.unwrap_err();
        pair.until("it is forwarded", |pair| pair.runtime_calls("RunPodSandbox") == 1).await;
        assert_eq!(pair.proxy.script().late(), 1);
        // Its connection is closed with it.
    }
    pair.until("the late call is done", |pair| pair.proxy.script().late() == 0).await;
    assert_eq!(sandboxes(&pair).await, 1);
    assert!(pair.proxy.script().faults().is_empty());
}

#[tokio::test]
async fn late_call_is_answered_when_faults_are_cleared() {
    let pair = Pair::start(&["RunPodSandbox=late after=500ms"]);
    let begun = tokio::time::Instant::now();
    let mut client = pair.client();
    let waiting = client.run_pod_sandbox(sandbox("web"));
    let clearing = async {
        let requested = |pair: &Pair| pair.proxy.script().late() == 1;
        pair.until("it arrived", requested).await;
        pair.until("it is done", |pair| pair.proxy.script().late() == 0).await;
        pair.proxy.script().clear();
    };
    let (answer, ()) = timeout(LONG, async { tokio::join!(waiting, clearing) }).await.unwrap();
    assert_eq!(answer.unwrap_err().code(), Code::Unavailable);
    assert!(begun.elapsed() >= Duration::from_millis(500));
    assert_eq!(sandboxes(&pair).await, 1);
}
