//! The mounts, from `/proc/self/mountinfo`.

use std::path::PathBuf;
use std::{fs, str};

use crate::error::{AtPath, PathError};

const MOUNTINFO: &str = "/proc/self/mountinfo";

/// One mount as this process sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    /// The directory inside the filesystem that is mounted.
    pub(crate) root: PathBuf,
    pub(crate) point: PathBuf,
    pub(crate) fs_type: String,
    pub(crate) super_options: String,
}

/// All mounts of this process' mount namespace, in mount order.
pub(crate) fn mounts() -> Result<Vec<Mount>, PathError> {
    let text = fs::read_to_string(MOUNTINFO).at("read", MOUNTINFO)?;
    Ok(parse(&text))
}

fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Mount> {
    // The optional fields in the middle vary in number and end with a lone dash.
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let mut right = right.split(' ');
    Some(Mount {
        root: unescape(left.next()?),
        point: unescape(left.next()?),
        fs_type: right.next()?.to_owned(),
        super_options: right.nth(1)?.to_owned(),
    })
}

/// The kernel writes blanks and backslashes in paths as three octal digits.
fn unescape(field: &str) -> PathBuf {
    let mut out = String::with_capacity(field.len());
    let mut rest = field;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 4).and_then(|d| u8::from_str_radix(d, 8).ok());
        if let Some(byte) = code.filter(u8::is_ascii) {
            out.push(char::from(byte));
            rest = &rest[at + 4..];
        } else {
            out.push('\\');
            rest = &rest[at + 1..];
        }
    }
    out.push_str(rest);
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_fields_do_not_shift_the_filesystem_type() {
        let text = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:9 master:2 - cgroup cgroup rw,cpu\n\
                    41 31 0:38 /a /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let mounts = parse(text);
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[0].fs_type, "cgroup");
        assert_eq!(mounts[0].super_options, "rw,cpu");
        assert_eq!(mounts[1].root, PathBuf::from("/a"));
        assert_eq!(mounts[1].point, PathBuf::from("/sys/fs/cgroup/unified"));
    }

    #[test]
    fn escaped_blanks_and_backslashes_are_read_back() {
        assert_eq!(unescape(r"/a\040b\134c"), PathBuf::from(r"/a b\c"));
        assert_eq!(unescape(r"/a\9"), PathBuf::from(r"/a\9"));
    }
}
