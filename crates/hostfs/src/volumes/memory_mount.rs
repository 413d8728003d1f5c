//! File systems in memory, which the kernel mounts without a program.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;

use model::volume::Place;
use rustix::fs::{OFlags, fstatfs};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};

use super::place::{self, NAMED};

/// The magic numbers of file systems.
const TMPFS: i64 = 0x0102_1994;
const HUGETLBFS: i64 = 0x9584_58f6;

/// Mounts a tmpfs, without swap if requested and supported.
pub(super) fn mount_tmpfs(place: &Place, size: Option<u64>, no_swap: bool) -> io::Result<()> {
    let directory = place::open_place(place, NAMED | OFlags::DIRECTORY)?;
    if is_mounted_as(&directory, TMPFS)?.is_some() {
        return Ok(());
    }
    let size = size.map(|size| format!("size={size}"));
    let options = |no_swap: bool| {
        let no_swap = no_swap.then(|| "noswap".to_owned());
        size.clone().into_iter().chain(no_swap).collect::<Vec<_>>().join(",")
    };
    match mount_memory(&directory, "tmpfs", &options(no_swap)) {
        // Kernels before 6.4 lack the option, and user namespaces may not use it.
        Err(Errno::INVAL | Errno::PERM) if no_swap => {
            Ok(mount_memory(&directory, "tmpfs", &options(false))?)
        }
        mounted => Ok(mounted?),
    }
}

/// Mounts huge pages of one size.
pub(super) fn mount_huge_pages(place: &Place, page_size: &str) -> io::Result<()> {
    let directory = place::open_place(place, NAMED | OFlags::DIRECTORY)?;
    let bytes = bytes(page_size).ok_or_else(|| place::refused("it is not a size of huge pages"))?;
    match is_mounted_as(&directory, HUGETLBFS)? {
        Some(found) if found == bytes => Ok(()),
        Some(found) => {
            let problem = format!("huge pages of {found} bytes are mounted there");
            Err(io::Error::new(io::ErrorKind::AlreadyExists, problem))
        }
        None => Ok(mount_memory(&directory, "hugetlbfs", &format!("pagesize={page_size}"))?),
    }
}

fn mount_memory(directory: &OwnedFd, kind: &str, options: &str) -> Result<(), Errno> {
    // The source names of upstream.
    let source = if kind == "hugetlbfs" { "nodev" } else { kind };
    let options = CString::new(options).map_err(|_| Errno::INVAL)?;
    mount(source, place::path_of(directory), kind, MountFlags::empty(), &*options)
}

/// The block size of the file system mounted on a directory, if it has this type. Another type is an error.
fn is_mounted_as(directory: &OwnedFd, kind: i64) -> io::Result<Option<u64>> {
    if !place::is_mount_root(directory)? {
        return Ok(None);
    }
    let found = fstatfs(directory)?;
    if i128::from(found.f_type) != i128::from(kind) {
        return Err(other_mount());
    }
    Ok(Some(u64::try_from(found.f_bsize).unwrap_or_default()))
}

/// The error for another mount at the place.
pub(super) fn other_mount() -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, "something else is mounted there")
}

/// A page size in the kernel's format: `2M`, `2048K`, `1G`.
fn bytes(size: &str) -> Option<u64> {
    let digits = size.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let factor: u64 = match &size[digits.len()..] {
        "" => 1,
        "K" | "k" | "Ki" => 1 << 10,
        "M" | "m" | "Mi" => 1 << 20,
        "G" | "g" | "Gi" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_sizes_are_compared_in_bytes() {
        let rows = [
            ("2M", Some(2 << 20)),
            ("2048K", Some(2 << 20)),
            ("1G", Some(1 << 30)),
            ("4096", Some(4096)),
            ("", None),
            ("2X", None),
            ("99999999999999G", None),
        ];
        for (written, expected) in rows {
            assert_eq!(bytes(written), expected, "{written}");
        }
    }
}
