//! A control plane: its components start and stop separately, and certificates identify users.

use std::net::SocketAddr;
use std::time::Duration;

use testbed::{
    Command, Component, ControlPlane, ControlPlaneError, ControlPlaneOptions, Instance, Options,
    Runtime, User,
};

use crate::{alone, eventually, printed};

fn kubectl(control_plane: &ControlPlane, args: &[&str]) -> String {
    printed(&control_plane.kubectl(args).unwrap())
}

/// Whether a program listens there, seen from the host.
fn listens(address: SocketAddr) -> bool {
    std::net::TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
}

/// Runs kubectl with a user's kubeconfig.
fn allowed(instance: &Instance, control_plane: &ControlPlane, user: &User, args: &[&str]) -> bool {
    let kubeconfig = control_plane.kubeconfig(user).unwrap();
    let kubectl = testbed::Cache::from_env().unwrap().parts().program("kubectl");
    let command = Command::new(kubectl.display().to_string())
        .args(["--kubeconfig", &kubeconfig.display().to_string()])
        .args(args.iter().copied());
    instance.run(&command).unwrap().status.success()
}

/// One test, because a control plane takes its time to start.
#[test]
fn control_plane_starts_with_all_parts() {
    let _alone = alone();
    let options = Options { runtime: Runtime::None, ..Options::default() };
    let instance = Instance::start(&options).unwrap();
    let options =
        ControlPlaneOptions { scheduler: Some(Vec::new()), ..ControlPlaneOptions::default() };
    let mut control_plane = instance.start_control_plane(&options).unwrap();
    let (etcd, api_server) = (Component::Etcd, Component::ApiServer);
    assert_eq!(control_plane.started(), [etcd, api_server, Component::Scheduler].into());
    kubectl(&control_plane, &["create", "namespace", "kept"]);

    // Users are identified by name and group.
    let can_list = |user: &User| {
        allowed(&instance, &control_plane, user, &["auth", "can-i", "list", "services"])
    };
    assert!(can_list(&User::node("a")));
    assert!(can_list(&User::new("b").in_group("system:masters")));
    assert!(!can_list(&User::new("b")));

    // The API server can be stopped and started with the same content.
    let address = SocketAddr::from((instance.node_ip(), 6443));
    assert!(listens(address));
    control_plane.stop_component(api_server).unwrap();
    assert!(!listens(address));
    control_plane.start_component(api_server, &[]).unwrap();
    kubectl(&control_plane, &["get", "namespace", "kept"]);
    let error = control_plane.start_component(api_server, &[]).unwrap_err();
    assert!(matches!(error, ControlPlaneError::Running { .. }), "{error}");

    // A wipe removes etcd's data.
    control_plane.kill_component(api_server).unwrap();
    control_plane.wipe_etcd().unwrap_err();
    control_plane.kill_component(etcd).unwrap();
    control_plane.wipe_etcd().unwrap();
    control_plane.start_component(etcd, &[]).unwrap();
    control_plane.start_component(api_server, &[]).unwrap();
    eventually("the first namespace", || {
        let names = kubectl(&control_plane, &["get", "namespaces", "-o", "name"]);
        assert!(!names.contains("kept"), "{names}");
        names.contains("namespace/default\n").then_some(())
    });

    // A component that cannot start reports why.
    control_plane.kill_component(Component::Scheduler).unwrap();
    let flags = ["--no-such-flag".to_owned()];
    let error = control_plane.start_component(Component::Scheduler, &flags).unwrap_err();
    assert!(error.to_string().contains("unknown flag: --no-such-flag"), "{error}");
    instance.stop().unwrap();
}
