#![expect(clippy::disallowed_methods, reason = "real certificate files")]

use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;

use config::flags::FlagSet;
use testkit::logged::Logged;

use super::*;

/// A configuration by flags, with an address and a port that are free.
fn configured(flags: &[&str]) -> KubeletConfiguration {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = format!("--port={}", free.local_addr().unwrap().port());
    let all = ["--address=127.0.0.1", "--read-only-port=0", &port];
    let flags = FlagSet::parse([&all[..], flags].concat()).unwrap();
    config::load_sources(None, None, &flags).unwrap().config
}

const WEBHOOK: [&str; 3] = [
    "--anonymous-auth=false",
    "--authentication-token-webhook=true",
    "--authorization-mode=Webhook",
];

async fn open(config: &KubeletConfiguration, in_cluster: bool) -> Result<Option<NodeApiPorts>> {
    let own = FerroletConfiguration::default();
    let options = NodeApiOptions {
        config,
        own: &own,
        node: "node-1",
        in_cluster,
        generates_certificate: true,
        issued_certificate: None,
        root_dir: Path::new("/"),
        flags: &[],
    };
    NodeApiPorts::open(options).await
}

fn with_certificates(mut config: KubeletConfiguration, directory: &Path) -> KubeletConfiguration {
    config.settle_server_certificate(directory);
    config
}

// behaviour: SRV-13
#[tokio::test]
async fn certificate_is_generated_once() {
    let directory = tempfile::tempdir().unwrap();
    let pki = directory.path().join("pki");
    let config = with_certificates(configured(&WEBHOOK), &pki);
    let ports = open(&config, true).await.unwrap().unwrap();
    assert!(ports.secure.is_some() && ports.read_only.is_none());
    drop(ports);
    let read = |name: &str| std::fs::read_to_string(pki.join(name)).unwrap();
    let mode = |name: &str| std::fs::metadata(pki.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("kubelet.crt"), mode("kubelet.key")), (0o644, 0o600));
    let first = (read("kubelet.crt"), read("kubelet.key"));
    open(&config, true).await.unwrap().unwrap();
    assert_eq!((read("kubelet.crt"), read("kubelet.key")), first);
}

// behaviour: SRV-18
#[tokio::test]
async fn taken_port_aborts_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let config = with_certificates(configured(&WEBHOOK), directory.path());
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, config.port)).unwrap();
    let error = open(&config, true).await.unwrap_err();
    let expected = format!("listen on 127.0.0.1 port {} (port)", config.port);
    assert_eq!(error.to_string(), expected);
    let mut config = configured(&["--enable-server=false"]);
    config.read_only_port = taken.local_addr().unwrap().port();
    assert!(open(&config, false).await.is_err());
}

// behaviour: SRV-19
#[tokio::test]
async fn port_stays_closed_when_a_webhook_has_no_api_server() {
    let logged = Logged::new();
    let directory = tempfile::tempdir().unwrap();
    for webhook in ["--authentication-token-webhook=true", "--authorization-mode=Webhook"] {
        let config = with_certificates(configured(&[webhook]), directory.path());
        assert!(open(&config, false).await.unwrap().is_none(), "{webhook}");
    }
    let closed = |line: &&String| line.contains("Not opening the port");
    assert_eq!(logged.warnings().iter().filter(closed).count(), 2);
    let config = with_certificates(configured(&[]), directory.path());
    assert!(open(&config, false).await.unwrap().is_some(), "anonymous, all allowed");
    let config = configured(&["--anonymous-auth=false"]);
    let error = open(&config, true).await.unwrap_err();
    assert!(error.to_string().contains("no authentication method configured"), "{error}");
    let config = configured(&["--tls-cert-file=/cert"]);
    assert!(open(&config, true).await.is_err(), "a certificate without its key");
    let config = configured(&["--anonymous-auth=false", "--enable-server=false"]);
    assert!(open(&config, true).await.unwrap().is_none());
}

// behaviour: SRV-7
#[tokio::test]
async fn reviews_run_on_the_runtime_of_the_agent() {
    #[derive(Debug)]
    struct Here(thread::ThreadId);

    #[async_trait]
    impl Reviews for Here {
        async fn token_owner(&self, token: &str) -> Result<Option<User>, ApiError> {
            assert_eq!(thread::current().id(), self.0);
            Ok(Some(User { name: token.to_owned(), ..User::default() }))
        }

        async fn is_allowed(&self, _: &User, _: &AccessRequest) -> Result<bool, ApiError> {
            assert_eq!(thread::current().id(), self.0);
            Ok(true)
        }
    }

    let inner = Arc::new(Here(thread::current().id()));
    let reviews = AgentReviews { agent: Handle::current(), inner };
    let (sender, receiver) = oneshot::channel();
    on_own_thread(move || async move {
        let owner = reviews.token_owner("t").await.unwrap().unwrap();
        let allowed = reviews.is_allowed(&owner, &AccessRequest::Path(String::new())).await;
        sender.send((owner.name, allowed.unwrap())).unwrap();
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(receiver.await.unwrap(), ("t".to_owned(), true));
}
