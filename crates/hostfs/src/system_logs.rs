//! The system's log directory, for the node API.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2, statat,
};

/// An entry of the system's log directory.
#[derive(Debug)]
pub enum OpenedLog {
    /// A file, open for reading.
    File(File),
    /// The sorted names in a directory; those of directories end with a slash.
    Directory(Vec<String>),
}

/// Opens a file or directory below a root. Links are followed only within the root: the kernel ensures that.
pub fn open_system_log(root: &Path, below: &Path) -> io::Result<OpenedLog> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(root, flags, Mode::empty())?;
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    // Opening a pipe would wait for its writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let opened = openat2(&root, below, flags, Mode::empty(), resolve)?;
    match FileType::from_raw_mode(fstat(&opened)?.st_mode) {
        FileType::RegularFile => Ok(OpenedLog::File(opened.into())),
        FileType::Directory => names(&opened).map(OpenedLog::Directory),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file")),
    }
}

fn names(directory: &OwnedFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let mut name = entry.file_name().to_string_lossy().into_owned();
        if name == "." || name == ".." {
            continue;
        }
        let is_directory = match entry.file_type() {
            FileType::Unknown => {
                let found = statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(found.st_mode) == FileType::Directory
            }
            found => found == FileType::Directory,
        };
        if is_directory {
            name.push('/');
        }
        names.push(name);
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;

    // behaviour: SRV-22
    #[test]
    fn system_log_is_opened_beneath_its_directory_only() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("log");
        std::fs::create_dir_all(root.join("pods")).unwrap();
        std::fs::write(root.join("pods/a.log"), "text").unwrap();
        std::fs::write(directory.path().join("secret"), "secret").unwrap();
        symlink("pods/a.log", root.join("inside")).unwrap();
        symlink("../secret", root.join("outside")).unwrap();
        symlink("/etc/passwd", root.join("absolute")).unwrap();
        symlink("..", root.join("pods/up")).unwrap();
        for below in ["pods/a.log", "inside", "pods/up/inside"] {
            let OpenedLog::File(mut file) = open_system_log(&root, Path::new(below)).unwrap()
            else {
                panic!("{below} is a file");
            };
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            assert_eq!(text, "text", "{below}");
        }
        for below in ["outside", "absolute", "../secret", "/etc/passwd", "pods/../../secret", "no"]
        {
            assert!(open_system_log(&root, Path::new(below)).is_err(), "{below}");
        }
        let OpenedLog::Directory(names) = open_system_log(&root, Path::new("")).unwrap() else {
            panic!("it is a directory");
        };
        assert_eq!(names, ["absolute", "inside", "outside", "pods/"]);
    }
}
