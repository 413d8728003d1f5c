//! The identity of the machine.

use std::path::Path;
use std::time::Duration;

use model::machine::Identity;

use crate::machine::meminfo_bytes;
use crate::text::read_text;

/// Reads the identity of this machine. Unknown values are empty.
pub fn identity() -> Identity {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    read(Path::new("/"), release)
}

/// The uptime of the machine, in whole seconds.
pub fn uptime() -> Duration {
    Duration::from_secs(u64::try_from(rustix::system::sysinfo().uptime).unwrap_or(0))
}

/// Reads the identity of the machine with this root directory.
fn read(root: &Path, kernel_version: String) -> Identity {
    let first = |paths: &[&str]| {
        let texts = paths.iter().filter_map(|path| read_text(root.join(path)).ok());
        let text = texts.into_iter().next().unwrap_or_default();
        text.trim_end_matches('\0').trim().to_owned()
    };
    Identity {
        machine_id: first(&["etc/machine-id", "var/lib/dbus/machine-id"]),
        system_uuid: first(&[
            "sys/class/dmi/id/product_uuid",
            "proc/device-tree/system-id",
            "proc/device-tree/vm,uuid",
            "etc/machine-id",
        ]),
        boot_id: first(&["proc/sys/kernel/random/boot_id"]),
        kernel_version,
        os_image: os_image(&first(&["etc/os-release", "usr/lib/os-release"])),
        swap: meminfo_bytes(&first(&["proc/meminfo"]), "SwapTotal:").unwrap_or(0),
    }
}

/// `PRETTY_NAME` of an os-release file.
fn os_image(os_release: &str) -> String {
    if os_release.is_empty() {
        return "Unknown".to_owned();
    }
    let name = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or("Linux", |name| name.trim().trim_matches('"')).to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn machine_identity_is_read() {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in [
            ("etc/machine-id", "0123\n"),
            ("sys/class/dmi/id/product_uuid", "EC2-4\n"),
            ("proc/sys/kernel/random/boot_id", "b-1\n"),
            ("etc/os-release", "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\n"),
            ("proc/meminfo", "MemTotal: 9 kB\nSwapTotal:        1048572 kB\n"),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let found = read(root.path(), "6.1.0-13-amd64".to_owned());
        let expected = Identity {
            machine_id: "0123".to_owned(),
            system_uuid: "EC2-4".to_owned(),
            boot_id: "b-1".to_owned(),
            kernel_version: "6.1.0-13-amd64".to_owned(),
            os_image: "Debian GNU/Linux 13 (trixie)".to_owned(),
            swap: 1_048_572 * 1024,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn missing_identity_files_are_empty_values() {
        let root = tempfile::tempdir().unwrap();
        let found = read(root.path(), "6.1".to_owned());
        let expected = Identity {
            kernel_version: "6.1".to_owned(),
            os_image: "Unknown".to_owned(),
            ..Identity::default()
        };
        assert_eq!(found, expected);
        assert_eq!(os_image("ID=x"), "Linux");
    }

    #[test]
    fn local_machine_identity_is_read() {
        let found = identity();
        assert!(!found.boot_id.is_empty() && !found.kernel_version.is_empty(), "{found:?}");
    }
}
