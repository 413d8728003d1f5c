use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use testkit::pods::pod;

use super::*;

fn fixed(name: &str, uid: &str) -> Arc<Pod> {
    let pod = pod(name).uid(uid).on_node("node").annotation(annotations::CONFIG_HASH, uid);
    Arc::new(pod.annotation(annotations::CONFIG_SOURCE, annotations::SOURCE_FILE).build())
}

fn mirror(name: &str, of: &str) -> Arc<Pod> {
    let mirror = pod(name).uid("mirror").annotation(annotations::CONFIG_MIRROR, of);
    let (api_version, kind, name) = ("v1".to_owned(), "Node".to_owned(), "node".to_owned());
    let owner = OwnerReference { api_version, kind, name, ..OwnerReference::default() };
    let mirror = mirror.on_node("node");
    Arc::new(mirror.with(|pod| pod.metadata.owner_references = Some(vec![owner])).build())
}

fn going(mirror: &Arc<Pod>) -> Arc<Pod> {
    let mut mirror = Pod::clone(mirror);
    mirror.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    Arc::new(mirror)
}

fn present(pods: &[(&str, &str)]) -> BTreeMap<PodUid, PodName> {
    pods.iter().map(|(uid, name)| (PodUid::from(*uid), PodName::new("default", *name))).collect()
}

// behaviour: API-20, API-21, API-22, API-23
#[test]
fn each_static_pod_gets_one_mirror_and_others_are_deleted() {
    let web = fixed("web", "u1");
    let create = MirrorStep::Create(Arc::clone(&web));
    let (good, other) = (mirror("web", "u1"), mirror("web", "u0"));
    let gone = going(&good);
    let delete = |mirror: &Arc<Pod>, why| MirrorStep::Delete(Arc::clone(mirror), why);
    let rows = [
        ("missing", vec![&web], vec![], vec![], true, vec![create.clone()]),
        ("there", vec![&web], vec![("u1", "web")], vec![&good], true, vec![]),
        (
            "of another",
            vec![&web],
            vec![("u1", "web")],
            vec![&other],
            true,
            vec![delete(&other, "mirror-of-another")],
        ),
        ("the former one terminates", vec![&web], vec![("u0", "web")], vec![&other], true, vec![]),
        (
            "being deleted",
            vec![&web],
            vec![("u1", "web")],
            vec![&gone],
            true,
            vec![delete(&gone, "mirror-is-deleted")],
        ),
        ("left over", vec![], vec![], vec![&good], true, vec![delete(&good, "static-pod-is-gone")]),
        ("not all sources are ready", vec![], vec![], vec![&good], false, vec![]),
        ("terminates", vec![], vec![("u1", "web")], vec![&good], true, vec![]),
    ];
    for (row, wanted, there, mirrors, all_sources_ready, expected) in rows {
        let wanted = wanted.into_iter().cloned().collect();
        let pods = StaticPods { wanted, present: present(&there), all_sources_ready };
        let mirrors: Vec<Arc<Pod>> = mirrors.into_iter().cloned().collect();
        assert_eq!(mirror_steps(&pods, &mirrors), expected, "{row}");
    }
}

// behaviour: API-24
#[test]
fn mirror_has_the_spec_annotations_and_owner_node() {
    let node = OwnerNode { name: "node", uid: "node-uid" };
    let web = fixed("web", "u1");
    let mirror = mirror_of(&web, node, Timestamp::UNIX_EPOCH);
    let marks = mirror.metadata.annotations.as_ref().unwrap();
    assert_eq!(marks[annotations::CONFIG_HASH], "u1");
    assert_eq!(marks[annotations::CONFIG_MIRROR], "u1");
    assert_eq!(marks[annotations::CONFIG_SOURCE], "file");
    assert_eq!(marks[annotations::CONFIG_SEEN], "1970-01-01T00:00:00Z");
    let owner = &mirror.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!(
        (owner.kind.as_str(), owner.name.as_str(), owner.uid.as_str()),
        ("Node", "node", "node-uid")
    );
    assert_eq!(owner.controller, Some(true));
    assert_eq!(mirror.metadata.uid, None, "the API server assigns it");
    assert_eq!(mirror.spec, web.spec);
    let pods = StaticPods { wanted: vec![web], ..StaticPods::default() };
    assert_eq!(mirror_steps(&pods, &[Arc::new(mirror)]), [], "the mirror is correct");
}
