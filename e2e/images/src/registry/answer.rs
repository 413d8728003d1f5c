//! The registry's answers to requests.

use std::borrow::Cow;

use serde::Serialize;

use super::http::{BadRequest, Method, Request};
use super::{FaultKind, Registry, Repository, TOKEN, TOKEN_PATH, Tokens};
use crate::oci::json;

const JSON: &str = "application/json";
/// The media type of blobs; their real one is in the manifest.
const BLOB: &str = "application/octet-stream";

/// The status of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Ok,
    BadRequest,
    Unauthorized,
    NotFound,
    MethodNotAllowed,
    HeadTooLarge,
    TooManyRequests,
    ServerError,
}

impl Status {
    pub fn code(self) -> u16 {
        match self {
            Self::Ok => 200,
            Self::BadRequest => 400,
            Self::Unauthorized => 401,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::HeadTooLarge => 431,
            Self::TooManyRequests => 429,
            Self::ServerError => 500,
        }
    }

    pub(super) fn phrase(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::BadRequest => "Bad Request",
            Self::Unauthorized => "Unauthorized",
            Self::NotFound => "Not Found",
            Self::MethodNotAllowed => "Method Not Allowed",
            Self::HeadTooLarge => "Request Header Fields Too Large",
            Self::TooManyRequests => "Too Many Requests",
            Self::ServerError => "Internal Server Error",
        }
    }
}

/// A response. That to HEAD is the same without a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer<'r> {
    pub status: Status,
    pub content_type: Cow<'r, str>,
    /// Of a manifest or a blob.
    pub digest: Option<&'r str>,
    pub body: Cow<'r, [u8]>,
    /// Whether the connection ends in the middle of the body.
    pub is_cut: bool,
}

/// A name for a failure that clients know.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Code {
    BlobUnknown,
    ManifestUnknown,
    NameUnknown,
    #[serde(rename = "TOOMANYREQUESTS")]
    TooManyRequests,
    Unauthorized,
    Unknown,
    Unsupported,
}

#[derive(Serialize)]
struct Errors<'a> {
    errors: [Failure<'a>; 1],
}

#[derive(Serialize)]
struct Failure<'a> {
    code: Code,
    message: &'a str,
}

impl<'r> Answer<'r> {
    fn found(content_type: &'r str, digest: Option<&'r str>, body: &'r [u8]) -> Self {
        let (content_type, body) = (Cow::Borrowed(content_type), Cow::Borrowed(body));
        Self { status: Status::Ok, content_type, digest, body, is_cut: false }
    }

    fn failed(status: Status, code: Code, message: &str) -> Self {
        let body = json(&Errors { errors: [Failure { code, message }] });
        let (content_type, body) = (Cow::Borrowed(JSON), Cow::Owned(body));
        Self { status, content_type, digest: None, body, is_cut: false }
    }

    /// The response to a malformed request.
    pub(super) fn to_bad(problem: BadRequest) -> Self {
        let status = match problem {
            BadRequest::TooLarge => Status::HeadTooLarge,
            BadRequest::Tls | BadRequest::Malformed => Status::BadRequest,
        };
        Self::failed(status, Code::Unsupported, &problem.to_string())
    }
}

impl Registry {
    /// Answers a request.
    pub fn answer(&self, request: &Request) -> Answer<'_> {
        if let Some(tokens) = self.tokens.as_ref().filter(|_| request.path == TOKEN_PATH) {
            return token(tokens, request);
        }
        if self.authorization.is_some() && self.authorization != request.authorization {
            let message = "authentication required";
            return Answer::failed(Status::Unauthorized, Code::Unauthorized, message);
        }
        if let Method::Other(_) = request.method {
            let message = "nothing can be changed here";
            return Answer::failed(Status::MethodNotAllowed, Code::Unsupported, message);
        }
        if matches!(request.path.as_str(), "/v2" | "/v2/") {
            return Answer::found(JSON, None, b"{}");
        }
        let not_found = |code, message| Answer::failed(Status::NotFound, code, message);
        let Some((name, kind, reference)) = object(&request.path) else {
            return not_found(Code::Unsupported, "no such path");
        };
        let Some(repository) = self.repositories.get(name) else {
            return not_found(Code::NameUnknown, "no such repository");
        };
        let is_blob_read = matches!((&kind, &request.method), (Kind::Blob, Method::Get));
        let fault = self.faults.iter().find_map(|fault| fault.of(name, is_blob_read));
        match fault {
            Some(FaultKind::TooManyRequests) => {
                let message = "too many requests";
                return Answer::failed(Status::TooManyRequests, Code::TooManyRequests, message);
            }
            Some(FaultKind::ServerError) => {
                return Answer::failed(Status::ServerError, Code::Unknown, "internal error");
            }
            Some(FaultKind::CutBody) | None => {}
        }
        let (found, missing) = match kind {
            Kind::Manifest => (self.manifest(repository, reference), Code::ManifestUnknown),
            Kind::Blob => (self.blob(repository, reference), Code::BlobUnknown),
        };
        let found = found.unwrap_or_else(|| not_found(missing, "not in this repository"));
        Answer { is_cut: fault == Some(FaultKind::CutBody), ..found }
    }

    fn manifest<'r>(&'r self, repository: &'r Repository, reference: &str) -> Option<Answer<'r>> {
        let digest = repository.tags.get(reference).map_or(reference, String::as_str);
        let (digest, media_type) = repository.manifests.get_key_value(digest)?;
        Some(Answer::found(media_type, Some(digest), self.blobs.get(digest)?))
    }

    fn blob<'r>(&'r self, repository: &'r Repository, digest: &str) -> Option<Answer<'r>> {
        let digest = repository.blobs.get(digest)?;
        Some(Answer::found(BLOB, Some(digest), self.blobs.get(digest)?))
    }
}

/// Exchanges a login for the token.
fn token<'r>(tokens: &Tokens, request: &Request) -> Answer<'r> {
    if let Method::Other(_) = request.method {
        // Clients ask by POST first, and then by GET.
        let message = "tokens are requested by GET";
        return Answer::failed(Status::MethodNotAllowed, Code::Unsupported, message);
    }
    if request.authorization.as_ref() != Some(&tokens.authorization) {
        return Answer::failed(Status::Unauthorized, Code::Unauthorized, "wrong login");
    }
    let body = Cow::Owned(json(&serde_json::json!({ "token": TOKEN })));
    let content_type = Cow::Borrowed(JSON);
    Answer { status: Status::Ok, content_type, digest: None, body, is_cut: false }
}

enum Kind {
    Manifest,
    Blob,
}

/// Repository, kind and reference of the object at a path.
fn object(path: &str) -> Option<(&str, Kind, &str)> {
    let mut parts = path.strip_prefix("/v2/")?.rsplitn(3, '/');
    let (reference, kind, name) = (parts.next()?, parts.next()?, parts.next()?);
    let kind = match kind {
        "manifests" => Kind::Manifest,
        "blobs" => Kind::Blob,
        _ => return None,
    };
    Some((name, kind, reference))
}
