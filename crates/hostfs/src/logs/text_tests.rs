//! Tables and properties of the conversion of files to text.

use jiff::Timestamp;
use model::ports::logs::{LogRequest, LogStream};
use proptest::collection::vec;
use proptest::prelude::*;

use super::Text;

fn shown(request: &LogRequest, file: &[u8]) -> String {
    String::from_utf8_lossy(&Text::new(request).push(file)).into_owned()
}

const FILE: &str = "\
2026-01-01T00:00:01.5Z stdout F first
2026-01-01T00:00:02Z stdout P be
2026-01-01T00:00:03Z stdout P gin
2026-01-01T00:00:04Z stdout F ning
damaged
2026-01-01T00:00:05Z stderr F 

2026-01-01T00:00:06Z stdout F  with  spaces 
";

#[test]
fn partial_lines_are_joined_and_damaged_ones_skipped() {
    let text = shown(&LogRequest::default(), FILE.as_bytes());
    assert_eq!(text, "first\nbeginning\n\n with  spaces \n");
}

#[test]
fn only_the_requested_stream_is_shown() {
    let stream = LogStream::Stderr;
    let text = shown(&LogRequest { stream, ..LogRequest::default() }, FILE.as_bytes());
    assert_eq!(text, "\n");
    let stream = LogStream::Stdout;
    let text = shown(&LogRequest { stream, ..LogRequest::default() }, FILE.as_bytes());
    assert_eq!(text, "first\nbeginning\n with  spaces \n");
}

#[test]
fn timestamps_precede_only_whole_lines() {
    let text = shown(&LogRequest { timestamps: true, ..LogRequest::default() }, FILE.as_bytes());
    let expected = "2026-01-01T00:00:01.500000000Z first\n\
                    2026-01-01T00:00:02.000000000Z beginning\n\
                    2026-01-01T00:00:05.000000000Z \n\
                    2026-01-01T00:00:06.000000000Z  with  spaces \n";
    assert_eq!(text, expected);
}

#[test]
fn since_time_is_inclusive() {
    let since: Timestamp = "2026-01-01T00:00:04Z".parse().unwrap();
    let request = LogRequest { since: Some(since), timestamps: true, ..LogRequest::default() };
    let text = shown(&request, FILE.as_bytes());
    assert!(text.starts_with("2026-01-01T00:00:04.000000000Z ning\n2026-01-01T00:00:05"), "{text}");
}

#[test]
fn incomplete_line_is_shown() {
    let rows = [
        ("2026-01-01T00:00:01Z stdout F half a li", "half a li"),
        ("2026-01-01T00:00:01Z stdout F", ""),
        ("2026-01-01T00:00:01Z stdout F\n2026-01-01T00:00:01Z stdout F x\n", "x\n"),
    ];
    for (file, expected) in rows {
        assert_eq!(shown(&LogRequest::default(), file.as_bytes()), expected, "{file:?}");
    }
}

#[test]
fn overlong_line_header_needs_no_memory_and_loses_no_line() {
    let mut text = Text::new(&LogRequest::default());
    for _ in 0..1000 {
        assert_eq!(text.push(&[b'x'; 1000]), b"");
    }
    assert_eq!(text.push(b"\n2026-01-01T00:00:01Z stdout F next\n"), b"next\n");
}

#[test]
fn new_file_ends_an_open_line_of_the_old_one() {
    let mut text = Text::new(&LogRequest { timestamps: true, ..LogRequest::default() });
    assert_eq!(text.push(b"2026-01-01T00:00:01Z stdout F a"), b"2026-01-01T00:00:01.000000000Z a");
    assert_eq!(text.restart(), b"\n");
    assert_eq!(
        text.push(b"2026-01-01T00:00:02Z stdout P b\n2026-01-"),
        b"2026-01-01T00:00:02.000000000Z b"
    );
    assert_eq!(text.restart(), b"");
    assert_eq!(text.push(b"2026-01-01T00:00:03Z stdout F c\n"), b"c\n");
}

#[test]
fn limit_bytes_is_kept() {
    for limit in 0..60 {
        let request = LogRequest { timestamps: true, ..LogRequest::default() };
        let whole = shown(&request, FILE.as_bytes());
        let mut text = Text::new(&LogRequest { limit_bytes: Some(limit), ..request });
        let cut = text.push(FILE.as_bytes());
        assert_eq!(cut, &whole.as_bytes()[..usize::try_from(limit).unwrap()]);
        assert!(text.is_full());
    }
}

/// A line of a file, and its text.
fn line() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let content =
        vec(any::<u8>().prop_filter("a line has no end in it", |byte| *byte != b'\n'), 0..20);
    let good = (0_i64..4_000_000_000, any::<bool>(), any::<bool>(), content.clone()).prop_map(
        |(second, stderr, partial, content)| {
            let time = Timestamp::from_second(second).unwrap();
            let stream = if stderr { "stderr" } else { "stdout" };
            let tag = if partial { "P" } else { "F" };
            let file = [format!("{time} {stream} {tag} ").as_bytes(), &content, b"\n"].concat();
            let text = if partial { content } else { [&content[..], b"\n"].concat() };
            (file, text)
        },
    );
    let damaged = content.prop_map(|content| ([&b"-"[..], &content, b"\n"].concat(), Vec::new()));
    prop_oneof![4 => good, 1 => damaged]
}

proptest! {
    #[test]
    fn every_valid_line_is_shown_between_damaged_ones(lines in vec(line(), 0..20)) {
        let (file, text): (Vec<_>, Vec<_>) = lines.into_iter().unzip();
        prop_assert_eq!(Text::new(&LogRequest::default()).push(&file.concat()), text.concat());
    }

    #[test]
    fn output_is_independent_of_chunk_sizes(
        lines in vec(line(), 0..8),
        noise in vec(any::<u8>(), 0..40),
        cuts in vec(any::<prop::sample::Index>(), 0..6),
        timestamps: bool,
        since in proptest::option::of(0_i64..4_000_000_000),
        limit_bytes in proptest::option::of(0_u64..400),
    ) {
        let mut file: Vec<u8> = lines.into_iter().flat_map(|(file, _)| file).collect();
        file.extend(noise);
        let since = since.map(|second| Timestamp::from_second(second).unwrap());
        let request = LogRequest { timestamps, since, limit_bytes, ..LogRequest::default() };
        let whole = Text::new(&request).push(&file);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(file.len() + 1)).collect();
        cuts.extend([0, file.len()]);
        cuts.sort_unstable();
        let mut text = Text::new(&request);
        let pieces: Vec<u8> =
            cuts.windows(2).flat_map(|pair| text.push(&file[pair[0]..pair[1]])).collect();
        prop_assert_eq!(pieces, whole);
    }

    #[test]
    fn arbitrary_bytes_cause_no_panic(bytes in vec(any::<u8>(), 0..2000), timestamps: bool) {
        let mut text = Text::new(&LogRequest { timestamps, ..LogRequest::default() });
        let shown = text.push(&bytes);
        prop_assert!(timestamps || shown.len() <= bytes.len());
        text.restart();
    }
}
