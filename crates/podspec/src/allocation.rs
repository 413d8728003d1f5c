//! The resizable resources of a pod, as numbers.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Index;
use std::str::FromStr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::quantity::Quantity;
use crate::resources::{self, Amounts, CPU, MEMORY, ResourceList};
use crate::view;

/// CPU and memory requests and limits of a container, or of a pod as a whole. Zero means
/// not set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Size {
    /// CPU request in thousandths.
    pub cpu_request: i64,
    /// CPU limit in thousandths.
    pub cpu_limit: i64,
    /// Memory request in bytes.
    pub memory_request: i64,
    /// Memory limit in bytes.
    pub memory_limit: i64,
}

/// A text that cannot be parsed as a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a size is four numbers")]
pub struct SizeError;

impl Size {
    /// The size in resources of the API.
    pub fn of(resources: Option<&ResourceRequirements>) -> Self {
        let requests = resources::amounts(resources.and_then(|part| part.requests.as_ref()));
        let limits = resources::amounts(resources.and_then(|part| part.limits.as_ref()));
        Self::of_amounts(&requests, &limits)
    }

    fn of_amounts(requests: &Amounts, limits: &Amounts) -> Self {
        let cpu = |amounts: &Amounts| amounts.get(CPU).map_or(0, Quantity::milli_value);
        let memory = |amounts: &Amounts| amounts.get(MEMORY).map_or(0, Quantity::value);
        Self {
            cpu_request: cpu(requests),
            cpu_limit: cpu(limits),
            memory_request: memory(requests),
            memory_limit: memory(limits),
        }
    }

    /// The size of a container: if it has no own limit, that of its pod applies.
    pub fn effective(pod: &Pod, container: &Container) -> Self {
        let own = Self::of(container.resources.as_ref());
        let whole = Self::of_amounts(&Amounts::new(), &resources::limits_of_whole(pod));
        let or = |own: i64, whole: i64| if own == 0 { whole } else { own };
        Self {
            cpu_limit: or(own.cpu_limit, whole.cpu_limit),
            memory_limit: or(own.memory_limit, whole.memory_limit),
            ..own
        }
    }

    /// The larger value of each field.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            cpu_request: self.cpu_request.max(other.cpu_request),
            cpu_limit: self.cpu_limit.max(other.cpu_limit),
            memory_request: self.memory_request.max(other.memory_request),
            memory_limit: self.memory_limit.max(other.memory_limit),
        }
    }

    /// The more permissive value of each field; for limits, none is the most permissive.
    #[must_use]
    pub fn most(self, other: Self) -> Self {
        let limit = |own: i64, other: i64| if own == 0 || other == 0 { 0 } else { own.max(other) };
        Self {
            cpu_limit: limit(self.cpu_limit, other.cpu_limit),
            memory_limit: limit(self.memory_limit, other.memory_limit),
            ..self.max(other)
        }
    }

    /// Writes it into resources of the API. Equal values keep their
    /// notation.
    fn put_into(self, resources: &mut Option<ResourceRequirements>) {
        if Self::of(resources.as_ref()) == self {
            return;
        }
        let part = resources.get_or_insert_default();
        put(&mut part.requests, self.cpu_request, self.memory_request);
        put(&mut part.limits, self.cpu_limit, self.memory_limit);
    }
}

fn put(list: &mut Option<ResourceList>, cpu: i64, memory: i64) {
    let had = Size::of_amounts(&resources::amounts(list.as_ref()), &Amounts::new());
    let mut all = list.take().unwrap_or_default();
    let amounts = [
        (CPU, cpu, had.cpu_request, thousandths(cpu)),
        (MEMORY, memory, had.memory_request, bytes(memory)),
    ];
    for (name, number, had, written) in amounts {
        if number == 0 {
            all.remove(name);
        } else if number != had {
            all.insert(name.to_owned(), written);
        }
    }
    *list = Some(all).filter(|all| !all.is_empty());
}

/// A number of thousandths in the API's notation.
pub fn thousandths(number: i64) -> ApiQuantity {
    written(format!("{number}m"))
}

/// A number of bytes in the API's notation.
pub fn bytes(number: i64) -> ApiQuantity {
    if number % 1024 == 0 {
        written(format!("{}Ki", number / 1024))
    } else {
        written(number.to_string())
    }
}

fn written(text: String) -> ApiQuantity {
    ApiQuantity(Quantity::parse(&text).map_or(text, |quantity| quantity.to_string()))
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu_request, cpu_limit, memory_request, memory_limit } = self;
        write!(f, "{cpu_request} {cpu_limit} {memory_request} {memory_limit}")
    }
}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let numbers: Result<Vec<i64>, _> = text.split(' ').map(str::parse).collect();
        match numbers.as_deref() {
            Ok([cpu_request, cpu_limit, memory_request, memory_limit]) => Ok(Self {
                cpu_request: *cpu_request,
                cpu_limit: *cpu_limit,
                memory_request: *memory_request,
                memory_limit: *memory_limit,
            }),
            _ => Err(SizeError),
        }
    }
}

