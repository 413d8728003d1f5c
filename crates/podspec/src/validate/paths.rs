//! Rules for paths of files.

use crate::field_error::{FieldErrors, FieldPath};

fn has_backstep(text: &str) -> bool {
    text.split('/').any(|part| part == "..")
}

/// A path without `..`.
pub(super) fn check_no_backsteps(text: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if has_backstep(text) {
        errors.invalid(path, text, "must not contain '..'");
    }
}

/// A relative path without `..`.
pub(super) fn check_descending(text: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if text.starts_with('/') {
        errors.invalid(path, text, "must be a relative path");
    }
    check_no_backsteps(text, path, errors);
}

/// The path of a file that the agent writes in a volume. Names that start with two dots are
/// reserved.
pub(super) fn check_volume_file(text: &str, path: &FieldPath, errors: &mut FieldErrors) {
    check_descending(text, path, errors);
    if text.starts_with("..") && !text.starts_with("../") {
        errors.invalid(path, text, "must not start with '..'");
    }
}

/// The mode of a file.
pub(super) fn check_mode(mode: Option<i32>, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(mode) = mode
        && !(0..=0o777).contains(&mode)
    {
        errors.invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}
