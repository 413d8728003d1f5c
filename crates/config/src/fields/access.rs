//! Authentication and authorization of the server.

use crate::duration::GoDuration;
use crate::setting::{settings, words};

settings! {
    /// How callers of the server are authenticated.
    pub struct Authentication {
        /// By client certificate.
        x509: X509Authentication = "x509", absent(X509Authentication::default());
        /// By token, which the API server checks.
        webhook: WebhookAuthentication = "webhook", absent(WebhookAuthentication::default());
        /// Anonymous callers.
        anonymous: AnonymousAuthentication =
            "anonymous", absent(AnonymousAuthentication::default());
    }
}

settings! {
    /// Client certificates.
    pub struct X509Authentication {
        /// The CA certificates; empty for no client certificates.
        client_ca_file: String = "clientCAFile", unset(String::new());
    }
}

settings! {
    /// Tokens.
    pub struct WebhookAuthentication {
        /// Whether tokens are accepted.
        enabled: bool = "enabled", absent(true);
        /// How long an answer of the API server is cached.
        cache_ttl: GoDuration = "cacheTTL", unset(GoDuration::from_secs(120));
    }
}

settings! {
    /// Callers without credentials.
    pub struct AnonymousAuthentication {
        /// Whether they are allowed, as `system:anonymous`.
        enabled: bool = "enabled", absent(false);
    }
}

settings! {
    /// How callers of the server are authorized.
    pub struct Authorization {
        /// The authorizer.
        mode: AuthorizationMode = "mode", unset(AuthorizationMode::Webhook);
        /// How answers of the API server are cached.
        webhook: WebhookAuthorization = "webhook", absent(WebhookAuthorization::default());
    }
}

settings! {
    /// How answers of the API server are cached.
    pub struct WebhookAuthorization {
        /// How long an allowed request is cached.
        cache_authorized_ttl: GoDuration = "cacheAuthorizedTTL", unset(GoDuration::from_secs(300));
        /// How long a denied request is cached.
        cache_unauthorized_ttl: GoDuration =
            "cacheUnauthorizedTTL", unset(GoDuration::from_secs(30));
    }
}

words! {
    /// The authorizer of the server.
    pub enum AuthorizationMode {
        /// Every request is allowed.
        AlwaysAllow = "AlwaysAllow",
        /// The API server.
        Webhook = "Webhook",
    }
}

words! {
    /// A TLS version.
    pub enum TlsVersion {
        /// TLS 1.0.
        Tls10 = "VersionTLS10",
        /// TLS 1.1.
        Tls11 = "VersionTLS11",
        /// TLS 1.2.
        Tls12 = "VersionTLS12",
        /// TLS 1.3.
        Tls13 = "VersionTLS13",
    }
}
