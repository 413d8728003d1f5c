use super::*;

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n";

fn with_provider(fields: &str) -> String {
    format!("{HEAD}providers:\n- {{{fields}}}\n")
}

const GOOD: &str = "name: ecr, matchImages: ['*.dkr.ecr.*.amazonaws.com'], defaultCacheDuration: 12h, \
    apiVersion: credentialprovider.kubelet.k8s.io/v1";

// behaviour: PULL-40
#[test]
fn every_version_of_the_configuration_is_read() {
    for version in ["v1", "v1beta1", "v1alpha1"] {
        let fields = format!("{GOOD}, args: [get], env: [{{name: A, value: hidden}}]");
        let text =
            with_provider(&fields).replace("k8s.io/v1\nkind", &format!("k8s.io/{version}\nkind"));
        let providers = parse_providers(&text).unwrap();
        let [provider] = providers.as_slice() else { panic!("{providers:?}") };
        assert_eq!((&*provider.name, &provider.args[..]), ("ecr", &["get".to_owned()][..]));
        assert_eq!(provider.default_cache_duration(), Duration::from_hours(12));
        assert_eq!(problems(&providers, false), [""; 0]);
        assert!(!format!("{provider:?}").contains("hidden"));
    }
    let json = r#"{"apiVersion":"kubelet.config.k8s.io/v1","kind":"CredentialProviderConfig"}"#;
    assert_eq!(parse_providers(json), Ok(Vec::new()));
}

// behaviour: PULL-40
#[test]
fn other_documents_are_refused() {
    let rows = [
        ("apiVersion: v1\nkind: Pod\n".to_owned(), "found apiVersion \"v1\" and kind \"Pod\""),
        (HEAD.replace("k8s.io/v1", "k8s.io/v2"), "found apiVersion \"kubelet.config.k8s.io/v2\""),
        (format!("{HEAD}provider: []\n"), "provider"),
        (with_provider(&format!("{GOOD}, match: []")), "match"),
        (with_provider("defaultCacheDuration: soon"), "soon"),
        ("{".to_owned(), ""),
    ];
    for (text, expected) in rows {
        let error = parse_providers(&text).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

const GOOD_TOKEN: &str =
    "serviceAccountTokenAudience: a, requireServiceAccount: true, cacheType: Token";

fn token(attributes: &str) -> String {
    format!("{GOOD}, tokenAttributes: {{{attributes}}}")
}

fn problems_of(fields: &str) -> Vec<String> {
    problems(&parse_providers(&with_provider(fields)).unwrap(), true)
}

fn with_index(expected: &[&str]) -> Vec<String> {
    expected.iter().map(|text| format!("providers[0].{text}")).collect()
}

// behaviour: PULL-40
#[test]
fn every_problem_of_a_provider_is_named() {
    let rows: [(String, &[&str]); 10] = [
        (GOOD.to_owned(), &[]),
        (GOOD.replace("12h", "0s"), &[]),
        (GOOD.replace("ecr,", "a/b,"), &["name: must not contain '/'"]),
        (GOOD.replace("ecr,", "a b,"), &["name: must not contain spaces"]),
        (GOOD.replace("ecr,", "..,"), &["name: must not be '.' or '..'"]),
        (GOOD.replace("name: ecr,", ""), &["name: is required"]),
        (GOOD.replace("12h", "-1s"), &["defaultCacheDuration: must not be negative"]),
        (
            GOOD.replace("'*.dkr.ecr.*.amazonaws.com'", "'r .io'"),
            &["matchImages: \"r .io\" is not a host with an optional path"],
        ),
        (
            GOOD.replace("io/v1", "io/v9"),
            &["apiVersion: \"credentialprovider.kubelet.k8s.io/v9\" is not one of \
             credentialprovider.kubelet.k8s.io/v1, credentialprovider.kubelet.k8s.io/v1beta1, \
             credentialprovider.kubelet.k8s.io/v1alpha1"],
        ),
        (
            "name: a".to_owned(),
            &[
                "apiVersion: \"\" is not one of credentialprovider.kubelet.k8s.io/v1, \
             credentialprovider.kubelet.k8s.io/v1beta1, credentialprovider.kubelet.k8s.io/v1alpha1",
                "matchImages: at least 1 is required",
                "defaultCacheDuration: is required",
            ],
        ),
    ];
    for (fields, expected) in rows {
        assert_eq!(problems_of(&fields), with_index(expected), "{fields}");
    }
    assert_eq!(problems(&[], true), ["providers: at least 1 is required"]);
    let providers = parse_providers(&with_provider(GOOD)).unwrap();
    let twice = [providers.clone(), providers].concat();
    assert_eq!(problems(&twice, true), ["providers[1].name: \"ecr\" is used twice"]);
}

// behaviour: PULL-40
#[test]
fn every_problem_of_token_attributes_is_named() {
    let rows: [(String, &[&str]); 5] = [
        (token(GOOD_TOKEN), &[]),
        (
            token("cacheType: Pod"),
            &[
                "tokenAttributes.serviceAccountTokenAudience: is required",
                "tokenAttributes.requireServiceAccount: is required",
                "tokenAttributes.cacheType: must be ServiceAccount or Token",
            ],
        ),
        (
            token(GOOD_TOKEN).replace("io/v1", "io/v1beta1"),
            &["tokenAttributes: needs apiVersion credentialprovider.kubelet.k8s.io/v1"],
        ),
        (
            token(&format!(
                "{GOOD_TOKEN}, requiredServiceAccountAnnotationKeys: [a.io/b, UPPER], \
                 optionalServiceAccountAnnotationKeys: [a.io/b, -x, A.io/c]"
            )),
            &[
                "tokenAttributes.optionalServiceAccountAnnotationKeys: \"a.io/b\" is there twice",
                "tokenAttributes.optionalServiceAccountAnnotationKeys: \"-x\" is not the key of an annotation",
                "tokenAttributes.optionalServiceAccountAnnotationKeys: \"A.io/c\" is not the key of an annotation",
            ],
        ),
        (
            token(&format!("{GOOD_TOKEN}, requiredServiceAccountAnnotationKeys: [a]"))
                .replace("true", "false"),
            &[
                "tokenAttributes.requiredServiceAccountAnnotationKeys: needs requireServiceAccount true",
            ],
        ),
    ];
    for (fields, expected) in rows {
        assert_eq!(problems_of(&fields), with_index(expected), "{fields}");
    }
    let providers = parse_providers(&with_provider(&token(GOOD_TOKEN))).unwrap();
    let gate = "KubeletServiceAccountTokenForCredentialProviders";
    let expected = format!("providers[0].tokenAttributes: needs feature gate {gate}");
    assert_eq!(problems(&providers, false), [expected]);
}
