#![expect(clippy::disallowed_methods, reason = "the tests read the files of their plugins")]

use std::path::Path;

use tempfile::TempDir;

use ExecInteractiveMode::Always;
use kube::config::ExecInteractiveMode;

use super::*;

const LONG: Duration = Duration::from_mins(1);

fn exec(script: &str) -> ExecConfig {
    ExecConfig {
        api_version: Some("client.authentication.k8s.io/v1".to_owned()),
        command: Some("sh".to_owned()),
        args: Some(vec!["-c".to_owned(), script.to_owned()]),
        ..ExecConfig::default()
    }
}

/// A plugin that prints another token at each run, with this expiry.
fn counting(directory: &TempDir, end: &str) -> ExecConfig {
    let runs = directory.path().join("runs");
    exec(&format!(
        "echo x >> {runs}; printf '{{\"status\": {{\"token\": \"%s\"{end}}}}}' $(wc -l < {runs})",
        runs = runs.display()
    ))
}

fn runs(directory: &TempDir) -> usize {
    std::fs::read_to_string(directory.path().join("runs")).unwrap().lines().count()
}

async fn token(plugin: &Plugin) -> String {
    let header = plugin.header().await.unwrap().unwrap();
    header.to_str().unwrap().trim_start_matches("Bearer ").to_owned()
}

#[test]
fn token_is_replaced_before_its_expiry_and_invalid_after_it() {
    let received = Instant::now();
    let known = |lifetime: Option<u64>, is_refused| CachedToken {
        header: None,
        received,
        lifetime: lifetime.map(Duration::from_secs),
        is_refused,
    };
    let rows = [
        (None, false, 1_000_000, Use::Valid),
        (None, true, 0, Use::Invalid),
        (Some(600), false, 539, Use::Valid),
        (Some(600), false, 540, Use::Replace),
        (Some(600), false, 600, Use::Invalid),
        (Some(40), false, 19, Use::Valid),
        (Some(40), false, 20, Use::Replace),
        (Some(0), false, 0, Use::Invalid),
    ];
    for (lifetime, is_refused, after, expected) in rows {
        let found = known(lifetime, is_refused).at(received + Duration::from_secs(after));
        assert_eq!(found, expected, "{lifetime:?} {is_refused} {after}");
    }
}

// behaviour: NODE-70
#[tokio::test]
async fn plugin_runs_once_until_its_token_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (plugin, identity) = Plugin::start(counting(&directory, ""), LONG).await.unwrap();
    assert!(identity.is_none());
    let begun = Instant::now();
    assert_eq!((&*token(&plugin).await, &*token(&plugin).await), ("1", "1"));
    plugin.refused(begun);
    assert_eq!(token(&plugin).await, "2");
    plugin.refused(begun);
    assert_eq!(token(&plugin).await, "2", "the refused token is an older one");
    assert_eq!(runs(&directory), 2);
}

// behaviour: NODE-70
#[tokio::test]
async fn callers_without_a_valid_token_share_one_plugin_run() {
    let directory = tempfile::tempdir().unwrap();
    let (plugin, _) = Plugin::start(counting(&directory, ""), LONG).await.unwrap();
    plugin.refused(Instant::now());
    let tokens = futures_util::future::join_all((0..200).map(|_| token(&plugin))).await;
    assert!(tokens.iter().all(|token| token == "2"), "{tokens:?}");
    assert_eq!(runs(&directory), 2);
}

// behaviour: NODE-70
#[tokio::test]
async fn hanging_plugin_is_killed_with_its_children() {
    let directory = tempfile::tempdir().unwrap();
    let pids = directory.path().join("pids");
    let script = format!("echo $$ > {0}; sleep 600 & echo $! >> {0}; wait", pids.display());
    let mut ticks = 0;
    // If the plugin ran on the runtime's only thread, no other task would make progress.
    let ticking = async {
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            ticks += 1;
        }
    };
    let error = tokio::select! {
        opened = Plugin::start(exec(&script), Duration::from_millis(500)) => opened.unwrap_err(),
        () = ticking => unreachable!("it ticks without end"),
    };
    let expected = "credential plugin sh did not end within 500ms and was killed";
    assert_eq!(error.to_string(), expected);
    assert!(ticks > 1, "{ticks}");
    for pid in std::fs::read_to_string(&pids).unwrap().lines() {
        gone(Path::new("/proc").join(pid).as_path()).await;
    }
}

/// Waits until a process has exited, or is a zombie.
async fn gone(process: &Path) {
    let stat = process.join("stat");
    let is_alive = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
    let ending = async {
        while is_alive() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, ending).await.unwrap();
}

#[tokio::test]
async fn plugin_receives_its_settings_and_its_failures_are_errors() {
    let environment = [("name", "WHO"), ("value", "me")];
    let environment = environment.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let script = r#"case $KUBERNETES_EXEC_INFO in *'"interactive":false'*) ;; *) exit 3;; esac
        echo "status: {token: $WHO}""#;
    let config = ExecConfig { env: Some(vec![environment.into()]), ..exec(script) };
    let (plugin, _) = Plugin::start(config, LONG).await.unwrap();
    assert_eq!(token(&plugin).await, "me");
    let certificate =
        "echo '{\"status\": {\"clientCertificateData\": \"c\", \"clientKeyData\": \"k\"}}'";
    let (plugin, identity) = Plugin::start(exec(certificate), LONG).await.unwrap();
    assert_eq!(plugin.header().await.unwrap(), None);
    assert_eq!(identity.unwrap().key, "k");
    let always = ExecConfig { interactive_mode: Some(Always), ..exec("") };
    let missing = ExecConfig { command: Some("/nowhere/plugin".to_owned()), ..exec("") };
    let rows = [
        (exec("exit 4"), "credential plugin sh failed: exit status: 4"),
        (exec("echo secret"), "output of credential plugin sh: not an ExecCredential"),
        (
            always,
            "credential plugin sh: interactiveMode Always needs a terminal, which the agent does not have",
        ),
        (missing, "start credential plugin /nowhere/plugin"),
        (ExecConfig::default(), "credential plugin : users[].exec.command is missing"),
    ];
    for (exec, expected) in rows {
        let error = Plugin::start(exec, LONG).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

// behaviour: NODE-70
#[tokio::test]
async fn valid_token_is_used_while_the_plugin_hangs() {
    let directory = tempfile::tempdir().unwrap();
    let done = directory.path().join("done");
    // It prints a token once, valid for long enough, and hangs from then on.
    let script = format!(
        "[ -e {0} ] && exec sleep 600; : > {0}; echo '{{\"status\": {{\"token\": \"t\"}}}}'",
        done.display()
    );
    let (plugin, _) = Plugin::start(exec(&script), Duration::from_millis(100)).await.unwrap();
    let soon = Some(Duration::from_mins(1));
    lock(&plugin.last).as_mut().unwrap().lifetime = soon;
    lock(&plugin.last).as_mut().unwrap().received = Instant::now() - Duration::from_secs(45);
    assert_eq!(lock(&plugin.last).as_ref().unwrap().at(Instant::now()), Use::Replace);
    assert_eq!(token(&plugin).await, "t");
    lock(&plugin.last).as_mut().unwrap().lifetime = Some(Duration::ZERO);
    let error = plugin.header().await.unwrap_err();
    assert!(matches!(error, PluginError::TooSlow(..)), "{error}");
}
