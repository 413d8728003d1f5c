//! The credentials that are tried for an image, compared with upstream's keyring. A small Go program of the testbed
//! calls it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use images::decide::docker_config::parse_config_json;
use images::decide::keyring::Keyring;
use model::image_access::CredentialSource;
use serde::Deserialize;
use serde_json::{Value, json};
use testbed::Cache;

/// Registries of configurations, as users write them.
const REGISTRIES: [&str; 48] = [
    "r.io",
    "https://r.io",
    "http://r.io",
    "https://r.io/",
    "https://r.io/v1/",
    "https://r.io/v2/",
    "https://r.io/v1",
    "https://r.io/v2/team/",
    "https://r.io/v3/",
    "r.io/team",
    "r.io/team/",
    "r.io/team/app",
    "r.io/te",
    "r.io:5000",
    "https://r.io:5000/v1/",
    "r.io:*",
    "*",
    "*.io",
    "*.r.io",
    "*.*.r.io",
    "x*.r.io",
    "x*z.r.io",
    "x.*.io",
    "?.r.io",
    "[xy].r.io",
    "[x.r.io",
    "x.r.io",
    "x.r.io/team*",
    "*.r.io/team",
    "*.r.io:5000/team",
    "docker.io",
    "https://docker.io/v1/",
    "index.docker.io",
    "https://index.docker.io/v1/",
    "index.docker.io/library",
    "registry-1.docker.io",
    "localhost",
    "localhost:5000",
    "127.0.0.1:5000",
    "[::1]:5000",
    "user@r.io",
    "https://user:pass@r.io/team",
    "https://r.io/team?a=b#c",
    "ftp://r.io",
    "r.io:port",
    "R.io",
    "",
    "https://",
];

/// Images without tags, as they are looked up.
const IMAGES: [&str; 34] = [
    "r.io/app",
    "r.io/team/app",
    "r.io/team/app/deep",
    "r.io/teams/app",
    "r.io/v2/team/app",
    "r.io",
    "r.io:5000/app",
    "r.io:5000/team/app",
    "r.io:5001/app",
    "x.r.io/app",
    "x.r.io/team/app",
    "x.r.io/teams",
    "x.r.io:5000/team/app",
    "xyz.r.io/app",
    "y.r.io/app",
    "a.b.r.io/app",
    "x.y.io/app",
    "io/app",
    "other.io/app",
    "docker.io/library/busybox",
    "index.docker.io/library/busybox",
    "registry-1.docker.io/library/busybox",
    "busybox",
    "team/busybox",
    "localhost/app",
    "localhost:5000/app",
    "127.0.0.1:5000/app",
    "[::1]:5000/app",
    "R.io/app",
    "r.io/Team/app",
    "",
    "/",
    "/app",
    "r.io//app",
];

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Login {
    username: String,
    password: String,
    email: String,
}

/// The credentials for each image, or that the configuration is invalid.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Answer {
    valid: bool,
    found: Option<Vec<Vec<Login>>>,
}

fn upstream(configs: &[String]) -> Result<Vec<Answer>> {
    let program = Cache::from_env()?.parts().program("pull-keyring");
    let mut child = Command::new(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // It logs each entry that is not for a registry.
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("start {}: run `make testbed`", program.display()))?;
    let question = json!({ "configs": configs, "images": IMAGES.as_slice() }).to_string();
    // The program reads everything before it writes.
    child.stdin.take().context("a pipe")?.write_all(question.as_bytes())?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{} failed", program.display());
    serde_json::from_slice(&output.stdout).context("the answers")
}

fn ours(config: &str) -> Answer {
    let Ok(config) = parse_config_json(config.as_bytes()) else {
        return Answer { valid: false, found: None };
    };
    let mut keyring = Keyring::default();
    keyring.add(config, &CredentialSource::Node);
    let logins = |image: &&str| {
        let found = keyring.lookup(image).into_iter().map(|credential| credential.auth);
        found
            .map(|auth| Login {
                username: auth.username,
                password: auth.password,
                email: auth.email,
            })
            .collect()
    };
    Answer { valid: true, found: Some(IMAGES.iter().map(logins).collect()) }
}

