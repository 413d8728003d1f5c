//! Subordinate ids of a user.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

/// The subordinate user ids and group ids of a user, as printed by `getsubids`. `None` if there is no such user or
/// no such program.
pub fn subordinate_ids(user: &str) -> io::Result<Option<[String; 2]>> {
    read_ids(Path::new("/etc/passwd"), OsStr::new("getsubids"), user)
}

fn read_ids(passwd: &Path, program: &OsStr, user: &str) -> io::Result<Option<[String; 2]>> {
    // The program may query a name service. Then an unknown user and an outage are the same failure.
    let users = fs::read_to_string(passwd).unwrap_or_default();
    if !users.lines().any(|line| line.split(':').next() == Some(user)) {
        return Ok(None);
    }
    let ids = |arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let problem = format!("getsubids: {}: {}", output.status, said.trim());
            return Err(io::Error::other(problem));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    match ids(&[user]) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
        Ok(users) => Ok(Some([users, ids(&["-g", user])?])),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// The ids of a user from a program that is this script.
    fn by(script: &str, user: &str) -> io::Result<Option<[String; 2]>> {
        let directory = tempfile::tempdir().unwrap();
        let [passwd, program] = ["passwd", "getsubids"].map(|name| directory.path().join(name));
        fs::write(&passwd, "root:x:0:0::/root:/bin/sh\nkubelet:x:998:998::/:/bin/false\n").unwrap();
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        read_ids(&passwd, program.as_os_str(), user)
    }

    // behaviour: CON-88
    #[test]
    fn subordinate_ids_are_read_for_user_and_group() {
        let ids = by("echo \"0: $*\"", "kubelet").unwrap();
        assert_eq!(ids, Some(["0: kubelet\n".to_owned(), "0: -g kubelet\n".to_owned()]));
        assert_eq!(by("exit 1", "absent").unwrap(), None);
        let error = by("echo no ids >&2; exit 1", "kubelet").unwrap_err().to_string();
        assert!(error.contains("no ids"), "{error}");
        let directory = tempfile::tempdir().unwrap();
        let passwd = directory.path().join("passwd");
        fs::write(&passwd, "kubelet:x:1:1::/:/\n").unwrap();
        let absent = directory.path().join("none");
        assert_eq!(read_ids(&passwd, absent.as_os_str(), "kubelet").unwrap(), None);
    }
}
