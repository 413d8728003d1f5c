//! Who may talk to the server, and how.

use crate::duration::GoDuration;
use crate::setting::{settings, words};

settings! {
    /// How callers of the server are told apart.
    pub struct Authentication {
        /// By client certificate.
        x509: X509Authentication = "x509", absent(X509Authentication::default());
        /// By token, which the API server checks.
        webhook: WebhookAuthentication = "webhook", absent(WebhookAuthentication::default());
        /// Not at all.
        anonymous: AnonymousAuthentication =
            "anonymous", absent(AnonymousAuthentication::default());
    }
}

settings! {
    /// Client certificates.
    pub struct X509Authentication {
        /// The authorities that may have signed them; empty for no certificates.
        client_ca_file: String = "clientCAFile", unset(String::new());
    }
}

settings! {
    /// Tokens.
    pub struct WebhookAuthentication {
        /// Whether tokens are accepted.
        enabled: bool = "enabled", absent(true);
        /// How long an answer of the API server counts.
        cache_ttl: GoDuration = "cacheTTL", unset(GoDuration::from_secs(120));
    }
}

settings! {
    /// Callers who show nothing.
    pub struct AnonymousAuthentication {
        /// Whether they are let in, as `system:anonymous`.
        enabled: bool = "enabled", absent(false);
    }
}

settings! {
    /// What callers of the server may do.
    pub struct Authorization {
        /// Who decides.
        mode: AuthorizationMode = "mode", unset(AuthorizationMode::Webhook);
        /// How answers of the API server are kept.
        webhook: WebhookAuthorization = "webhook", absent(WebhookAuthorization::default());
    }
}

settings! {
    /// How answers of the API server are kept.
    pub struct WebhookAuthorization {
        /// How long a yes counts.
        cache_authorized_ttl: GoDuration = "cacheAuthorizedTTL", unset(GoDuration::from_secs(300));
        /// How long a no counts.
        cache_unauthorized_ttl: GoDuration =
            "cacheUnauthorizedTTL", unset(GoDuration::from_secs(30));
    }
}

words! {
    /// Who decides what callers of the server may do.
    pub enum AuthorizationMode {
        /// Nobody: all may do all.
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
