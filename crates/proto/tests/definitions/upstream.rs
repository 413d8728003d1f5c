//! Ours is upstream's, without Windows and without what is deprecated.

use std::path::Path;

use anyhow::{Result, ensure};

use crate::items::{Items, differences, items};
use crate::parse::{self, CRI, Edit, Protocol};

fn ours(protocol: Protocol) -> Result<Items> {
    Ok(items(protocol.package, &protocol.ours()?))
}

fn theirs(protocol: Protocol) -> Result<Items> {
    Ok(items(protocol.package, &protocol.upstream(&parse::cache())?))
}

#[test]
fn every_item_matches_upstream() -> Result<()> {
    for protocol in parse::ALL {
        let ours = ours(protocol)?;
        ensure!(
            ours.keys().any(|name| name.starts_with("rpc ")),
            "no calls in {}",
            protocol.folder
        );
        let differences = differences(&ours, &theirs(protocol)?);
        ensure!(
            differences.is_empty(),
            "{} differences from upstream:\n{}",
            differences.len(),
            differences.join("\n")
        );
    }
    Ok(())
}

#[test]
fn only_windows_and_deprecated_items_are_omitted() -> Result<()> {
    for protocol in parse::ALL {
        let ours = ours(protocol)?;
        let theirs = theirs(protocol)?;
        let missing: Vec<_> = theirs
            .iter()
            .filter(|(name, _)| !ours.contains_key(*name))
            .filter(|(name, meaning)| {
                !name.to_lowercase().contains("windows") && !meaning.contains("[deprecated]")
            })
            .map(|(name, meaning)| format!("{name}: `{meaning}`"))
            .collect();
        ensure!(
            missing.is_empty(),
            "{} items of upstream are missing:\n{}",
            missing.len(),
            missing.join("\n")
        );
    }
    Ok(())
}

#[test]
fn absent_upstream_definitions_are_an_error_that_names_the_remedy() {
    let error = CRI.upstream(Path::new("/nonexistent")).unwrap_err();
    let text = error.to_string();
    assert!(text.ends_with("api.proto is missing: run `make testbed`"), "{text}");
}

/// An edit of our definitions, and the differences that it has to cause, all of them.
struct Case {
    edit: Edit,
    expect: &'static [&'static str],
}

const fn case(
    file: &'static str,
    from: &'static str,
    to: &'static str,
    expect: &'static [&'static str],
) -> Case {
    Case { edit: Edit { file, from, to }, expect }
}

const CASES: &[Case] = &[
    // A field: name, number, type, repetition, presence, oneof, map, redaction.
    case(
        "container_config.proto",
        "bool readonly = 3",
        "bool read_only = 3",
        &["field runtime.v1.Mount.read_only: not upstream"],
    ),
    case(
        "container_config.proto",
        "image_sub_path = 10",
        "image_sub_path = 11",
        &["field runtime.v1.Mount.image_sub_path: `string = 11`, upstream `string = 10`"],
    ),
    case(
        "exec.proto",
        "bytes stdout = 1",
        "string stdout = 1",
        &["field runtime.v1.ExecSyncResponse.stdout: `string = 1`, upstream `bytes = 1`"],
    ),
    case(
        "container.proto",
        "Signal stop_signal = 19",
        "ContainerState stop_signal = 19",
        &["field runtime.v1.ContainerStatus.stop_signal: `runtime.v1.ContainerState = 19`, \
           upstream `runtime.v1.Signal = 19`"],
    ),
    case(
        "security.proto",
        "repeated IDMapping uids",
        "IDMapping uids",
        &["field runtime.v1.UserNamespace.uids: `runtime.v1.IDMapping = 2`, \
           upstream `repeated runtime.v1.IDMapping = 2`"],
    ),
    case(
        "container.proto",
        "int32 exit_code",
        "optional int32 exit_code",
        &["field runtime.v1.ContainerStatus.exit_code: `optional int32 = 7`, upstream `int32 = 7`"],
    ),
    case(
        "sandbox_config.proto",
        "string host_ip = 4;",
        "oneof host { string host_ip = 4; }",
        &[
            "field runtime.v1.PortMapping.host_ip: `string = 4 in oneof host`, upstream `string = 4`",
        ],
    ),
    case(
        "resources.proto",
        "map<string, string> unified",
        "map<string, bytes> unified",
        &["field runtime.v1.LinuxContainerResources.unified: `map<string, bytes> = 9`, \
           upstream `map<string, string> = 9`"],
    ),
    case(
        "image.proto",
        "string password = 2 [debug_redact = true]",
        "string password = 2",
        &["field runtime.v1.AuthConfig.password: `string = 2`, \
           upstream `string = 2 [debug_redact]`"],
    ),
    // Messages and enum values.
    case(
        "values.proto",
        "message Int64Value",
        "message Int32Value { int32 value = 1; } message Int64Value",
        &[
            "field runtime.v1.Int32Value.value: not upstream",
            "message runtime.v1.Int32Value: not upstream",
        ],
    ),
    case(
        "signal.proto",
        "SIGTERM = 23",
        "SIGTERM = 115",
        &["value runtime.v1.Signal.SIGTERM: `115`, upstream `23`"],
    ),
    case(
        "security.proto",
        "TARGET = 3",
        "HOST = 3",
        &["value runtime.v1.NamespaceMode.HOST: not upstream"],
    ),
    // Calls: name, request, response, streaming either way.
    case(
        "runtime_service.proto",
        "rpc Attach(",
        "rpc AttachContainer(",
        &["rpc runtime.v1.RuntimeService.AttachContainer: not upstream"],
    ),
    case(
        "runtime_service.proto",
        "(StatusRequest)",
        "(VersionRequest)",
        &["rpc runtime.v1.RuntimeService.Status: \
           `runtime.v1.VersionRequest returns runtime.v1.StatusResponse`, \
           upstream `runtime.v1.StatusRequest returns runtime.v1.StatusResponse`"],
    ),
    case(
        "image_service.proto",
        "(stream StreamImagesResponse)",
        "(ListImagesResponse)",
        &["rpc runtime.v1.ImageService.StreamImages: \
           `runtime.v1.StreamImagesRequest returns runtime.v1.ListImagesResponse`, \
           upstream `runtime.v1.StreamImagesRequest returns stream runtime.v1.StreamImagesResponse`"],
    ),
    case(
        "runtime_service.proto",
        "(GetEventsRequest)",
        "(stream GetEventsRequest)",
        &["rpc runtime.v1.RuntimeService.GetContainerEvents: \
           `stream runtime.v1.GetEventsRequest returns stream runtime.v1.ContainerEventResponse`, \
           upstream `runtime.v1.GetEventsRequest returns stream runtime.v1.ContainerEventResponse`"],
    ),
];

#[test]
fn mismatch_is_reported_with_both_definitions() -> Result<()> {
    let theirs = theirs(CRI)?;
    for case in CASES {
        let ours = items(CRI.package, &CRI.ours_with(case.edit)?);
        assert_eq!(differences(&ours, &theirs), case.expect, "{}", case.edit.to);
    }
    Ok(())
}
