//! Rules for fields in the downward API.

use k8s_openapi::api::core::v1::{ObjectFieldSelector, ResourceFieldSelector};

use super::word;
use crate::downward::subscript;
use crate::field_error::{FieldErrors, FieldPath};
use crate::names::qualified_name;
use crate::quantity::Quantity;

/// Fields for environment variables.
pub(super) const ENV_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Fields for files.
pub(super) const FILE_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];
/// Fields of the downward API that are not allowed everywhere, or not at all.
const NAMED_FIELDS: &[&str] = &["spec.restartPolicy", "spec.schedulerName", "status.phase"];

const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const HUGE_PAGES: [&str; 2] = ["limits.hugepages-", "requests.hugepages-"];
const CPU_DIVISORS: &[&str] = &["1m", "1"];
const BYTE_DIVISORS: &[&str] =
    &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

pub(super) fn check_field(
    selector: &ObjectFieldSelector,
    allowed: &[&str],
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let version = word(selector.api_version.as_ref());
    let field = selector.field_path.as_str();
    let field_path = path.child("fieldPath");
    if version.is_empty() {
        errors.required(&path.child("apiVersion"), "");
    } else if field.is_empty() {
        errors.required(&field_path, "");
    } else if version != "v1" {
        let problem = format!("error converting fieldPath: unsupported pod version: {version}");
        errors.invalid(&field_path, field, problem);
    } else if let Some((map, key)) = subscript(field) {
        match map {
            "metadata.annotations" => {
                let key = key.to_lowercase();
                errors.invalid_each(path, key.as_str(), qualified_name(&key));
            }
            "metadata.labels" => errors.invalid_each(path, key, qualified_name(key)),
            _ => {
                let problem = "error converting fieldPath: field label does not support subscript";
                errors.invalid(&field_path, field, format!("{problem}: {field}"));
            }
        }
    } else {
        // The name of the field in the first version.
        let field = if field == "spec.host" { "spec.nodeName" } else { field };
        let is_named =
            [ENV_FIELDS, FILE_FIELDS, NAMED_FIELDS].iter().any(|list| list.contains(&field));
        if !is_named {
            let problem = "error converting fieldPath: field label not supported";
            errors.invalid(&field_path, field, format!("{problem}: {field}"));
        } else if !allowed.contains(&field) {
            errors.not_supported(&field_path, field, allowed);
        }
    }
}

/// A resource of a container; `needs_container` if the reference is outside a container.
pub(super) fn check_resource(
    selector: &ResourceFieldSelector,
    needs_container: bool,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let resource = selector.resource.as_str();
    let is_huge_pages = HUGE_PAGES.iter().any(|prefix| resource.starts_with(prefix));
    if needs_container && word(selector.container_name.as_ref()).is_empty() {
        errors.required(&path.child("containerName"), "");
    } else if resource.is_empty() {
        errors.required(&path.child("resource"), "");
    } else if !RESOURCES.contains(&resource) && !is_huge_pages {
        errors.not_supported(&path.child("resource"), resource, RESOURCES);
    }
    let Some(divisor) = &selector.divisor else {
        return;
    };
    let path = path.child("divisor");
    let divisor = match Quantity::parse(&divisor.0) {
        Ok(divisor) => divisor,
        Err(error) => return errors.invalid(&path, divisor.0.as_str(), error.to_string()),
    };
    let kind = match resource {
        _ if divisor.is_zero() => return,
        "limits.cpu" | "requests.cpu" => "cpu",
        "limits.memory" | "requests.memory" => "memory",
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => "local ephemeral storage",
        _ if is_huge_pages => "hugepages",
        _ => return,
    };
    let allowed = if kind == "cpu" { CPU_DIVISORS } else { BYTE_DIVISORS };
    if !allowed.contains(&divisor.to_string().as_str()) {
        let values = if kind == "cpu" { "1m and 1".to_owned() } else { allowed.join(", ") };
        let problem =
            format!("only divisor's values {values} are supported with the {kind} resource");
        errors.invalid(&path, resource, problem);
    }
}
