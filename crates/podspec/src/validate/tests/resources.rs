#![allow(clippy::too_many_lines, reason = "a table has one row per rule")]

use super::{METADATA, check_rows, problems_of, with_container, with_spec};

#[test]
fn invalid_resource_amounts_have_upstream_errors() {
    const LIMITS: &str = "spec.containers[0].resources.limits";
    const REQUESTS: &str = "spec.containers[0].resources.requests";
    check_rows(
        &[
            (
                "resources",
                "resources: {limits: {cpu: 500m, memory: 1Gi, ephemeral-storage: 1Gi, \
                 hugepages-2Mi: 4Mi, example.com/gpu: 2}, requests: {cpu: 0}}",
                &[],
            ),
            (
                "less than nothing",
                "resources: {requests: {cpu: '-1'}}",
                &[&format!(
                    "{REQUESTS}[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"
                )],
            ),
            (
                "no quantity",
                "resources: {requests: {cpu: much}}",
                &[&format!("{REQUESTS}[cpu]: Invalid value: \"much\": quantities must be...")],
            ),
            (
                "more than the limit",
                "resources: {limits: {cpu: 1}, requests: {cpu: 2}}",
                &[&format!(
                    "{REQUESTS}: Invalid value: \"2\": must be less than or equal to cpu limit of 1"
                )],
            ),
            (
                "not as many pieces as the limit",
                "resources: {limits: {example.com/gpu: 2}, requests: {example.com/gpu: 1}}",
                &[&format!(
                    "{REQUESTS}: Invalid value: \"1\": must be equal to example.com/gpu limit of 2"
                )],
            ),
            (
                "pieces without a limit",
                "resources: {requests: {example.com/gpu: 1}}",
                &[&format!(
                    "{LIMITS}: Required value: Limit must be set for non overcommitable resources"
                )],
            ),
            (
                "half a piece",
                "resources: {limits: {example.com/gpu: 500m}, requests: {example.com/gpu: 500m}}",
                &[
                    &format!(
                        "{LIMITS}[example.com/gpu]: Invalid value: \"500m\": must be an integer"
                    ),
                    &format!(
                        "{REQUESTS}[example.com/gpu]: Invalid value: \"500m\": must be an integer"
                    ),
                ],
            ),
            (
                "half a page",
                "resources: {limits: {cpu: 1, hugepages-2Mi: 3Mi}, requests: {hugepages-2Mi: 3Mi}}",
                &[
                    &format!(
                        "{LIMITS}[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive \
                         integer multiple of hugepages-2Mi"
                    ),
                    &format!("{REQUESTS}[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not..."),
                ],
            ),
            (
                "pages alone",
                "resources: {limits: {hugepages-2Mi: 4Mi}}",
                &["spec.containers[0].resources: Forbidden: HugePages require cpu or memory"],
            ),
            (
                "an unknown resource",
                "resources: {requests: {foo: 1}}",
                &[&format!(
                    "{REQUESTS}[foo]: Invalid value: \"foo\": must be a standard resource for \
                     containers"
                )],
            ),
            (
                "a name that quotas have",
                "resources: {requests: {requests.x/y: 1}}",
                &[
                    &format!(
                        "{REQUESTS}[requests.x/y]: Invalid value: \"requests.x/y\": doesn't follow \
                         extended resource name standard"
                    ),
                    &format!(
                        "{LIMITS}: Required value: Limit must be set for non overcommitable..."
                    ),
                ],
            ),
        ],
        with_container,
    );
    assert_eq!(
        with_spec("overhead: {cpu: '-1'}"),
        ["spec.overhead[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"]
    );
}

