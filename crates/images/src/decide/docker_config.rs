//! Docker configurations: which credential belongs to which registry.

use std::fmt;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value};

/// Bits behind the last byte are ignored, as in Go.
const CONFIG: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
/// Reads texts that end with `=`.
const PADDED: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    CONFIG.with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);
/// Reads other texts.
const UNPADDED: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, CONFIG.with_decode_padding_mode(DecodePaddingMode::RequireNone));

/// A credential of a docker configuration. Never printed.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Login {
    /// The user name.
    pub username: String,
    /// The password.
    pub password: String,
    /// The email address, which registries do not need.
    pub email: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").finish_non_exhaustive()
    }
}

/// Credentials by registry, as written.
pub type DockerConfig = Vec<(String, Login)>;

/// Why a text is not a docker configuration. It does not contain the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DockerConfigError {
    /// It is not JSON.
    #[error("invalid JSON in line {line}, column {column}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// A value has another type.
    #[error("{0} has the wrong type")]
    Type(&'static str),
    /// `auth` is not base64.
    #[error("auth is not base64")]
    Base64,
    /// `auth` has no colon.
    #[error("auth is not the base64 of username:password")]
    NoColon,
}

/// Reads `config.json`, or `.dockerconfigjson` of a secret.
pub fn parse_config_json(text: &[u8]) -> Result<DockerConfig, DockerConfigError> {
    let mut document = object(parse(text)?, "the configuration")?;
    let auths = take(&mut document, "auths").unwrap_or_default();
    logins(object(auths, "auths")?)
}

/// Reads `.dockercfg`, the older format.
pub fn parse_dockercfg(text: &[u8]) -> Result<DockerConfig, DockerConfigError> {
    logins(object(parse(text)?, "the configuration")?)
}

fn parse(text: &[u8]) -> Result<Value, DockerConfigError> {
    serde_json::from_slice(text)
        .map_err(|error| DockerConfigError::Syntax { line: error.line(), column: error.column() })
}

/// `null` is an empty object, as in Go.
fn object(value: Value, name: &'static str) -> Result<Map<String, Value>, DockerConfigError> {
    match value {
        Value::Object(fields) => Ok(fields),
        Value::Null => Ok(Map::new()),
        _ => Err(DockerConfigError::Type(name)),
    }
}

/// A field by its name. Upper and lower case make no difference, as in Go.
fn take(fields: &mut Map<String, Value>, name: &str) -> Option<Value> {
    let exact = fields.remove(name);
    exact.or_else(|| {
        let other = fields.keys().find(|key| key.eq_ignore_ascii_case(name)).cloned();
        fields.remove(&other?)
    })
}

fn logins(registries: Map<String, Value>) -> Result<DockerConfig, DockerConfigError> {
    registries.into_iter().map(|(registry, entry)| Ok((registry, login(entry)?))).collect()
}

fn login(entry: Value) -> Result<Login, DockerConfigError> {
    let mut fields = object(entry, "a registry")?;
    let mut text = |name: &'static str| match take(&mut fields, name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(DockerConfigError::Type(name)),
    };
    let mut login =
        Login { username: text("username")?, password: text("password")?, email: text("email")? };
    let auth = text("auth")?;
    if !auth.is_empty() {
        (login.username, login.password) = decode_auth(&auth)?;
    }
    Ok(login)
}

fn decode_auth(auth: &str) -> Result<(String, String), DockerConfigError> {
    // Tools that write base64 may break lines.
    let text: String = auth.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let engine = if auth.trim().ends_with('=') { PADDED } else { UNPADDED };
    let decoded = engine.decode(text).map_err(|_| DockerConfigError::Base64)?;
    let decoded = String::from_utf8_lossy(&decoded);
    let (username, password) = decoded.split_once(':').ok_or(DockerConfigError::NoColon)?;
    Ok((username.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Registry, user name, password and email address of each entry.
    fn read(config: Result<DockerConfig, DockerConfigError>) -> Vec<[String; 4]> {
        let entry = |(registry, login): (String, Login)| {
            [registry, login.username, login.password, login.email]
        };
        config.unwrap().into_iter().map(entry).collect()
    }

    // behaviour: PULL-20
    #[test]
    fn auth_field_overrides_user_name_and_password() {
        let rows = [
            (r#"{"username":"u","password":"p","email":"e"}"#, ["u", "p", "e"]),
            (r#"{"auth":"dTpw"}"#, ["u", "p", ""]),
            (r#"{"auth":"dTpwYQ=="}"#, ["u", "pa", ""]),
            (r#"{"auth":"dTpwYQ"}"#, ["u", "pa", ""]),
            (r#"{"auth":"dTpw\nYQ==\r\n"}"#, ["u", "pa", ""]),
            (r#"{"auth":"dTpwOnE=","username":"other","email":"e"}"#, ["u", "p:q", "e"]),
            (r#"{"auth":"dTo="}"#, ["u", "", ""]),
            (r#"{"auth":"","username":"u"}"#, ["u", "", ""]),
            (r#"{"Username":"u","identitytoken":"t"}"#, ["u", "", ""]),
            ("{}", ["", "", ""]),
            ("null", ["", "", ""]),
        ];
        for (entry, [username, password, email]) in rows {
            let expected = [["r.io", username, password, email].map(str::to_owned)];
            let config = format!(r#"{{"auths":{{"r.io":{entry}}},"credsStore":"x"}}"#);
            assert_eq!(read(parse_config_json(config.as_bytes())), expected, "{entry}");
            let older = format!(r#"{{"r.io":{entry}}}"#);
            assert_eq!(read(parse_dockercfg(older.as_bytes())), expected, "{entry}");
        }
        for empty in ["{}", "null", r#"{"auths":null}"#, r#"{"credHelpers":{}}"#] {
            assert_eq!(parse_config_json(empty.as_bytes()), Ok(Vec::new()), "{empty}");
        }
    }

    // behaviour: PULL-20
    #[test]
    fn malformed_configurations_are_refused_without_their_content() {
        let rows = [
            ("", "invalid JSON in line 1, column 0"),
            (r#"{"auths":{"r.io":{"password":"hidden""#, "invalid JSON in line 1, column 37"),
            ("[]", "the configuration has the wrong type"),
            (r#"{"auths":"hidden"}"#, "auths has the wrong type"),
            (r#"{"auths":{"r.io":"hidden"}}"#, "a registry has the wrong type"),
            (r#"{"auths":{"r.io":{"password":1}}}"#, "password has the wrong type"),
            (r#"{"auths":{"r.io":{"auth":"%hidden%"}}}"#, "auth is not base64"),
            (
                r#"{"auths":{"r.io":{"auth":"aGlkZGVu"}}}"#,
                "auth is not the base64 of username:password",
            ),
        ];
        for (config, expected) in rows {
            let error = parse_config_json(config.as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), expected, "{config}");
            assert!(!format!("{error:?}").contains("hidden"));
        }
    }

    #[test]
    fn logins_are_not_printed() {
        let login = Login { password: "hidden".to_owned(), ..Login::default() };
        assert!(!format!("{login:?}").contains("hidden"));
    }
}
