//! The hash by which a credential is recorded: equal to that of upstream, so that either agent understands the records
//! of the other.

use model::image_access::RegistryAuth;
use serde::Serialize;

use super::hex::sha256_hex;

/// The fields in upstream's order. Empty ones are left out.
#[derive(Serialize)]
struct AuthConfig<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    username: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    password: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    auth: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    email: &'a str,
    #[serde(rename = "serveraddress", skip_serializing_if = "str::is_empty")]
    server_address: &'a str,
    #[serde(rename = "identitytoken", skip_serializing_if = "str::is_empty")]
    identity_token: &'a str,
    #[serde(rename = "registrytoken", skip_serializing_if = "str::is_empty")]
    registry_token: &'a str,
}

/// The SHA-256 of a credential in hexadecimal digits.
pub fn credential_hash(auth: &RegistryAuth) -> String {
    sha256_hex(json_of(auth).as_bytes())
}

fn json_of(auth: &RegistryAuth) -> String {
    let fields = AuthConfig {
        username: &auth.username,
        password: &auth.password,
        auth: &auth.auth,
        email: &auth.email,
        server_address: &auth.server_address,
        identity_token: &auth.identity_token,
        registry_token: &auth.registry_token,
    };
    go_escaped(&serde_json::to_string(&fields).expect("strings are JSON"))
}

/// JSON with the escapes that Go adds, so that it can stand in HTML. These characters occur in strings only.
fn go_escaped(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' => escaped.push_str("\\u003c"),
            '>' => escaped.push_str("\\u003e"),
            '&' => escaped.push_str("\\u0026"),
            '\u{2028}' => escaped.push_str("\\u2028"),
            '\u{2029}' => escaped.push_str("\\u2029"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: PULL-30
    #[test]
    fn hashed_text_has_upstreams_fields_order_and_escapes() {
        let text = |text: &str| text.to_owned();
        let all = RegistryAuth {
            username: text("u"),
            password: text("p"),
            auth: text("a"),
            email: text("e"),
            server_address: text("s"),
            identity_token: text("i"),
            registry_token: text("r"),
        };
        let expected = r#"{"username":"u","password":"p","auth":"a","email":"e","serveraddress":"s","identitytoken":"i","registrytoken":"r"}"#;
        assert_eq!(json_of(&all), expected);
        let escaped = RegistryAuth {
            username: text("_json_key"),
            password: text("{\"a\": \"<b>&\\\n\u{8}\u{1}é\u{2028}\"}"),
            ..RegistryAuth::default()
        };
        let expected = r#"{"username":"_json_key","password":"{\"a\": \"\u003cb\u003e\u0026\\\n\b\u0001é\u2028\"}"}"#;
        assert_eq!(json_of(&escaped), expected);
        assert_eq!(json_of(&RegistryAuth::default()), "{}");
    }

    // behaviour: PULL-30
    #[test]
    fn hash_is_the_sha256_of_the_text() {
        // printf '{}' | sha256sum
        let expected = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
        assert_eq!(credential_hash(&RegistryAuth::default()), expected);
    }
}