#[test]
fn invalid_pod_level_resources_have_upstream_errors() {
    let problems = |spec: &str| problems_of(METADATA, spec);
    let requesting = |cpu: &str| {
        format!("containers: [{{name: c, image: i, resources: {{requests: {{cpu: {cpu}}}}}}}]")
    };
    let limited =
        "containers: [{name: c, image: i, resources: {limits: {cpu: 2, hugepages-2Mi: 4Mi}}}]";
    check_rows(
        &[
            (
                "resources",
                &format!("{}, resources: {{limits: {{cpu: 2, memory: 1Gi}}}}", requesting("1")),
                &[],
            ),
            (
                "less than the containers ask for",
                &format!("{}, resources: {{requests: {{cpu: 500m}}}}", requesting("1")),
                &[
                    "spec.resources.requests[cpu]: Invalid value: \"500m\": must be greater than or \
                   equal to aggregate container requests of 1",
                ],
            ),
            (
                "less than the limit of a container",
                &format!(
                    "{limited}, resources: {{limits: {{cpu: 1, hugepages-2Mi: 2Mi}}, requests: {{cpu: 1}}}}"
                ),
                &[
                    "spec.resources.requests[cpu]: Invalid value: \"1\": must be greater than...",
                    "spec.resources.requests[hugepages-2Mi]: Invalid value: \"2Mi\": must be...",
                    "spec.resources.limits[hugepages-2Mi]: Invalid value: \"2Mi\": must be greater \
                     than or equal to aggregate container limits of 4Mi",
                    "spec.containers[0].resources.limits[cpu]: Invalid value: \"2\": must be less \
                     than or equal to pod limits of 1",
                    "spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: \"4Mi\": \
                     must be less than or equal to pod limits of 2Mi",
                ],
            ),
            (
                "a resource that only containers have",
                &format!(
                    "{}, resources: {{requests: {{ephemeral-storage: 1Gi}}}}",
                    requesting("1")
                ),
                &["spec.resources.requests[ephemeral-storage]: Unsupported value: \
                   \"ephemeral-storage\": supported values: \"cpu\", \"hugepages-\", \"memory\""],
            ),
            (
                "claims",
                &format!("{}, resources: {{claims: [{{name: a}}]}}", requesting("1")),
                &["spec.resources.claims: Forbidden: claims may not be set for Resources at \
                   pod-level"],
            ),
            (
                "on windows",
                &format!(
                    "{}, os: {{name: windows}}, resources: {{limits: {{cpu: 2}}}}",
                    requesting("1")
                ),
                &["spec.resources: Forbidden: may not be set for a windows pod"],
            ),
        ],
        problems,
    );
}

#[test]
fn invalid_resource_claims_have_upstream_errors() {
    let problems = |claims: &str, used: &str| {
        let spec = format!(
            "resourceClaims: [{claims}], containers: [{{name: c, image: i, resources: {{claims: \
             [{used}]}}}}]"
        );
        problems_of(METADATA, &spec)
    };
    check_rows(
        &[
            ("a claim", "{name: a, resourceClaimName: b}", &[]),
            (
                "no name and no source",
                "{}",
                &[
                    "spec.resourceClaims[0].name: Required value",
                    "spec.resourceClaims[0]: Invalid value: \"\": must specify one of: \
                     `resourceClaimName`, `resourceClaimTemplateName`",
                ],
            ),
            (
                "a name twice, and two sources",
                "{name: a, resourceClaimName: b}, {name: a, resourceClaimName: b, \
                 resourceClaimTemplateName: C}",
                &[
                    "spec.resourceClaims[1].name: Duplicate value: \"a\"",
                    "spec.resourceClaims[1]: Invalid value: \"a\": at most one of \
                     `resourceClaimName` or `resourceClaimTemplateName` may be specified",
                    "spec.resourceClaims[1].resourceClaimTemplateName: Invalid value: \"C\": a...",
                ],
            ),
        ],
        |claims| problems(claims, ""),
    );
    check_rows(
        &[
            ("a claim", "{name: a}", &[]),
            ("parts of a claim", "{name: a, request: x}, {name: a, request: z}", &[]),
            ("no name", "{}", &["spec.containers[0].resources.claims[0]: Required value"]),
            (
                "a claim and a part of it",
                "{name: a, request: x}, {name: a}",
                &["spec.containers[0].resources.claims[1]: Duplicate value: \"a\""],
            ),
            (
                "a part twice",
                "{name: a, request: x}, {name: a, request: x}",
                &["spec.containers[0].resources.claims[1]: Duplicate value: \"a\""],
            ),
            (
                "an unknown claim",
                "{name: b}",
                &["spec.containers[0].resources.claims[0]: Not found: \"b\": must be one of the \
                   names in pod.spec.resourceClaims: a"],
            ),
        ],
        |used| problems("{name: a, resourceClaimName: b}", used),
    );
}
