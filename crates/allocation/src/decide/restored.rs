//! Restores the resources of a pod that an earlier agent admitted.

use k8s_openapi::api::core::v1::Pod;
use model::observed::{RuntimePodStatus, SandboxState};
use podspec::{Allocation, Size, Sizes, actual};

/// The resources of a restored pod, from the first of these sources: the checkpoint, the current or last resources of
/// its containers, the resources at the creation of its live sandbox, its requests.
pub fn restored(
    pod: &Pod,
    record: Option<&Allocation>,
    observed: Option<&RuntimePodStatus>,
    sizes: &Sizes,
) -> Allocation {
    if let Some(given) = record {
        return given.clone();
    }
    // If an earlier agent was killed right after it started a pod, this is the only record. A dead sandbox
    // may belong to an earlier life.
    let newest = observed.and_then(|observed| observed.sandboxes.first());
    let living = newest.filter(|sandbox| sandbox.state == SandboxState::Ready);
    let noted = living.and_then(|sandbox| Allocation::noted(sandbox.given.as_deref()?));
    let mut allocation = noted.unwrap_or_else(|| Allocation::of(pod));
    // Containers do not show pod-level resources.
    if allocation.whole.is_none() {
        for (name, own) in allocation.containers.iter_mut() {
            let latest = observed.and_then(|observed| observed.latest(name));
            if let Some(had) = latest.and_then(|latest| actual(latest, sizes)) {
                *own = had.most();
            }
        }
    }
    allocation
}

/// The resources that a pod may still have from an earlier agent. Running containers count with
/// their actual resources, other containers with the allocated ones. At pod level, the larger of
/// the allocated and the previous resources counts while a container runs.
pub fn still_has(
    given: &Allocation,
    before: Option<&Allocation>,
    observed: Option<&RuntimePodStatus>,
    sizes: &Sizes,
) -> Allocation {
    let mut had = given.clone();
    let runs = observed.is_some_and(|observed| observed.running().next().is_some());
    if let Some(before) = before.and_then(|before| before.whole).filter(|_| runs) {
        had.whole = had.whole.map(|whole| whole.max(before));
    }
    for (name, size) in running(observed, sizes) {
        if let Some(own) = had.containers.get_mut(name) {
            // A pod-level limit is a limit of each container, but not a request.
            own.cpu_request = size.cpu_request;
            own.memory_request = size.memory_request;
        }
    }
    had
}

fn running<'a>(
    observed: Option<&'a RuntimePodStatus>,
    sizes: &'a Sizes,
) -> impl Iterator<Item = (&'a str, Size)> {
    let all = observed.into_iter().flat_map(RuntimePodStatus::running);
    all.filter_map(move |one| Some((&*one.name, actual(one, sizes)?.most())))
}

#[cfg(test)]
mod tests {
    use model::ids::ContainerId;
    use model::labels;
    use model::observed::{ContainerState, SandboxStatus};
    use podspec::{Actual, Origin, read_manifest};

    use super::*;

