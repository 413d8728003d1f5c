//! The node's own cgroups, in memory.

use testkit::cgroups::MemoryCgroups;
use testkit::events::KeptNodeEvents;
use tokio::task::JoinSet;

use super::*;

fn name(path: &str) -> CgroupName {
    CgroupName::parse(path).unwrap()
}

fn cgroups() -> NodeCgroups {
    let mut cgroups = NodeCgroups::of_pods("/kubepods");
    cgroups.values.memory_limit = Some(1 << 30);
    cgroups
}

fn reserved() -> ReservedCgroup {
    ReservedCgroup {
        purpose: "System Reserved Compressible",
        setting: "/system".to_owned(),
        name: name("/system"),
        values: CgroupValues { cpu_shares: Some(256), ..CgroupValues::default() },
    }
}

fn reported(events: &KeptNodeEvents) -> Vec<(&'static str, String)> {
    events.all().into_iter().map(|event| (event.reason, event.message)).collect()
}

// behaviour: CGR-42
#[test]
fn underscore_of_the_cgroup_root_is_kept_in_the_slice_name() {
    let rows = [
        (CgroupDriver::Systemd, "/my_root", "/my_root.slice"),
        (CgroupDriver::Systemd, "/my-root", "/my_root.slice"),
        (CgroupDriver::Cgroupfs, "/my_root", "/my_root"),
    ];
    for (driver, configured, expected) in rows {
        assert_eq!(root_of_pods(configured, driver).unwrap().path(driver), expected);
    }
    assert!(root_of_pods("/a//../b", CgroupDriver::Systemd).is_err());
}

// behaviour: CGR-7
#[tokio::test]
async fn node_cgroups_are_created_once() {
    let (port, events) = (MemoryCgroups::default(), KeptNodeEvents::default());
    prepare(&port, &cgroups(), &events).await.unwrap();
    let all = port.all();
    let names: Vec<String> = all.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["/kubepods", "/kubepods/besteffort", "/kubepods/burstable"]);
    assert_eq!(all[&name("/kubepods")].memory_limit, Some(1 << 30));
    assert_eq!(all[&name("/kubepods/besteffort")].cpu_shares, Some(2));
    let requested = CgroupValues { cpu_shares: Some(512), ..CgroupValues::default() };
    port.update(&name("/kubepods/burstable"), &requested).await.unwrap();
    port.effects();
    prepare(&port, &cgroups(), &events).await.unwrap();
    assert_eq!(port.effects(), ["update /kubepods/burstable", "update /kubepods/besteffort"]);
    let shares = port.all()[&name("/kubepods/burstable")].cpu_shares;
    assert_eq!(shares, Some(512), "its pods run already");
}

// behaviour: CGR-6
#[tokio::test]
async fn missing_or_read_only_cgroup_root_aborts_start() {
    let (port, events) = (MemoryCgroups::default(), KeptNodeEvents::default());
    let elsewhere = NodeCgroups { root: name("/elsewhere"), ..cgroups() };
    let error = prepare(&port, &elsewhere, &events).await.unwrap_err();
    let error = format!("{error:#}");
    assert_eq!(error, "cgroupRoot: cgroup /elsewhere is missing in memory");
    port.set_broken(&name("/kubepods"), true);
    let error = format!("{:#}", prepare(&port, &cgroups(), &events).await.unwrap_err());
    assert_eq!(error, "make the cgroup of all pods: create /kubepods: permission denied");
}

// behaviour: CGR-23
#[tokio::test]
async fn reserved_cgroups_are_limited_but_never_created() {
    let (port, events) = (MemoryCgroups::default(), KeptNodeEvents::default());
    let cgroups = NodeCgroups { reserved: vec![reserved()], ..NodeCgroups::default() };
    let error = prepare(&port, &cgroups, &events).await.unwrap_err().to_string();
    let expected = "Failed to enforce System Reserved Compressible Cgroup Limits on \"/system\": \
                    cgroup /system is missing in memory";
    assert_eq!(error, expected);
    assert_eq!(reported(&events), [(NOT_ENFORCED, expected.to_owned())]);
    assert_eq!(port.effects(), [""; 0]);
    port.create(&name("/system"), &CgroupValues::default()).await.unwrap();
    prepare(&port, &cgroups, &events).await.unwrap();
    assert_eq!(port.all()[&name("/system")].cpu_shares, Some(256));
    assert_eq!(reported(&events).len(), 1, "success is reported by the running agent");
}

// behaviour: CGR-22
#[tokio::test(start_paused = true)]
async fn running_agent_reports_an_event_for_each_limited_cgroup() {
    let (port, events) = (Arc::new(MemoryCgroups::default()), Arc::new(KeptNodeEvents::default()));
    let cgroups = NodeCgroups { reserved: vec![reserved()], ..cgroups() };
    port.create(&name("/system"), &CgroupValues::default()).await.unwrap();
    prepare(&*port, &cgroups, &*events).await.unwrap();
    let (stop, mut task) = (CancellationToken::new(), JoinSet::new());
    let parts = (Arc::clone(&port) as _, Arc::clone(&events) as _);
    task.spawn(enforce(parts.0, cgroups, parts.1, stop.clone()));
    // A limit that must be written.
    tokio::time::sleep(RETRY).await;
    let of_system = "Updated limits on system reserved cgroup /system".to_owned();
    let of_pods = "Updated Node Allocatable limit across pods".to_owned();
    assert_eq!(reported(&events), [(ENFORCED, of_system), (ENFORCED, of_pods)]);
    stop.cancel();
    task.join_next().await.unwrap().unwrap();
}

// behaviour: CGR-24
#[tokio::test(start_paused = true)]
async fn pods_cgroup_limit_is_retried_until_it_is_set() {
    let (port, events) = (Arc::new(MemoryCgroups::default()), Arc::new(KeptNodeEvents::default()));
    prepare(&*port, &NodeCgroups::of_pods("/kubepods"), &*events).await.unwrap();
    port.set_broken(&name("/kubepods"), true);
    let stop = CancellationToken::new();
    let parts = (Arc::clone(&port) as _, Arc::clone(&events) as _);
    let mut task = JoinSet::new();
    task.spawn(enforce(parts.0, cgroups(), parts.1, stop.clone()));
    tokio::time::sleep(RETRY + RETRY / 2).await;
    assert_eq!(
        reported(&events).iter().map(|(why, _)| *why).collect::<Vec<_>>(),
        [NOT_ENFORCED; 2]
    );
    port.set_broken(&name("/kubepods"), false);
    tokio::time::sleep(RETRY).await;
    assert_eq!(port.all()[&name("/kubepods")].memory_limit, Some(1 << 30));
    let message = "Updated Node Allocatable limit across pods".to_owned();
    assert_eq!(reported(&events)[2..], [(ENFORCED, message)]);
    stop.cancel();
    task.join_next().await.unwrap().unwrap();
}
