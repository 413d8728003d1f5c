//! The configuration of credential providers at the start.

use images::{ProviderSettings, ProvidersError, read_providers};
use model::chain::Chain;
use testkit::files::MemoryFiles;

fn config(name: &str) -> String {
    format!(
        "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n\
         - {{name: {name}, matchImages: [r.io], defaultCacheDuration: 1m, \
         apiVersion: credentialprovider.kubelet.k8s.io/v1}}\n"
    )
}

async fn read(
    files: &MemoryFiles,
    config: &str,
    bin_dir: &str,
) -> Result<Option<ProviderSettings>, ProvidersError> {
    read_providers(files, [config.as_ref(), bin_dir.as_ref()], true).await
}

// behaviour: PULL-40
#[tokio::test(start_paused = true)]
async fn files_of_a_directory_are_merged() {
    let files = MemoryFiles::new();
    files.write("/c/b.yaml", config("two"));
    files.write("/c/a.yml", config("one"));
    files.write("/c/c.json", config("three"));
    files.write("/c/readme.txt", "no configuration");
    for name in ["one", "two", "three"] {
        files.write(format!("/bin/{name}"), "");
    }
    assert!(read(&files, "/c", "/bin").await.unwrap().is_some());
    assert!(read(&files, "/c/a.yml", "/bin").await.unwrap().is_some());
    assert_eq!(read(&files, "", "").await.unwrap(), None);
    files.write("/c/d.yaml", config("two"));
    let error = read(&files, "/c", "/bin").await.unwrap_err().to_string();
    assert!(error.contains("\"two\" is used twice"), "{error}");
}

// behaviour: PULL-40
#[tokio::test(start_paused = true)]
async fn start_fails_with_the_file_and_the_problem() {
    let files = MemoryFiles::new();
    files.write("/c.yaml", config("one"));
    files.write("/pod.yaml", "kind: Pod\n");
    files.write("/empty/readme.txt", "");
    files.write("/bin/other", "");
    files.write("/file", "");
    files.write("/odd/one/x", "");
    let rows = [
        ("", "/bin", "must be set together"),
        ("/c.yaml", "", "must be set together"),
        ("/gone.yaml", "/bin", "credential provider configuration: stat /gone.yaml: "),
        ("/empty", "/bin", "/empty: no .json, .yaml or .yml file"),
        ("/pod.yaml", "/bin", "/pod.yaml: apiVersion must be"),
        ("/c.yaml", "/nowhere", "credential provider program: stat /nowhere: "),
        ("/c.yaml", "/file", "credential provider program /file: it is not a directory"),
        ("/c.yaml", "/bin", "credential provider program: stat /bin/one: "),
        ("/c.yaml", "/odd", "credential provider program /odd/one: it is not a file"),
    ];
    for (config, bin_dir, expected) in rows {
        let error = read(&files, config, bin_dir).await.unwrap_err();
        let text = Chain(&error).to_string();
        assert!(text.contains(expected), "{text}");
    }
}
