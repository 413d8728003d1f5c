//! The content of the node's `CSINode`. There are no storage drivers yet.

use k8s_openapi::api::storage::v1::{CSINode, CSINodeSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// The annotation with the in-tree plugins that are migrated to CSI.
pub const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";
/// The plugins migrated on every node of this version.
const PLUGINS: &str = "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,\
                       kubernetes.io/cinder,kubernetes.io/gce-pd,kubernetes.io/portworx-volume,\
                       kubernetes.io/vsphere-volume";

/// A write that corrects the CSI node.
#[derive(Debug, Clone, PartialEq)]
pub enum CsiNodeWrite {
    /// It does not exist.
    Create(CSINode),
    /// It lacks the annotation, or belongs to an earlier node of that name.
    Update(CSINode),
}

/// The write that the CSI node of a node needs, if any.
pub fn csi_node(found: Option<CSINode>, node: &str, node_uid: &str) -> Option<CsiNodeWrite> {
    let Some(mut found) = found else {
        let metadata = ObjectMeta { name: Some(node.to_owned()), ..ObjectMeta::default() };
        let mut new = CSINode { metadata, spec: CSINodeSpec { drivers: Vec::new() } };
        new.metadata.owner_references = Some(vec![owner(node, node_uid)]);
        annotate(&mut new);
        return Some(CsiNodeWrite::Create(new));
    };
    let before = found.clone();
    let owners = found.metadata.owner_references.get_or_insert_default();
    let is_own =
        |one: &OwnerReference| one.kind == "Node" && one.name == node && one.uid == node_uid;
    if !owners.iter().any(is_own) {
        // The drivers are those of the earlier node.
        *owners = vec![owner(node, node_uid)];
        found.spec.drivers.clear();
    }
    annotate(&mut found);
    (found != before).then_some(CsiNodeWrite::Update(found))
}

fn owner(node: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.to_owned(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    }
}

fn annotate(node: &mut CSINode) {
    let annotations = node.metadata.annotations.get_or_insert_default();
    annotations.insert(MIGRATED_PLUGINS.to_owned(), PLUGINS.to_owned());
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::storage::v1::CSINodeDriver;

    use super::*;

    fn made() -> CSINode {
        match csi_node(None, "n", "u1") {
            Some(CsiNodeWrite::Create(node)) => node,
            other => panic!("{other:?}"),
        }
    }

    // behaviour: NODE-72
    #[test]
    fn csi_node_has_no_drivers_and_belongs_to_the_node() {
        let node = made();
        assert_eq!(node.metadata.name.as_deref(), Some("n"));
        assert!(node.spec.drivers.is_empty());
        let owners = node.metadata.owner_references.clone().unwrap();
        let [owner] = &*owners else { panic!("{owners:?}") };
        let found = [&owner.api_version, &owner.kind, &owner.name, &owner.uid];
        assert_eq!(found, ["v1", "Node", "n", "u1"]);
        let annotations = node.metadata.annotations.clone().unwrap();
        let plugins: Vec<&str> = annotations[MIGRATED_PLUGINS].split(',').collect();
        assert_eq!(plugins.len(), 7);
        assert!(plugins.is_sorted() && plugins.contains(&"kubernetes.io/gce-pd"));
        assert_eq!(csi_node(Some(node), "n", "u1"), None);
    }

    // behaviour: NODE-72
    #[test]
    fn csi_node_of_an_earlier_node_is_replaced() {
        let mut node = made();
        let driver = CSINodeDriver { name: "d".to_owned(), ..CSINodeDriver::default() };
        node.spec.drivers.push(driver);
        // The drivers of this node stay.
        assert_eq!(csi_node(Some(node.clone()), "n", "u1"), None);
        let Some(CsiNodeWrite::Update(replaced)) = csi_node(Some(node.clone()), "n", "u2") else {
            panic!("no update")
        };
        assert!(replaced.spec.drivers.is_empty());
        assert_eq!(replaced.metadata.owner_references.unwrap()[0].uid, "u2");
        node.metadata.annotations = None;
        let Some(CsiNodeWrite::Update(annotated)) = csi_node(Some(node), "n", "u1") else {
            panic!("no update")
        };
        assert_eq!(annotated.spec.drivers.len(), 1);
    }
}
