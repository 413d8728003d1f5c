//! Commands that print what the runtime gave this process, byte for byte.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

/// Prints the environment as `NAME=value` lines, sorted by name.
pub(crate) fn environment() -> io::Result<i32> {
    let mut variables: Vec<(OsString, OsString)> = env::vars_os().collect();
    variables.sort();
    let mut out = io::stdout().lock();
    for (name, value) in variables {
        out.write_all(name.as_bytes())?;
        out.write_all(b"=")?;
        out.write_all(value.as_bytes())?;
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(0)
}

/// Prints the effective user, in the words that upstream's end-to-end suite expects.
pub(crate) fn effective_user() -> io::Result<i32> {
    writeln!(io::stdout(), "Effective uid: {}", rustix::process::geteuid())?;
    Ok(0)
}

/// Prints a file.
pub(crate) fn file(file: &OsStr) -> io::Result<i32> {
    let mut out = io::stdout().lock();
    io::copy(&mut File::open(file)?, &mut out)?;
    out.flush()?;
    Ok(0)
}

/// Prints standard input line by line.
pub(crate) fn input() -> io::Result<i32> {
    io::copy(&mut io::stdin().lock(), &mut io::stdout().lock())?;
    Ok(0)
}

/// Appends a line to a file.
pub(crate) fn append(file: &OsStr, text: &OsStr, code: u8) -> io::Result<i32> {
    let mut file = OpenOptions::new().append(true).create(true).open(file)?;
    file.write_all(&[text.as_bytes(), b"\n"].concat())?;
    Ok(code.into())
}

/// Prints the arguments, one per line.
pub(crate) fn arguments(arguments: &[OsString]) -> io::Result<i32> {
    let mut out = io::stdout().lock();
    for argument in arguments {
        out.write_all(argument.as_bytes())?;
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(0)
}