/// The sizes of containers by name. Stored for every pod, most of which have one or two containers: a sorted list
/// without spare capacity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerSizes(Box<[(Box<str>, Size)]>);

impl ContainerSizes {
    /// The size of a container.
    pub fn get(&self, name: &str) -> Option<&Size> {
        self.position(name).map(|position| &self.0[position].1)
    }

    /// The size of a container, mutable.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Size> {
        self.position(name).map(|position| &mut self.0[position].1)
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.0.binary_search_by(|(known, _)| (**known).cmp(name)).ok()
    }

    /// All sizes, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Size)> {
        self.0.iter().map(|(name, size)| (&**name, size))
    }

    /// All sizes, mutable.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut Size)> {
        self.0.iter_mut().map(|(name, size)| (&**name, size))
    }
}

impl Index<&str> for ContainerSizes {
    type Output = Size;

    fn index(&self, name: &str) -> &Size {
        self.get(name).expect("a container of that name")
    }
}

/// Of several entries with one name the last is used.
impl FromIterator<(Box<str>, Size)> for ContainerSizes {
    fn from_iter<T: IntoIterator<Item = (Box<str>, Size)>>(all: T) -> Self {
        let sorted: BTreeMap<Box<str>, Size> = all.into_iter().collect();
        Self(sorted.into_iter().collect())
    }
}

impl Serialize for ContainerSizes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for ContainerSizes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let sizes = BTreeMap::<Box<str>, Size>::deserialize(deserializer)?;
        Ok(sizes.into_iter().collect())
    }
}

/// The allocated resources of a pod: those of its containers, and pod-level ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// Pod-level resources, if set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<Size>,
    /// Resources of init and regular containers, by name.
    pub containers: ContainerSizes,
}

impl Allocation {
    /// The requested resources of a pod.
    pub fn of(pod: &Pod) -> Self {
        let whole = view::spec(pod).and_then(|spec| spec.resources.as_ref());
        let all = view::init_containers(pod).iter().chain(view::containers(pod));
        Self {
            whole: whole.map(|whole| Size::of(Some(whole))),
            containers: all
                .map(|one| (one.name.as_str().into(), Size::of(one.resources.as_ref())))
                .collect(),
        }
    }

    /// The pod with these resources in place of the requested ones; the same pod if they are equal. Containers
    /// that are missing here keep their requested resources.
    pub fn applied(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        if self.is_of(pod) {
            return Arc::clone(pod);
        }
        let mut pod = Pod::clone(pod);
        if let Some(spec) = &mut pod.spec {
            match self.whole {
                Some(size) => size.put_into(&mut spec.resources),
                None => spec.resources = None,
            }
            let inits = spec.init_containers.iter_mut().flatten();
            for container in inits.chain(&mut spec.containers) {
                if let Some(size) = self.containers.get(&container.name) {
                    size.put_into(&mut container.resources);
                }
            }
        }
        Arc::new(pod)
    }

    /// Whether a pod requests exactly these resources.
    pub fn is_of(&self, pod: &Pod) -> bool {
        let wanted = Self::of(pod);
        let is_same =
            |(name, size): (&str, &Size)| self.containers.get(name).is_none_or(|own| own == size);
        self.whole == wanted.whole && wanted.containers.iter().all(is_same)
    }

    /// The text for the annotation of a sandbox.
    pub fn note(&self) -> String {
        serde_json::to_string(self).expect("names and numbers serialize to JSON")
    }

    /// Parses such a text; `None` if it is invalid.
    pub fn noted(note: &str) -> Option<Self> {
        serde_json::from_str(note).ok()
    }