fn config(registries: &[&str]) -> String {
    let auths = registries.iter().map(|registry| {
        let login = json!({ "username": registry, "password": "secret", "email": "me@r.io" });
        ((*registry).to_owned(), login)
    });
    json!({ "auths": auths.collect::<serde_json::Map<String, Value>>() }).to_string()
}

fn compare(configs: &[String]) {
    let answers = upstream(configs).unwrap();
    assert_eq!(answers.len(), configs.len());
    for (config, upstreams) in configs.iter().zip(answers) {
        let ours = ours(config);
        assert_eq!(ours.valid, upstreams.valid, "{config}");
        for (at, image) in IMAGES.iter().enumerate() {
            let of =
                |answer: &Answer| format!("{:?}", answer.found.as_ref().map(|found| &found[at]));
            assert_eq!(of(&ours), of(&upstreams), "image {image:?} with {config}");
        }
    }
}

// behaviour: PULL-21
// behaviour: PULL-22
// behaviour: PULL-23
#[test]
fn credentials_of_an_image_equal_upstreams() {
    let single = REGISTRIES.iter().map(|registry| config(&[registry]));
    let pairs = REGISTRIES
        .iter()
        .enumerate()
        .flat_map(|(at, one)| REGISTRIES[at + 1..].iter().map(move |other| config(&[one, other])));
    let all = std::iter::once(config(&REGISTRIES));
    compare(&single.chain(pairs).chain(all).collect::<Vec<_>>());
}

// behaviour: PULL-20
#[test]
fn docker_configurations_are_read_as_by_upstream() {
    let auth = |text: &str| format!(r#"{{"auths": {{"r.io": {{"auth": "{text}"}}}}}}"#);
    let login = |fields: &str| format!(r#"{{"auths": {{"r.io": {{{fields}}}}}}}"#);
    let mut configs: Vec<String> =
        ["", "{", "{}", "null", "[]", "1", r#"{"auths": null}"#].map(ToOwned::to_owned).to_vec();
    configs.extend(
        [
            r#"{"auths": []}"#,
            r#"{"auths": {"r.io": null}}"#,
            r#"{"auths": {"r.io": []}}"#,
            r#"{"AUTHS": {"r.io": {"Username": "a", "PASSWORD": "b"}}}"#,
            r#"{"auths": {"r.io": {"username": "a"}}, "credHelpers": {"r.io": "helper"}}"#,
            r#"{"auths": {}, "HttpHeaders": {"a": "b"}} trailing"#,
        ]
        .map(ToOwned::to_owned),
    );
    configs.extend(
        [
            r#""username": "a", "password": "b""#,
            r#""username": null"#,
            r#""username": 1"#,
            r#""username": "a", "username": "b""#,
            r#""password": true"#,
            r#""email": "e""#,
            r#""email": []"#,
            r#""auth": null"#,
            r#""auth": 1"#,
            r#""identitytoken": "t""#,
            r#""username": "ü\u0000""#,
        ]
        .map(login),
    );
    configs.push(login(&format!(
        r#""username": "a", "password": "b", "auth": "{}""#,
        STANDARD.encode("c:d")
    )));
    for plain in ["a:b", "a:b:c", ":b", "a:", ":", "ab", "", "ä:ö", "a:b\0\0", "\0a:b", "a:b\n"] {
        configs.push(auth(&STANDARD.encode(plain)));
        configs.push(auth(STANDARD.encode(plain).trim_end_matches('=')));
    }
    for broken in ["=", "!!!!", "YTpi=", "YTpi YTpi", "YTpi\\nYTpi", "YTp", "YTpiYQ=", "YTo_Yi8-"] {
        configs.push(auth(broken));
    }
    compare(&configs);
}
