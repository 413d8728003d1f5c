//! The configuration of credential provider plugins: `CredentialProviderConfig`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr as _;
use std::time::Duration;

use config::GoDuration;
use serde::{Deserialize, Deserializer};

use super::registry_pattern::RegistryPattern;

/// The group of the configuration, with the slash behind it.
const CONFIG_GROUP: &str = "kubelet.config.k8s.io/";
const CONFIG_VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];
const CONFIG_KIND: &str = "CredentialProviderConfig";
/// The version of plugins that may receive service account tokens.
const PLUGIN_V1: &str = "credentialprovider.kubelet.k8s.io/v1";
const PLUGIN_VERSIONS: [&str; 3] = [
    PLUGIN_V1,
    "credentialprovider.kubelet.k8s.io/v1beta1",
    "credentialprovider.kubelet.k8s.io/v1alpha1",
];
/// Upstream's limits for annotation keys.
const LONGEST_KEY_NAME: usize = 63;
const LONGEST_KEY_PREFIX: usize = 253;

/// A file of the configuration.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    providers: Vec<Provider>,
}

/// A credential provider plugin, checked.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Provider {
    /// The name of its file.
    #[serde(default)]
    pub name: String,
    /// For which images it is run.
    #[serde(default)]
    pub match_images: Vec<String>,
    /// How long its credentials are used if its response has no duration.
    #[serde(default, deserialize_with = "duration")]
    default_cache_duration: Option<GoDuration>,
    /// The version of its requests and responses.
    #[serde(default)]
    pub api_version: String,
    /// Its arguments.
    #[serde(default, deserialize_with = "or_default")]
    pub args: Vec<String>,
    /// Its variables.
    #[serde(default, deserialize_with = "or_default")]
    pub env: Vec<Variable>,
    /// Set if it receives tokens of service accounts.
    #[serde(default)]
    pub token_attributes: Option<TokenAttributes>,
}

/// A variable of the environment. Its value is not printed.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value.
    #[serde(default)]
    pub value: String,
}

impl fmt::Debug for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Variable").field("name", &self.name).finish_non_exhaustive()
    }
}

/// How a plugin receives tokens of service accounts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TokenAttributes {
    /// The audience of the tokens.
    #[serde(default)]
    pub service_account_token_audience: String,
    /// Whether the plugin is only run for pods with a service account.
    require_service_account: Option<bool>,
    /// Which pods share its cached credentials.
    cache_type: Option<String>,
    /// Annotations that a service account must have.
    #[serde(default, deserialize_with = "or_default")]
    pub required_service_account_annotation_keys: Vec<String>,
    /// Annotations that it may have.
    #[serde(default, deserialize_with = "or_default")]
    pub optional_service_account_annotation_keys: Vec<String>,
}

impl TokenAttributes {
    /// Whether the plugin is only run for pods with a service account.
    pub fn requires_account(&self) -> bool {
        self.require_service_account == Some(true)
    }

    /// Whether credentials are cached for one token, not for the service account.
    pub fn is_cached_by_token(&self) -> bool {
        self.cache_type.as_deref() == Some("Token")
    }
}

impl Provider {
    /// How long its credentials are used if its response has no duration.
    pub fn default_cache_duration(&self) -> Duration {
        self.default_cache_duration.map_or(Duration::ZERO, GoDuration::to_std)
    }
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<GoDuration>, D::Error> {
    let text: Option<String> = Option::deserialize(from)?;
    let parsed = text.map(|text| GoDuration::from_str(&text)).transpose();
    parsed.map_err(serde::de::Error::custom)
}

fn or_default<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Reads the providers of a file.
pub fn parse_providers(text: &str) -> Result<Vec<Provider>, String> {
    let options = serde_saphyr::options! { with_snippet: false };
    let document: Document =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())?;
    let version = document.api_version.strip_prefix(CONFIG_GROUP);
    let is_known = version.is_some_and(|version| CONFIG_VERSIONS.contains(&version));
    if !is_known || document.kind != CONFIG_KIND {
        let (version, kind) = (document.api_version, document.kind);
        return Err(format!(
            "apiVersion must be {CONFIG_GROUP}v1 and kind {CONFIG_KIND}, \
             found apiVersion {version:?} and kind {kind:?}"
        ));
    }
    Ok(document.providers)
}