    /// The larger value of each field.
    #[must_use]
    pub fn max(&self, other: &Self) -> Self {
        let mut containers: BTreeMap<Box<str>, Size> = self.containers.0.iter().cloned().collect();
        for (name, size) in other.containers.iter() {
            let own = containers.entry(name.into()).or_default();
            *own = own.max(*size);
        }
        let whole = match (self.whole, other.whole) {
            (Some(own), Some(other)) => Some(own.max(other)),
            (own, other) => own.or(other),
        };
        Self { whole, containers: containers.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decode;

    fn pod(spec: &str) -> Arc<Pod> {
        let manifest = format!("# YAML\n{{apiVersion: v1, kind: Pod, spec: {{{spec}}}}}");
        Arc::new(decode(manifest.as_bytes()).unwrap().pods.remove(0))
    }

    fn sized(resources: &str) -> Arc<Pod> {
        pod(&format!("containers: [{{name: a, resources: {{{resources}}}}}, {{name: b}}]"))
    }

    fn resources(pod: &Pod) -> String {
        serde_json::to_string(&view::containers(pod)[0].resources).unwrap()
    }

    #[test]
    fn allocation_replaces_requested_resources() {
        let wanted = "requests: {cpu: 200m, memory: 2Gi, example.com/x: 1}, limits: {cpu: 0.5}";
        let rows = [
            ("requests: {cpu: 0.2, memory: 2Gi}, limits: {cpu: 500m}", true, ""),
            (
                "requests: {cpu: 100m, memory: 1Gi}, limits: {cpu: 500m, memory: 1Gi}",
                false,
                r#"{"limits":{"cpu":"0.5","memory":"1Gi"},"requests":{"cpu":"100m","example.com/x":"1","memory":"1Gi"}}"#,
            ),
            ("", false, r#"{"requests":{"example.com/x":"1"}}"#),
        ];
        for (given, is_same, expected) in rows {
            let (desired, given) = (sized(wanted), Allocation::of(&sized(given)));
            let applied = given.applied(&desired);
            assert_eq!(given.is_of(&desired), is_same, "{given:?}");
            assert_eq!(Arc::ptr_eq(&applied, &desired), is_same, "{given:?}");
            assert_eq!(Allocation::of(&applied), given);
            if !is_same {
                assert_eq!(resources(&applied), expected);
            }
        }
    }

    #[test]
    fn sizes_are_found_by_name_and_serialized_as_a_map() {
        let size = |cpu_request| Size { cpu_request, ..Size::default() };
        let given_in_turn = [("b", 1), ("a", 2), ("c", 3), ("a", 4)];
        let mut sizes: ContainerSizes =
            given_in_turn.map(|(name, cpu)| (name.into(), size(cpu))).into_iter().collect();
        let all: Vec<(&str, i64)> =
            sizes.iter().map(|(name, one)| (name, one.cpu_request)).collect();
        assert_eq!(all, [("a", 4), ("b", 1), ("c", 3)], "the last entry of a name");
        assert_eq!((sizes.get("b"), sizes.get("d"), sizes["c"]), (Some(&size(1)), None, size(3)));
        *sizes.get_mut("b").unwrap() = size(7);
        sizes.iter_mut().filter(|(name, _)| *name == "c").for_each(|(_, one)| *one = size(8));
        assert_eq!((sizes["b"], sizes["c"], sizes.get_mut("d")), (size(7), size(8), None));
        let given = Allocation { whole: None, containers: sizes };
        let text = serde_json::to_string(&given).unwrap();
        let as_map: BTreeMap<&str, BTreeMap<&str, Size>> = serde_json::from_str(&text).unwrap();
        assert_eq!(as_map["containers"].get("a"), Some(&size(4)), "{text}");
        assert_eq!(serde_json::from_str::<Allocation>(&text).unwrap(), given);
        let other = Allocation::of(&pod("containers: [{name: d}, {name: a}]"));
        let containers = |all: &Allocation| {
            all.containers.iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(containers(&given.max(&other)), ["a", "b", "c", "d"]);
        assert_eq!(given.max(&other).containers["a"], size(4));
    }

    #[test]
    fn container_without_allocation_keeps_its_requests() {
        let given = Allocation::of(&pod("containers: [{name: other}]"));
        let desired = sized("requests: {cpu: 1}");
        assert!(given.is_of(&desired));
        assert!(Arc::ptr_eq(&given.applied(&desired), &desired));
    }

    #[test]
    fn pod_limit_applies_to_containers_without_limit() {
        let pod = pod("resources: {limits: {cpu: 2, memory: 1Gi}}, \
                       containers: [{name: a, resources: {limits: {cpu: 1}}}]");
        let size = Size::effective(&pod, &view::containers(&pod)[0]);
        assert_eq!((size.cpu_limit, size.memory_limit), (1000, 1 << 30));
        assert_eq!(Allocation::of(&pod).whole.unwrap().cpu_limit, 2000);
        assert_eq!(Allocation::of(&pod).containers["a"].memory_limit, 0);
    }

    proptest! {
        #[test]
        fn size_round_trips_through_text(
            cpu in (0_i64..1 << 40, 0_i64..1 << 40),
            memory in (0_i64..1 << 60, 0_i64..1 << 60),
        ) {
            let size = Size {
                cpu_request: cpu.0,
                cpu_limit: cpu.1,
                memory_request: memory.0,
                memory_limit: memory.1,
            };
            prop_assert_eq!(size.to_string().parse::<Size>(), Ok(size));
            let mut resources = None;
            size.put_into(&mut resources);
            prop_assert_eq!(Size::of(resources.as_ref()), size);
            prop_assert_eq!(size.max(Size::default()), size);
        }
    }

    #[test]
    fn allocation_round_trips_through_its_annotation() {
        let whole = "resources: {limits: {cpu: 2, memory: 1Gi}}, containers: [{name: a}]";
        for pod in [sized("requests: {cpu: 1}, limits: {memory: 2Gi}"), pod(whole)] {
            let given = Allocation::of(&pod);
            assert_eq!(Allocation::noted(&given.note()), Some(given));
        }
        for text in ["", "{}", "100m", "{\"containers\":[]}"] {
            assert_eq!(Allocation::noted(text), None, "{text}");
        }
    }

    #[test]
    fn invalid_size_is_rejected() {
        for text in ["", "1 2 3", "1 2 3 4 5", "a 2 3 4", "1  2 3 4"] {
            assert_eq!(text.parse::<Size>(), Err(SizeError), "{text}");
        }
    }
}
