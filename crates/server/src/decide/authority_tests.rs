use proptest::prelude::*;

use super::*;

const TEXT: &[u8; PREFACE] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
}

/// A string without Huffman coding.
fn plain(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap();
    std::iter::once(length).chain(text.bytes()).collect()
}

/// The authority of a Go client as a literal, in one of three encodings.
fn authority(way: u8) -> Vec<u8> {
    [vec![way | 1], plain("%2Frun%2Fkubelet.sock")].concat()
}

fn read(whole: &[u8]) -> Vec<u8> {
    let mut output = Vec::new();
    Anonymous::new().take(&[TEXT.as_slice(), whole].concat(), &mut output);
    output.strip_prefix(TEXT).unwrap().to_vec()
}

// behaviour: PRS-9
#[test]
fn only_the_authority_header_changes() {
    let post: &[u8] = &[0x83];
    let te = [vec![0x40], plain("te"), plain("trailers")].concat();
    let size: &[u8] = &[0x3f, 0xe1, 0x1f];
    let before = |authority: &[u8]| [size, post, authority, &te, &[0xbe]].concat();
    let rows: [(&str, Vec<u8>, Vec<u8>); 7] = [
        ("kept in the table", authority(0x40), vec![0x41, 1, b'x']),
        ("not kept", authority(0), vec![0x01, 1, b'x']),
        ("never kept", authority(0x10), vec![0x11, 1, b'x']),
        ("packed", vec![0x41, 0x83, 1, 2, 3], vec![0x41, 1, b'x']),
        ("empty", vec![0x41, 0], vec![0x41, 0]),
        ("none", vec![], vec![]),
        ("of the table", vec![0xc0], vec![0xc0]),
    ];
    for (what, sent, expected) in rows {
        let sent = frame(HEADERS, ALL | 1, &before(&sent));
        assert_eq!(read(&sent), frame(HEADERS, ALL | 1, &before(&expected)), "{what}");
    }
}

// behaviour: PRS-9
#[test]
fn padding_and_priority_of_headers_are_kept() {
    let around = |block: &[u8]| {
        let payload = [[3, 0, 0, 0, 0, 16].as_slice(), block, &[0; 3]].concat();
        frame(HEADERS, ALL | PADDED | PRIORITY, &payload)
    };
    assert_eq!(read(&around(&authority(0x40))), around(&[0x41, 1, b'x']));
}

#[test]
fn malformed_frames_are_passed_unchanged() {
    let cut = &authority(0x40)[..9];
    let rows = [
        ("half of a text", frame(HEADERS, ALL, cut)),
        ("a number without end", frame(HEADERS, ALL, &[0xff; 20])),
        ("more padding than there is", frame(HEADERS, ALL | PADDED, &[200, 1, 2])),
        ("no room for a priority", frame(HEADERS, ALL | PRIORITY, &[1, 2])),
        ("nothing", frame(HEADERS, ALL, &[])),
        ("more follows in another frame", frame(HEADERS, 0, &authority(0x40))),
        ("longer than any may be", frame(HEADERS, ALL, &vec![0x41; LONGEST + 1])),
        ("data that looks like headers", frame(0, ALL, &authority(0x40))),
        ("settings", frame(4, 0, &[0; 12])),
    ];
    for (what, sent) in rows {
        assert_eq!(read(&sent), sent, "{what}");
    }
}

#[test]
fn frame_after_a_changed_one_is_found() {
    let request = frame(HEADERS, ALL, &authority(0x40));
    let data = frame(0, 1, &[0; 5]);
    let expected = [frame(HEADERS, ALL, &[0x41, 1, b'x']), data.clone()].concat();
    assert_eq!(read(&[request, data].concat()), expected);
}

proptest! {
    #[test]
    fn result_is_independent_of_chunk_sizes(
        payloads in prop::collection::vec((0u8..10, any::<u8>(), prop::collection::vec(any::<u8>(), 0..40)), 0..6),
        piece in 1usize..50,
    ) {
        let frames = payloads.iter().flat_map(|(kind, flags, payload)| frame(*kind, *flags, payload));
        let sent: Vec<u8> = TEXT.iter().copied().chain(frames).collect();
        let (mut whole, mut pieces) = (Vec::new(), Vec::new());
        Anonymous::new().take(&sent, &mut whole);
        let mut anonymous = Anonymous::new();
        for piece in sent.chunks(piece) {
            anonymous.take(piece, &mut pieces);
        }
        prop_assert_eq!(&whole, &pieces);
        prop_assert!(whole.len() <= sent.len(), "the output is not longer");
    }
}