/// All problems of the providers of all files together.
pub fn problems(providers: &[Provider], allows_tokens: bool) -> Vec<String> {
    if providers.is_empty() {
        return vec!["providers: at least 1 is required".to_owned()];
    }
    let (mut problems, mut names) = (Vec::new(), BTreeSet::new());
    for (index, provider) in providers.iter().enumerate() {
        let mut add = |field: &str, problem: &str| {
            problems.push(format!("providers[{index}].{field}: {problem}"));
        };
        if let Some(problem) = name_problem(&provider.name) {
            add("name", problem);
        } else if !names.insert(provider.name.as_str()) {
            add("name", &format!("{:?} is used twice", provider.name));
        }
        if !PLUGIN_VERSIONS.contains(&provider.api_version.as_str()) {
            let known = PLUGIN_VERSIONS.join(", ");
            add("apiVersion", &format!("{:?} is not one of {known}", provider.api_version));
        }
        if provider.match_images.is_empty() {
            add("matchImages", "at least 1 is required");
        }
        for image in &provider.match_images {
            if RegistryPattern::parse(image).is_none() {
                add("matchImages", &format!("{image:?} is not a host with an optional path"));
            }
        }
        match provider.default_cache_duration {
            None => add("defaultCacheDuration", "is required"),
            Some(duration) if duration.is_negative() => {
                add("defaultCacheDuration", "must not be negative");
            }
            Some(_) => {}
        }
        if let Some(attributes) = &provider.token_attributes {
            if allows_tokens {
                token_problems(provider, attributes, &mut add);
            } else {
                let gate = "KubeletServiceAccountTokenForCredentialProviders";
                add("tokenAttributes", &format!("needs feature gate {gate}"));
            }
        }
    }
    problems
}

fn name_problem(name: &str) -> Option<&'static str> {
    match name {
        "" => Some("is required"),
        "." | ".." => Some("must not be '.' or '..'"),
        name if name.contains('/') => Some("must not contain '/'"),
        name if name.contains(' ') => Some("must not contain spaces"),
        _ => None,
    }
}

fn token_problems(
    provider: &Provider,
    attributes: &TokenAttributes,
    add: &mut impl FnMut(&str, &str),
) {
    if provider.api_version != PLUGIN_V1 {
        add("tokenAttributes", &format!("needs apiVersion {PLUGIN_V1}"));
    }
    if attributes.service_account_token_audience.is_empty() {
        add("tokenAttributes.serviceAccountTokenAudience", "is required");
    }
    if attributes.require_service_account.is_none() {
        add("tokenAttributes.requireServiceAccount", "is required");
    }
    if !matches!(attributes.cache_type.as_deref(), Some("ServiceAccount" | "Token")) {
        add("tokenAttributes.cacheType", "must be ServiceAccount or Token");
    }
    let required = &attributes.required_service_account_annotation_keys;
    let optional = &attributes.optional_service_account_annotation_keys;
    let required_field = "tokenAttributes.requiredServiceAccountAnnotationKeys";
    if !required.is_empty() && !attributes.requires_account() {
        add(required_field, "needs requireServiceAccount true");
    }
    let mut known = BTreeSet::new();
    let optional_field = "tokenAttributes.optionalServiceAccountAnnotationKeys";
    for (field, keys) in [(required_field, required), (optional_field, optional)] {
        for key in keys {
            if !is_annotation_key(key) {
                add(field, &format!("{key:?} is not the key of an annotation"));
            } else if !known.insert(key) {
                add(field, &format!("{key:?} is there twice"));
            }
        }
    }
}

/// Whether a text is the key of an annotation: a name, optionally after a domain and a slash.
fn is_annotation_key(key: &str) -> bool {
    let (prefix, name) =
        key.rsplit_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let is_outer = |c: char| c.is_ascii_alphanumeric();
    let is_name = |name: &str| {
        name.starts_with(is_outer)
            && name.ends_with(is_outer)
            && name.chars().all(|c| is_outer(c) || matches!(c, '-' | '_' | '.'))
    };
    let is_label = |label: &str| {
        let is_outer = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        label.starts_with(is_outer)
            && label.ends_with(is_outer)
            && label.chars().all(|c| is_outer(c) || c == '-')
    };
    let is_domain =
        |prefix: &str| prefix.len() <= LONGEST_KEY_PREFIX && prefix.split('.').all(is_label);
    name.len() <= LONGEST_KEY_NAME && is_name(name) && prefix.is_none_or(is_domain)
}

#[cfg(test)]
#[path = "provider_config_tests.rs"]
mod tests;
