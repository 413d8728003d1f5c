//! Kernel parameters: their names and namespaces.

/// The parameters of the IPC namespace, in full; two are the prefixes `kernel.shm*` and
/// `kernel.msg*`.
const IPC: [&str; 10] = [
    "kernel.sem",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
    "kernel.shm",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.msg",
];

/// A namespace with its own kernel parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Namespace {
    /// The IPC namespace.
    Ipc,
    /// The network namespace.
    Net,
}

impl Namespace {
    /// Upstream's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ipc => "IPC",
            Self::Net => "Net",
        }
    }

    /// The namespace of a parameter, by its name with dots or a prefix of it; `None` if it is
    /// the host's.
    pub fn of(name: &str) -> Option<Self> {
        if IPC.contains(&name) || name.starts_with("fs.mqueue.") {
            Some(Self::Ipc)
        } else if name.starts_with("net.") {
            Some(Self::Net)
        } else {
            None
        }
    }
}

/// A name in the form with dots. In the form with slashes, dots are part of a name, such as that of a network
/// interface.
pub fn dotted(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(first) if name[first..].starts_with('/') => {
            let swap = |c| match c {
                '/' => '.',
                '.' => '/',
                other => other,
            };
            name.chars().map(swap).collect()
        }
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_slashes_become_names_with_dots() {
        for (name, with_dots) in [
            ("net.ipv4.conf.eth0/100.forwarding", "net.ipv4.conf.eth0/100.forwarding"),
            ("net/ipv4/conf/eth0.100/forwarding", "net.ipv4.conf.eth0/100.forwarding"),
            ("kernel/shmmax", "kernel.shmmax"),
            ("plain", "plain"),
        ] {
            assert_eq!(dotted(name), with_dots);
        }
    }

    #[test]
    fn sysctl_belongs_to_a_namespace_or_the_host() {
        for (name, namespace) in [
            ("kernel.shm_rmid_forced", Some(Namespace::Ipc)),
            ("kernel.msg", Some(Namespace::Ipc)),
            ("fs.mqueue.msg_max", Some(Namespace::Ipc)),
            ("net.core.somaxconn", Some(Namespace::Net)),
            ("kernel.panic", None),
            ("network", None),
        ] {
            assert_eq!(Namespace::of(name), namespace, "{name}");
        }
    }
}
