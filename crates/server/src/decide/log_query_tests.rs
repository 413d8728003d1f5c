use proptest::prelude::*;

use super::*;

fn parsed(text: &str) -> NodeLogQuery {
    node_log_query(Some(text)).unwrap().unwrap()
}

fn arguments(text: &str) -> Vec<String> {
    let query = parsed(text);
    assert_eq!(query.source(), Ok(LogSource::Services));
    let services: Vec<&str> = query.services.iter().map(String::as_str).collect();
    query.journal_arguments(&services)
}

// behaviour: SRV-23
#[test]
fn request_without_parameters_of_a_query_means_a_file() {
    for text in [None, Some(""), Some("x=1"), Some("sinceTime=&tailLines=")] {
        assert_eq!(node_log_query(text), Ok(None), "{text:?}");
    }
}

// behaviour: SRV-23
#[test]
fn value_with_a_slash_is_a_file() {
    let rows = [("query=/syslog", "syslog"), ("query=apt%2Fhistory.log", "apt/history.log")];
    for (text, file) in rows {
        assert_eq!(parsed(text).source(), Ok(LogSource::File(file.to_owned())), "{text}");
    }
}

// behaviour: SRV-24
#[test]
fn service_and_options_are_single_arguments() {
    let rows: [(&str, &[&str]); 5] = [
        ("query=kubelet", &["--unit=kubelet"]),
        ("query=a&query=b@1", &["--unit=a", "--unit=b@1"]),
        (
            "query=a&sinceTime=2026-01-02T03:04:05%2B01:00&untilTime=2026-01-03T00:00:00Z",
            &["--since=2026-01-02 02:04:05 UTC", "--until=2026-01-03 00:00:00 UTC", "--unit=a"],
        ),
        ("query=a&tailLines=7&boot=-1", &["--pager-end", "--lines=7", "--unit=a", "--boot", "-1"]),
        (
            "query=a&pattern=--file%3D/etc/shadow%20$(id)",
            &["--unit=a", "--grep=--file=/etc/shadow $(id)"],
        ),
    ];
    for (text, expected) in rows {
        let all = arguments(text);
        assert_eq!(all[..3], ["--utc", "--no-pager", "--output=short-precise"]);
        assert_eq!(all[3..], *expected, "{text}");
    }
}

// behaviour: SRV-24
#[test]
fn unreadable_values_are_errors_with_upstream_texts() {
    let rows = [
        ("query=%20", r#"query: Invalid value: [" "]: may not be empty"#),
        ("query=a&sinceTime=today", r#"sinceTime: Invalid value: "today": invalid time format"#),
        (
            "query=a&boot=x&tailLines=y",
            "[boot: Invalid value: \"x\": strconv.Atoi: parsing \"x\": invalid syntax, \
             tailLines: Invalid value: \"y\": strconv.Atoi: parsing \"y\": invalid syntax]",
        ),
    ];
    for (text, expected) in rows {
        assert_eq!(node_log_query(Some(text)).unwrap_err().to_string(), expected, "{text}");
    }
}

// behaviour: SRV-24
#[test]
fn injections_and_values_out_of_range_are_refused() {
    let unsupported = "input contains unsupported characters";
    let rows = [
        ("query=--file%3Dx", format!(r#"query: Invalid value: "--file=x": {unsupported}"#)),
        ("query=a%0Ab", format!("query: Invalid value: \"a\\nb\": {unsupported}")),
        ("query=$(id)", format!(r#"query: Invalid value: "$(id)": {unsupported}"#)),
        ("query=a%00b", format!("query: Invalid value: \"a\\0b\": {unsupported}")),
        ("query=a%20b", format!(r#"query: Invalid value: "a b": {unsupported}"#)),
        ("query=a*", format!(r#"query: Invalid value: "a*": {unsupported}"#)),
        ("query=%C3%A4", format!("query: Invalid value: \"ä\": {unsupported}")),
        ("query=a&pattern=x%00", format!("pattern: Invalid value: \"x\\0\": {unsupported}")),
        ("query=a&pattern=x%0A--boot", {
            format!("pattern: Invalid value: \"x\\n--boot\": {unsupported}")
        }),
        ("query=a&pattern=(", r#"pattern: Invalid value: "(": unclosed group"#.to_owned()),
        ("boot=0", "query: Required value: cannot be empty with options".to_owned()),
        ("query=a&boot=1", "boot: Invalid value: 1: must be less than 1".to_owned()),
        (
            "query=a&tailLines=100001",
            "tailLines: Invalid value: 100001: must be between 0 and 100000, inclusive".to_owned(),
        ),
        (
            "query=a&query=b&query=c&query=d&query=e",
            "query: Too many: 5: must have at most 4 items".to_owned(),
        ),
        (
            "query=a&query=/b",
            r#"query: Invalid value: "[/b], [a]": cannot specify a file and service"#.to_owned(),
        ),
        (
            "query=/a&query=/b",
            r#"query: Invalid value: ["/a","/b"]: cannot specify more than one file"#.to_owned(),
        ),
        (
            "query=/a&tailLines=1",
            r#"query: Invalid value: ["/a"]: cannot specify file with options"#.to_owned(),
        ),
        (
            "query=a&sinceTime=2026-01-02T00:00:00Z&untilTime=2026-01-01T00:00:00Z",
            "untilTime: Invalid value: \"2026-01-01T00:00:00Z\": must be after `sinceTime`"
                .to_owned(),
        ),
    ];
    for (text, expected) in rows {
        assert_eq!(parsed(text).source().unwrap_err().to_string(), expected, "{text}");
    }
    assert!(parsed(&format!("query={}", "a".repeat(257))).source().is_err());
    assert!(parsed(&format!("query=a&pattern={}", "a".repeat(4097))).source().is_err());
}

// behaviour: SRV-23
#[test]
fn services_of_the_journal_are_separated_from_those_with_files() {
    let query = parsed("query=a&query=b&query=c");
    let units = "a.service\nxb.service\nc.socket\n";
    assert_eq!(query.divided(units), (vec!["a"], vec!["b", "c"]));
    assert_eq!(log_files("b"), ["b", "b.log", "b/b.log"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    // behaviour: SRV-24
    #[test]
    fn valid_queries_add_no_options(
        services in prop::collection::vec(".{0,12}", 0..5),
        pattern in ".{0,12}",
    ) {
        let mut text = form_urlencoded::Serializer::new(String::new());
        for service in &services {
            text.append_pair("query", service);
        }
        text.append_pair("pattern", &pattern);
        let Ok(Some(query)) = node_log_query(Some(&text.finish())) else { return Ok(()) };
        if query.source() == Ok(LogSource::Services) {
            let services: Vec<&str> = query.services.iter().map(String::as_str).collect();
            let arguments = query.journal_arguments(&services);
            let units = arguments.iter().filter(|one| one.starts_with("--unit=")).count();
            prop_assert_eq!(units, services.len());
            let has_pattern = usize::from(!pattern.is_empty());
            prop_assert_eq!(arguments.len(), 3 + units + has_pattern);
            prop_assert!(arguments.iter().all(|one| !one.contains(char::is_control)));
        }
    }
}
