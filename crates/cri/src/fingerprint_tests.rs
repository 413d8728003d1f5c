use std::collections::BTreeMap;

use proptest::prelude::*;
use prost::bytes::Buf as _;

use super::*;

/// The output for lists that arrive in pieces, each of this many fields.
fn handed_on(
    digest: &mut dyn Digest,
    list: &[u8],
    pieces: &[usize],
) -> Result<Fingerprint, Status> {
    let (mut sum, mut rest, mut handed_on) = (Fingerprint::default(), list, BytesMut::new());
    for fields in pieces {
        let before = rest;
        for _ in 0..*fields {
            next(&mut rest)?;
        }
        let fields = &before[..before.len() - rest.len()];
        digest.take(fields, false, &mut handed_on)?;
        assert!(handed_on.is_empty(), "the list is incomplete");
    }
    digest.take(rest, true, &mut handed_on)?;
    while handed_on.has_remaining() {
        assert_eq!(handed_on.get_u8(), 0);
        let length = handed_on.get_u32() as usize;
        sum =
            sum.and(FingerprintMessage::decode(handed_on.split_to(length)).unwrap().fingerprint());
    }
    Ok(sum)
}

fn texts() -> impl Strategy<Value = BTreeMap<String, String>> {
    prop::collection::btree_map("[a-z]{1,5}", "[a-z]{0,200}", 0..4)
}

prop_compose! {
    fn container()(
        id in "[0-9a-f]{0,70}",
        state in 0..6,
        (labels, annotations) in (texts(), texts()),
        created_at in any::<i64>(),
    ) -> cri::Container {
        let metadata = Some(cri::ContainerMetadata { name: id.clone(), attempt: 300 });
        cri::Container {
            id, state, labels, annotations, created_at, metadata, ..Default::default()
        }
    }
}

prop_compose! {
    fn sandbox()(
        id in "[0-9a-f]{0,70}",
        state in -1..4,
        (labels, annotations) in (texts(), texts()),
        created_at in any::<i64>(),
    ) -> cri::PodSandbox {
        cri::PodSandbox { id, state, labels, annotations, created_at, ..Default::default() }
    }
}

proptest! {
    #[test]
    fn list_fingerprint_equals_that_of_the_decoded_list(
        containers in prop::collection::vec(container(), 0..6),
        sandboxes in prop::collection::vec(sandbox(), 0..6),
        pieces in prop::collection::vec(0_usize..3, 0..4),
    ) {
        let mut expected = Fingerprint::default();
        for container in &containers {
            expected.add(container.id.as_bytes(), from_cri::container_state(container.state()).into());
        }
        let list = cri::ListContainersResponse { containers }.encode_to_vec();
        let mut digest = FingerprintDigest::<ContainerList>::default();
        prop_assert_eq!(handed_on(&mut digest, &list, &pieces).unwrap(), expected);
        let again = handed_on(&mut digest, &list, &pieces).unwrap();
        prop_assert_eq!(again, expected, "the next list is one of its own");

        let mut expected = Fingerprint::default();
        for sandbox in &sandboxes {
            expected.add(sandbox.id.as_bytes(), from_cri::sandbox_state(sandbox.state()).into());
        }
        let list = cri::ListPodSandboxResponse { items: sandboxes }.encode_to_vec();
        let sum = handed_on(&mut FingerprintDigest::<SandboxList>::default(), &list, &pieces);
        prop_assert_eq!(sum.unwrap(), expected);
    }

    #[test]
    fn no_list_causes_a_panic(list in prop::collection::vec(any::<u8>(), 0..200)) {
        handed_on(&mut FingerprintDigest::<ContainerList>::default(), &list, &[]).ok();
    }
}

#[test]
fn truncated_list_entry_is_an_error() {
    let mut digest = FingerprintDigest::<ContainerList>::default();
    let error = handed_on(&mut digest, &[0x0a, 2, 0x0a, 5], &[]).unwrap_err();
    assert_eq!(error.code(), tonic::Code::Internal);
}