    fn pod(spec: &str) -> Pod {
        let manifest = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, uid: web}}\nspec: {{{spec}}}\n"
        );
        let origin = Origin::File("/manifests/web.yaml".into());
        read_manifest(manifest.as_bytes(), &origin, "node").unwrap().pods.remove(0)
    }

    fn requesting(cpu: &str) -> Pod {
        pod(&format!(
            "containers: [{{name: main, image: i, resources: {{requests: {{cpu: {cpu}}}}}}}]"
        ))
    }

    fn size(cpu_request: i64) -> Size {
        Size { cpu_request, ..Size::default() }
    }

    /// An instance of the container, created with this CPU request.
    fn observed(state: ContainerState, made_with: Option<i64>) -> RuntimePodStatus {
        let mut instance = testkit::observed::container_status("c1", "main", state);
        if let Some(cpu) = made_with {
            let text = size(cpu).to_string();
            instance.annotations.insert(labels::CONTAINER_SIZE.to_owned(), text);
        }
        let mut status = RuntimePodStatus::empty("web".into());
        status.containers = vec![instance];
        status
    }

    // behaviour: RSZ-8, RSZ-10
    #[test]
    fn checkpoint_takes_precedence_over_containers_and_those_over_requests() {
        use ContainerState::{Exited, Running};
        let record = Allocation::of(&requesting("400m"));
        let none = Sizes::new();
        let changed = Sizes::from([(ContainerId::from("c1"), Actual::from(size(300)))]);
        let unsure = Actual { size: size(300), unsure: Some(size(350)) };
        let unsure = Sizes::from([(ContainerId::from("c1"), unsure)]);
        let made = Some(200);
        let rows = [
            (Some(&record), Some(observed(Running, made)), &changed, 400),
            (None, Some(observed(Running, made)), &changed, 300),
            (None, Some(observed(Running, made)), &unsure, 350),
            (None, Some(observed(Running, made)), &none, 200),
            (None, Some(observed(Running, None)), &none, 100),
            (Some(&record), Some(observed(Exited, made)), &changed, 400),
            (None, Some(observed(Exited, made)), &changed, 300),
            (None, Some(observed(Exited, made)), &none, 200),
            (None, Some(observed(Exited, None)), &none, 100),
            (None, None, &changed, 100),
        ];
        for (row, (record, observed, sizes, expected)) in rows.into_iter().enumerate() {
            let given = restored(&requesting("100m"), record, observed.as_ref(), sizes);
            assert_eq!(given.containers["main"], size(expected), "row {row}");
        }
        let whole = pod("resources: {requests: {cpu: 2}}, containers: [{name: main, image: i}]");
        let given = restored(&whole, None, Some(&observed(Running, made)), &none);
        assert_eq!(given, Allocation::of(&whole), "its containers do not show it");
    }

    // behaviour: RSZ-30
    #[test]
    fn sandbox_resources_are_used_without_checkpoint_and_containers() {
        use ContainerState::Running;
        let whole = |cpu: u32| {
            pod(&format!(
                "resources: {{requests: {{cpu: {cpu}}}}}, containers: [{{name: main, image: i}}]"
            ))
        };
        let unchanged = Sizes::new();
        let bearing = |mut status: RuntimePodStatus, notes: &[&str]| {
            let sandbox = |note: &&str| {
                let made = testkit::observed::sandbox_status("s", SandboxState::Ready);
                SandboxStatus { given: Some((*note).into()), ..made }
            };
            status.sandboxes = notes.iter().map(sandbox).collect();
            status
        };
        let empty = || RuntimePodStatus::empty("web".into());
        let note = Allocation::of(&whole(1)).note();
        let of_whole =
            |status: &RuntimePodStatus| restored(&whole(100), None, Some(status), &unchanged);
        for status in [empty(), observed(Running, Some(200))] {
            let given = of_whole(&bearing(status, &[&note, "older"]));
            assert_eq!(given, Allocation::of(&whole(1)));
        }
        let given = of_whole(&bearing(empty(), &["forged", &note]));
        assert_eq!(given, Allocation::of(&whole(100)), "the newest sandbox is used");
        let mut dead = bearing(empty(), &[&note]);
        dead.sandboxes[0].state = SandboxState::NotReady;
        assert_eq!(
            of_whole(&dead),
            Allocation::of(&whole(100)),
            "it may belong to an earlier life"
        );
        // One of two containers was created.
        let two = |cpu: &str| {
            let part = |name: &str| {
                format!("{{name: {name}, image: i, resources: {{requests: {{cpu: {cpu}}}}}}}")
            };
            pod(&format!("containers: [{}, {}]", part("main"), part("other")))
        };
        let note = Allocation::of(&two("100m")).note();
        let status = bearing(observed(Running, Some(200)), &[&note]);
        let given = restored(&two("9"), None, Some(&status), &unchanged);
        assert_eq!((given.containers["main"], given.containers["other"]), (size(200), size(100)));
        let record = Allocation::of(&two("300m"));
        assert_eq!(restored(&two("9"), Some(&record), Some(&status), &unchanged), record);
    }

    // behaviour: RSZ-5
    #[test]
    fn running_containers_may_still_have_more_than_allocated() {
        let given = Allocation::of(&requesting("100m"));
        let sizes = Sizes::from([(ContainerId::from("c1"), Actual::from(size(300)))]);
        let runs = observed(ContainerState::Running, None);
        let had = still_has(&given, None, Some(&runs), &sizes);
        assert_eq!(had.containers["main"].cpu_request, 300);
        let ended = observed(ContainerState::Exited, None);
        assert_eq!(still_has(&given, None, Some(&ended), &sizes), given);
        // Only the checkpoint has pod-level resources.
        let whole = |cpu: u32| {
            let spec = format!("resources: {{requests: {{cpu: {cpu}}}}}, ");
            Allocation::of(&pod(&(spec + "containers: [{name: main, image: i}]")))
        };
        let (given, before, none) = (whole(1), whole(3), Sizes::new());
        let of =
            |observed: &RuntimePodStatus| still_has(&given, Some(&before), Some(observed), &none);
        assert_eq!((of(&runs).whole, of(&ended).whole), (before.whole, given.whole));
    }
}
