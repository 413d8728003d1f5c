//! The limit of open files.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open files to `most`, or to the hard limit if the process lacks the privilege to raise that.
/// Returns the new limit.
pub fn set_open_files(most: u64) -> io::Result<u64> {
    let wanted = Rlimit { current: Some(most), maximum: Some(most) };
    if setrlimit(Resource::Nofile, wanted).is_ok() {
        return Ok(most);
    }
    let maximum = getrlimit(Resource::Nofile).maximum;
    let may = maximum.map_or(most, |maximum| maximum.min(most));
    setrlimit(Resource::Nofile, Rlimit { current: Some(may), maximum })?;
    Ok(may)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_file_limit_is_set_or_capped() {
        let now = || getrlimit(Resource::Nofile);
        // Only raised: other tests have files open, and it cannot be reset.
        let allowed = now().maximum.unwrap_or(1 << 20);
        assert_eq!(set_open_files(allowed).unwrap(), allowed);
        assert_eq!((now().current, now().maximum), (Some(allowed), Some(allowed)));
        let may = set_open_files(allowed + 1).unwrap();
        assert!([allowed, allowed + 1].contains(&may), "{may}");
        assert_eq!(now().current, Some(may));
    }
}
