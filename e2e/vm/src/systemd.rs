//! A machine whose pid 1 is the host's systemd.

use std::path::Path;

use anyhow::{Result, ensure};

use crate::Root;
use guest::PROGRAM;

const SYSTEMD: &str = "/lib/systemd/systemd";
/// The program with which newer versions start services.
const EXECUTOR: &str = "/lib/systemd/systemd-executor";
const SYSTEMCTL: &str = "/bin/systemctl";
const LOGIND: &str = "/lib/systemd/systemd-logind";
const BUS: &str = "/usr/bin/dbus-daemon";
const BUS_CONFIG: &str = "/etc/dbus-1/system.conf";

/// The target of systemd: the guest's program and a message bus, without the other units of a system.
const TARGET: &str = "[Unit]\nDescription=The machine of a test\nWants=dbus.service guest.service\nAfter=dbus.service\n";

const BUS_SOCKET: &str = "[Unit]\nDescription=Where the bus is spoken to\nDefaultDependencies=no\n\n\
    [Socket]\nListenStream=/run/dbus/system_bus_socket\n";

/// Every process in the machine may use the bus.
const BUS_POLICY: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path=/run/dbus/system_bus_socket</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <allow own="*"/>
    <allow send_destination="*" eavesdrop="true"/>
    <allow receive_sender="*" eavesdrop="true"/>
  </policy>
</busconfig>
"#;

fn bus() -> String {
    format!(
        "[Unit]\nDescription=The bus\nDefaultDependencies=no\nRequires=dbus.socket\n\n[Service]\n\
         Type=notify\nExecStart={BUS} --config-file={BUS_CONFIG} --address=systemd: --nofork --nopidfile \
         --systemd-activation\n"
    )
}

/// Programs of the test are in this unit's cgroup, and end with the machine.
fn service() -> String {
    format!(
        "[Unit]\nDescription=What does in the machine what the test asks for\nDefaultDependencies=no\nAfter=dbus.service\n\n\
         [Service]\nExecStart={PROGRAM} serve\nDelegate=yes\nOOMPolicy=continue\nKillMode=process\n\
         TasksMax=infinity\nStandardOutput=file:/dev/console\nStandardError=file:/dev/console\n"
    )
}

/// The login manager, as its own unit has it.
const LOGIND_UNIT: &str = "[Unit]\nDescription=The login manager\nDefaultDependencies=no\nAfter=dbus.service\n\n\
    [Service]\nType=notify\nBusName=org.freedesktop.login1\nExecStart=/lib/systemd/systemd-logind\n\
    RuntimeDirectory=systemd/sessions systemd/seats systemd/users systemd/inhibit systemd/shutdown\n\
    RuntimeDirectoryPreserve=yes\nFileDescriptorStoreMax=512\n";

/// Adds systemd's login manager to the files of a machine that has systemd. It cannot shut the machine down: there is no
/// unit for that, so it cancels a shutdown when it would begin.
pub fn put_logind(root: &mut Root) -> Result<()> {
    ensure!(Path::new(LOGIND).exists(), "{LOGIND} is missing: run `make testbed`");
    root.program(LOGIND, Path::new(LOGIND))?;
    root.text("/etc/systemd/system/systemd-logind.service", LOGIND_UNIT);
    Ok(())
}

/// Adds systemd to a machine's files; returns the path of pid 1.
pub fn put_systemd(root: &mut Root) -> Result<String> {
    for program in [SYSTEMD, SYSTEMCTL, BUS] {
        ensure!(Path::new(program).exists(), "{program} is missing: run `make testbed`");
        root.program(program, Path::new(program))?;
    }
    if Path::new(EXECUTOR).exists() {
        root.program(EXECUTOR, Path::new(EXECUTOR))?;
    }
    root.text("/etc/systemd/system/default.target", TARGET);
    root.text("/etc/systemd/system/guest.service", service());
    root.text("/etc/systemd/system/dbus.socket", BUS_SOCKET);
    root.text("/etc/systemd/system/dbus.service", bus());
    root.text(BUS_CONFIG, BUS_POLICY);
    root.text("/etc/machine-id", "f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0\n");
    root.text("/etc/os-release", "ID=test\n");
    root.link("/usr/lib/systemd", "../../lib/systemd");
    Ok(SYSTEMD.to_owned())
}
