//! Queries: which entries match a name, ID or path.

use std::collections::BTreeSet;

use model::ids::without_runtime;

use crate::entry::{Entry, Inputs};

/// How an entry matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Match {
    /// By a name or a whole ID.
    Exact,
    /// By a prefix.
    Prefix,
}

/// A query: the name or ID of a container, sandbox, image or pod, or a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    what: String,
    /// The UIDs of pods that match, and how.
    pods: Option<(BTreeSet<String>, Match)>,
}

impl Query {
    /// A query as the user wrote it.
    pub fn new(what: &str) -> Self {
        let what = what.trim();
        // IDs are often copied with the prefix of the runtime.
        let what = without_runtime(what);
        Self { what: what.to_owned(), pods: None }
    }

    /// Extends the query to objects of these pods that have only a UID.
    pub(crate) fn and_of_pods(&self, pods: BTreeSet<String>, by: Match) -> Self {
        Self { pods: Some((pods, by)), ..self.clone() }
    }

    /// Whether the pod of an entry matches.
    pub(crate) fn matches_pod_of(&self, entry: &Entry) -> bool {
        let Some(pod) = entry.pod.as_deref().filter(|_| !self.what.is_empty()) else {
            return false;
        };
        let name = pod.rsplit('/').next().unwrap_or_default();
        [pod, name].iter().any(|called| *called == self.what || self.is_begun(called))
    }

    /// Whether the query is a prefix of the name of a pod: a static pod has the node's name as suffix,
    /// a pod of a set a number.
    fn is_begun(&self, pod: &str) -> bool {
        pod.strip_prefix(self.what.as_str()).is_some_and(|rest| rest.starts_with('-'))
    }

    /// Whether an entry matches.
    pub fn matches(&self, entry: &Entry) -> Option<Match> {
        if let (Some((pods, by)), None, Some(uid)) = (&self.pods, &entry.pod, &entry.pod_uid)
            && pods.contains(uid)
        {
            return Some(*by);
        }
        let pod = entry.pod.as_deref().unwrap_or_default();
        let uid = entry.pod_uid.as_deref().unwrap_or_default();
        let is_image = entry.is_of_image();
        let thing = QueryTarget { id: &entry.id, name: &entry.name, pod, uid, is_image };
        self.matches_any_name(&thing, &entry.detail)
    }

    /// Whether an object matches by its name, or by another name in its detail: an image may have
    /// many names.
    pub fn matches_any_name(&self, thing: &QueryTarget<'_>, detail: &Inputs) -> Option<Match> {
        let others = detail.texts("names").filter(|_| thing.is_image);
        let things = others.map(|name| QueryTarget { name, ..*thing }).chain([*thing]);
        things.filter_map(|thing| self.match_target(&thing)).min()
    }

    /// Whether an object matches.
    fn match_target(&self, thing: &QueryTarget<'_>) -> Option<Match> {
        let what = self.what.as_str();
        if what.is_empty() {
            return None;
        }
        let pod_name = thing.pod.rsplit('/').next().unwrap_or_default();
        let digest = thing.id.rsplit(':').next().unwrap_or_default();
        let file = thing.id.rsplit('/').next().unwrap_or_default();
        let manifest = thing.name.split_once('@').filter(|_| thing.is_image);
        let manifest = manifest.map_or("", |(_, manifest)| manifest);
        let manifests = [manifest, manifest.rsplit(':').next().unwrap_or_default()];
        let of_pod = |pod: &str| {
            let container = what.strip_prefix(pod).and_then(|rest| rest.strip_prefix('/'));
            !pod.is_empty() && !thing.name.is_empty() && container == Some(thing.name)
        };
        let exact = [thing.name, thing.id, digest, file, thing.pod, pod_name, thing.uid];
        if exact.contains(&what)
            || manifests.contains(&what)
            || of_pod(thing.pod)
            || of_pod(pod_name)
            || (thing.is_image && names_image(thing.name, what))
        {
            return Some(Match::Exact);
        }
        let mut ids = [thing.id, digest, thing.uid].into_iter().chain(manifests);
        let begins = ids.any(|id| id.starts_with(what));
        (begins || self.is_begun(thing.pod) || self.is_begun(pod_name)).then_some(Match::Prefix)
    }
}

/// The properties of an object that a query can match.
#[derive(Debug, Clone, Copy)]
pub struct QueryTarget<'a> {
    /// Its id or path.
    pub id: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its pod, as `NAMESPACE/NAME`; empty if it has none.
    pub pod: &'a str,
    /// Its pod's uid; empty if it has none.
    pub uid: &'a str,
    /// Whether its name is that of an image, which has short forms.
    pub is_image: bool,
}

