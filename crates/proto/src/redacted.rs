//! `Debug` for messages that carry secrets.
//!
//! The generator leaves `Debug` out of every message with a field marked `debug_redact`, so a new
//! one does not compile until it is written here.

use std::fmt;

use crate::runtime_v1::AuthConfig;

impl fmt::Debug for AuthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Taken apart in full: a new field has to be shown or hidden on purpose.
        let Self { username, password, auth, server_address, identity_token, registry_token } =
            self;
        f.debug_struct("AuthConfig")
            .field("username", username)
            .field("password", &Secret(password))
            .field("auth", &Secret(auth))
            .field("server_address", server_address)
            .field("identity_token", &Secret(identity_token))
            .field("registry_token", &Secret(registry_token))
            .finish()
    }
}

/// Shows whether there is a secret, never what it is.
struct Secret<'a>(&'a str);

impl fmt::Debug for Secret<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "(none)" } else { "(redacted)" })
    }
}

#[cfg(test)]
mod tests {
    use crate::runtime_v1::{AuthConfig, PullImageRequest};

    #[test]
    fn debug_output_of_a_pull_request_hides_secrets_and_shows_the_rest() {
        let auth = AuthConfig {
            username: "ada".into(),
            password: "s3cret-1".into(),
            auth: "s3cret-2".into(),
            server_address: "registry.example".into(),
            identity_token: "s3cret-3".into(),
            registry_token: String::new(),
        };
        let request = PullImageRequest { auth: Some(auth), ..Default::default() };
        let text = format!("{request:?}");
        assert!(!text.contains("s3cret"), "{text}");
        assert!(text.contains(r#"username: "ada", password: (redacted)"#), "{text}");
        assert!(text.contains("registry_token: (none)"), "{text}");
    }
}
