use super::*;

fn amounts(rows: &[(&str, &str)]) -> Amounts {
    rows.iter().map(|(name, text)| ((*name).to_owned(), Quantity::parse(text).unwrap())).collect()
}

fn list(rows: &[(&str, &str)]) -> ResourceList {
    rows.iter().map(|(name, text)| ((*name).to_owned(), ApiQuantity((*text).to_owned()))).collect()
}

// behaviour: NODE-14
#[test]
fn quantities_have_upstream_notation() {
    let own = amounts(&[
        ("cpu", "2000m"),
        ("memory", "16708005888"),
        ("ephemeral-storage", "90000"),
        ("hugepages-2Mi", "0"),
        ("hugepages-1Gi", "2147483648"),
        ("pods", "110"),
    ]);
    let expected = list(&[
        ("cpu", "2"),
        ("memory", "16316412Ki"),
        ("ephemeral-storage", "90000"),
        ("hugepages-2Mi", "0"),
        ("hugepages-1Gi", "2Gi"),
        ("pods", "110"),
    ]);
    assert_eq!(capacity(&ResourceList::new(), &own), expected);
    let part = capacity(&ResourceList::new(), &amounts(&[("cpu", "1750m"), ("memory", "1000")]));
    assert_eq!(part, list(&[("cpu", "1750m"), ("memory", "1k")]));
}

// behaviour: NODE-10
#[test]
fn foreign_resources_are_kept_and_fully_allocatable() {
    let own = amounts(&[("cpu", "2"), ("pods", "110")]);
    let before = list(&[("cpu", "2000m"), ("example.com/dongle", "3")]);
    let has = capacity(&before, &own);
    let expected = list(&[("cpu", "2000m"), ("example.com/dongle", "3"), ("pods", "110")]);
    assert_eq!(has, expected, "an equal quantity keeps its notation");
    let left = amounts(&[("cpu", "1500m"), ("pods", "110")]);
    let before = list(&[("example.com/gone", "1"), ("example.com/dongle", "1")]);
    let expected = list(&[("cpu", "1500m"), ("example.com/dongle", "3"), ("pods", "110")]);
    assert_eq!(allocatable(&before, &has, &left), expected);
}

#[test]
fn missing_resources_are_named() {
    let some = list(&[("cpu", "1"), ("pods", "1")]);
    assert_eq!(missing(&some, true), ["memory", "ephemeral-storage"]);
    assert_eq!(missing(&some, false), ["memory"]);
}

// behaviour: NODE-56
#[test]
fn devices_of_a_former_agent_are_set_to_zero() {
    let devices = ["cpu", "example.com/nic", "nvidia.com/gpu"].map(str::to_owned);
    let resources = |node: &Node| {
        let status = node.status.clone().unwrap_or_default();
        (status.capacity.unwrap_or_default(), status.allocatable.unwrap_or_default())
    };
    let mut node = Node::default();
    set_to_zero(&mut node, devices[..1].iter());
    assert_eq!(node, Node::default(), "other resources are not touched");
    let status = node.status.get_or_insert_default();
    status.capacity = Some(list(&[("cpu", "2"), ("nvidia.com/gpu", "4"), ("theirs.com/x", "1")]));
    set_to_zero(&mut node, devices.iter());
    let empty = [("example.com/nic", "0"), ("nvidia.com/gpu", "0")];
    let all = [&[("cpu", "2"), ("theirs.com/x", "1")][..], &empty[..]].concat();
    assert_eq!(resources(&node), (list(&all), list(&empty)));
}