/// Whether a query is a form of an image name: without registry or the folders before its last part, and
/// without tag or digest.
fn names_image(name: &str, what: &str) -> bool {
    let repository = name.split_once('@').map_or(name, |(repository, _)| repository);
    let folder = repository.rfind('/').map_or(0, |slash| slash + 1);
    let tag = repository[folder..].find(':').map(|colon| folder + colon);
    let forms = [name, repository, tag.map_or(repository, |tag| &repository[..tag])];
    let is_end = |form: &str| {
        form.strip_suffix(what).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    };
    forms.iter().any(|form| is_end(form))
}

#[cfg(test)]
mod tests {
    use model::verdict::{Detail, Input};

    use super::*;

    const ID: &str = "4f6c0e1d2a";

    fn means(what: &str, thing: QueryTarget<'_>) -> Option<Match> {
        Query::new(what).match_target(&thing)
    }

    #[test]
    fn container_matches_by_name_id_or_pod() {
        let thing = QueryTarget {
            id: ID,
            name: "main",
            pod: "default/web-node",
            uid: "77aa-1",
            is_image: false,
        };
        for what in [
            "main",
            ID,
            "containerd://4f6c0e1d2a",
            "default/web-node",
            "web-node",
            "77aa-1",
            "default/web-node/main",
            "web-node/main",
            " main ",
        ] {
            assert_eq!(means(what, thing), Some(Match::Exact), "{what}");
        }
        for what in ["4f6", "4", "77aa", "web", "default/web"] {
            assert_eq!(means(what, thing), Some(Match::Prefix), "{what}");
        }
        for what in ["", "mai", "f6c", "we", "other/web-node", "node", "default", "web-node/other"]
        {
            assert_eq!(means(what, thing), None, "{what}");
        }
    }

    #[test]
    fn image_matches_by_any_form_of_its_name() {
        let name = "registry.example:5000/team/web:1.2";
        let thing = QueryTarget { id: "sha256:abcd12", name, pod: "", uid: "", is_image: true };
        for what in [
            name,
            "team/web:1.2",
            "web:1.2",
            "web",
            "team/web",
            "registry.example:5000/team/web",
            "sha256:abcd12",
            "abcd12",
        ] {
            assert_eq!(means(what, thing), Some(Match::Exact), "{what}");
        }
        assert_eq!(means("abc", thing), Some(Match::Prefix));
        assert_eq!(means("sha256:ab", thing), Some(Match::Prefix));
        for what in ["eb", "web:1", "1.2", "team", "registry.example:5000"] {
            assert_eq!(means(what, thing), None, "{what}");
        }
        let pinned = QueryTarget { name: "a/web@sha256:ffee", ..thing };
        for what in ["web", "web@sha256:ffee", "sha256:ffee", "ffee"] {
            assert_eq!(means(what, pinned), Some(Match::Exact), "{what}");
        }
        assert_eq!(means("sha256:ff", pinned), Some(Match::Prefix));
        assert_eq!(means("ee", pinned), None);
    }

    #[test]
    fn image_matches_by_each_of_its_names() {
        let names = ["a/web:1", "b/other:2", "a/web@sha256:ffee"].map(str::to_owned);
        let detail = Detail::default().with("names", Input::Texts(names.to_vec()));
        let detail = Inputs::from(&detail);
        let thing =
            QueryTarget { id: "sha256:abcd12", name: "a/web:1", pod: "", uid: "", is_image: true };
        let means =
            |what: &str, thing: QueryTarget<'_>| Query::new(what).matches_any_name(&thing, &detail);
        for what in ["web:1", "a/web", "other", "b/other:2", "web@sha256:ffee", "sha256:ffee"] {
            assert_eq!(means(what, thing), Some(Match::Exact), "{what}");
        }
        assert_eq!(means("ff", thing), Some(Match::Prefix));
        assert_eq!(means("other:1", thing), None);
        // Names in the detail of a container are not its own.
        assert_eq!(means("other", QueryTarget { is_image: false, ..thing }), None);
    }

    #[test]
    fn log_matches_by_its_path_and_file_name() {
        let id = "/var/log/pods/default_web_77aa/main/0.log";
        let thing = QueryTarget { id, name: "main", pod: "", uid: "77aa", is_image: false };
        assert_eq!(means(id, thing), Some(Match::Exact));
        assert_eq!(means("0.log", thing), Some(Match::Exact));
        assert_eq!(means("/var/log/pods/default_web", thing), Some(Match::Prefix));
    }
}
