//! `tar`, as far as `kubectl cp` needs it.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use lexopt::Error;
use tar::{Archive, Builder};

/// What to do with an archive.
#[derive(Debug, PartialEq)]
pub(crate) enum Task {
    /// Write one of these files and directories to standard output.
    Write(Vec<PathBuf>),
    /// Unpack the one on standard input into a directory.
    Unpack(PathBuf),
}

/// Reads the command line: `cf - PATH...` or `-xmf - [-C DIR]`, with options about owners that do nothing here.
pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<Task, Error> {
    let (mut letters, mut directory, mut paths) = (String::new(), PathBuf::from("."), Vec::new());
    let mut words = words.peekable();
    let mut is_first = true;
    while let Some(word) = words.next() {
        let text = word.to_str().unwrap_or_default();
        if text.starts_with("--") {
            continue;
        }
        if text == "-C" {
            directory = words.next().ok_or("-C needs a directory")?.into();
        } else if text != "-" && (is_first || (letters.is_empty() && text.starts_with('-'))) {
            text.trim_start_matches('-').clone_into(&mut letters);
        } else if text != "-" {
            paths.push(word.into());
        }
        is_first = false;
    }
    match (letters.contains('c'), letters.contains('x'), letters.contains('f')) {
        (true, false, true) if !paths.is_empty() => Ok(Task::Write(paths)),
        (false, true, true) if paths.is_empty() => Ok(Task::Unpack(directory)),
        _ => Err("tar cf - PATH..., or tar xf - [-C DIR]".into()),
    }
}

pub(crate) fn run(task: &Task) -> io::Result<i32> {
    match task {
        Task::Write(paths) => write(paths)?,
        Task::Unpack(directory) => {
            let mut archive = Archive::new(io::stdin().lock());
            archive.set_preserve_mtime(false);
            archive.unpack(directory)?;
            // The end of the archive is before that of the input.
            io::copy(archive.into_inner().by_ref(), &mut io::sink())?;
        }
    }
    Ok(0)
}

fn write(paths: &[PathBuf]) -> io::Result<()> {
    let mut builder = Builder::new(io::stdout().lock());
    builder.follow_symlinks(false);
    for path in paths {
        // Names in archives are relative.
        let name = path.strip_prefix("/").unwrap_or(path);
        let name = if name.as_os_str().is_empty() { Path::new(".") } else { name };
        if path.is_dir() {
            builder.append_dir_all(name, path)?;
        } else {
            builder.append_path_with_name(path, name)?;
        }
    }
    builder.into_inner()?.flush()
}
