#![allow(clippy::too_many_lines, reason = "a table has one row per rule")]

use super::{METADATA, check_rows, problems_of, with_container, with_spec};

#[test]
fn invalid_containers_have_upstream_errors() {
    let problems = |spec: &str| problems_of(METADATA, spec);
    check_rows(
        &[
            ("no container", "containers: []", &["spec.containers: Required value"]),
            (
                "a container without name and image",
                "containers: [{}]",
                &[
                    "spec.containers[0].name: Required value",
                    "spec.containers[0].image: Required value",
                ],
            ),
            (
                "a name that is no label",
                "containers: [{name: a.b, image: i}]",
                &["spec.containers[0].name: Invalid value: \"a.b\": must not contain dots"],
            ),
            (
                "a name twice",
                "containers: [{name: a, image: i}, {name: a, image: i}]",
                &["spec.containers[1].name: Duplicate value: \"a\""],
            ),
            (
                "a name of an init container as well",
                "containers: [{name: a, image: i}], initContainers: [{name: a, image: i}]",
                &["spec.initContainers[0].name: Duplicate value: \"a\""],
            ),
            (
                "an image with a space",
                "containers: [{name: a, image: ' i'}]",
                &["spec.containers[0].image: Invalid value: \" i\": must not have leading or \
                   trailing whitespace"],
            ),
            (
                "an unknown pull policy",
                "containers: [{name: a, image: i, imagePullPolicy: x}]",
                &[
                    "spec.containers[0].imagePullPolicy: Unsupported value: \"x\": supported values: \
                   \"Always\", \"IfNotPresent\", \"Never\"",
                ],
            ),
            (
                "an unknown message policy",
                "containers: [{name: a, image: i, terminationMessagePolicy: x}]",
                &[
                    "spec.containers[0].terminationMessagePolicy: Unsupported value: \"x\": supported \
                   values: \"File\", \"FallbackToLogsOnError\"",
                ],
            ),
        ],
        problems,
    );
}

#[test]
fn invalid_init_containers_have_upstream_errors() {
    let init =
        |fields: &str| with_spec(&format!("initContainers: [{{name: i, image: i, {fields}}}]"));
    let probe = "{exec: {command: [a]}}";
    let problem = "may not be set for init containers without restartPolicy=Always";
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        assert_eq!(
            init(&format!("{field}: {probe}")),
            [format!("spec.initContainers[0].{field}: Forbidden: {problem}")]
        );
        assert_eq!(init(&format!("restartPolicy: Always, {field}: {probe}")), Vec::<String>::new());
        assert_eq!(init(&format!("restartPolicy: Always, {field}: {{}}")).len(), 1);
    }
    check_rows(
        &[
            (
                "a hook",
                "lifecycle: {}",
                &["spec.initContainers[0].lifecycle: Forbidden: may not be set for init \
                   containers without restartPolicy=Always"],
            ),
            ("a hook of a sidecar", "restartPolicy: Always, lifecycle: {}", &[]),
            (
                "an unknown restart policy",
                "restartPolicy: x",
                &["spec.initContainers[0].restartPolicy: Unsupported value: \"x\": supported \
                   values: \"Always\", \"Never\", \"OnFailure\""],
            ),
            (
                "a restart for a resize",
                "resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]",
                &["spec.initContainers[0].resizePolicy[0].restartPolicy: Invalid value: \
                   \"RestartContainer\": must not be set to 'RestartContainer' for non-sidecar \
                   initContainers"],
            ),
            (
                "a restart for a resize of a sidecar",
                "restartPolicy: Always, \
                 resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]",
                &[],
            ),
            (
                "a host port twice",
                "ports: [{containerPort: 1, hostPort: 5}, {containerPort: 2, hostPort: 5}]",
                &["spec.initContainers[0].ports[1].hostPort: Duplicate value: \"TCP//5\""],
            ),
        ],
        init,
    );
}

#[test]
fn invalid_ephemeral_containers_have_upstream_errors() {
    const ON_CREATE: &str = "spec.ephemeralContainers: Forbidden: cannot be set on create";
    let ephemeral =
        |fields: &str| with_spec(&format!("ephemeralContainers: [{{image: i, {fields}}}]"));
    check_rows(
        &[
            ("any", "name: e, targetContainerName: c", &[ON_CREATE]),
            (
                "a name of another container",
                "name: c",
                &["spec.ephemeralContainers[0].name: Duplicate value: \"c\"", ON_CREATE],
            ),
            (
                "an unknown target",
                "name: e, targetContainerName: x",
                &["spec.ephemeralContainers[0].targetContainerName: Not found: \"x\"", ON_CREATE],
            ),
            (
                "what only others have",
                "name: e, ports: [{containerPort: 1}], resources: {limits: {cpu: 1}}, lifecycle: {}",
                &[
                    "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral \
                     Container",
                    "spec.ephemeralContainers[0].resources: Forbidden: cannot be set for an \
                     Ephemeral Container",
                    "spec.ephemeralContainers[0].lifecycle: Forbidden: cannot be set for an \
                     Ephemeral Container",
                    ON_CREATE,
                ],
            ),
            (
                "a part of a volume",
                "name: e, volumeMounts: [{name: v, mountPath: /a, subPath: b}]",
                &[
                    "spec.ephemeralContainers[0].volumeMounts[0].name: Not found: \"v\"",
                    "spec.ephemeralContainers[0].volumeMounts[0].subPath: Forbidden: cannot be set \
                     for an Ephemeral Container",
                    ON_CREATE,
                ],
            ),
        ],
        ephemeral,
    );
}

#[test]
fn invalid_restart_rules_have_upstream_errors() {
    const RULES: &str = "spec.containers[0].restartPolicyRules";
    let many = format!(
        "restartPolicy: Never, restartPolicyRules: [{}]",
        ["{action: Restart, exitCodes: {operator: In, values: [1]}}"; 21].join(", ")
    );
    let many_codes = format!(
        "restartPolicy: Never, restartPolicyRules: [{{action: Restart, exitCodes: {{operator: In, \
         values: [{}]}}}}]",
        ["1"; 256].join(", ")
    );
    check_rows(
        &[
            ("a policy", "restartPolicy: OnFailure", &[]),
            (
                "rules",
                "restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: \
                 {operator: In, values: [1]}}, {action: RestartAllContainers, exitCodes: {operator: \
                 NotIn, values: [0]}}]",
                &[],
            ),
            (
                "an unknown policy",
                "restartPolicy: x",
                &["spec.containers[0].restartPolicy: Unsupported value: \"x\": supported values: \
                   \"Always\", \"Never\", \"OnFailure\""],
            ),
            (
                "rules without a policy",
                "restartPolicyRules: [{action: Restart, exitCodes: {operator: In}}]",
                &["spec.containers[0].restartPolicy: Required value: must specify restartPolicy \
                   when restart rules are used"],
            ),
            (
                "an unknown action",
                "restartPolicy: Never, restartPolicyRules: [{action: x, exitCodes: {operator: In}}]",
                &[&format!(
                    "{RULES}[0].action: Unsupported value: \"x\": supported values: \"Restart\", \
                     \"RestartAllContainers\""
                )],
            ),
            (
                "no exit codes",
                "restartPolicy: Never, restartPolicyRules: [{action: Restart}]",
                &[&format!("{RULES}[0].exitCodes: Required value: must be specified")],
            ),
            (
                "an unknown operator",
                "restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: \
                 x}}]",
                &[&format!(
                    "{RULES}[0].exitCodes.operator: Unsupported value: \"x\": supported values: \
                     \"In\", \"NotIn\""
                )],
            ),
            ("too many", &many, &[&format!("{RULES}: Too many: 21: must have at most 20 items")]),
            (
                "too many exit codes",
                &many_codes,
                &[&format!(
                    "{RULES}[0].exitCodes.values: Too many: 256: must have at most 255 items"
                )],
            ),
        ],
        with_container,
    );
}

#[test]
fn invalid_container_ports_have_upstream_errors() {
    check_rows(
        &[
            (
                "ports",
                "ports: [{name: http, containerPort: 80, hostPort: 8080}, {containerPort: 80, \
                 hostPort: 8080, protocol: UDP}, {containerPort: 80, hostPort: 8080, hostIP: \
                 10.0.0.1}]",
                &[],
            ),
            (
                "no number",
                "ports: [{name: a}]",
                &["spec.containers[0].ports[0].containerPort: Required value"],
            ),
            (
                "a number out of range",
                "ports: [{containerPort: 65536, hostPort: -1}]",
                &[
                    "spec.containers[0].ports[0].containerPort: Invalid value: 65536: must be \
                     between 1 and 65535, inclusive",
                    "spec.containers[0].ports[0].hostPort: Invalid value: -1: must be between 1 \
                     and 65535, inclusive",
                ],
            ),
            (
                "an unknown protocol",
                "ports: [{containerPort: 1, protocol: tcp}]",
                &["spec.containers[0].ports[0].protocol: Unsupported value: \"tcp\": supported \
                   values: \"SCTP\", \"TCP\", \"UDP\""],
            ),
            (
                "a bad name",
                "ports: [{containerPort: 1, name: '80'}]",
                &[
                    "spec.containers[0].ports[0].name: Invalid value: \"80\": must contain at least \
                   one letter (a-z)",
                ],
            ),
            (
                "a name twice",
                "ports: [{containerPort: 1, name: a}, {containerPort: 2, name: a}]",
                &["spec.containers[0].ports[1].name: Duplicate value: \"a\""],
            ),
            (
                "a host port twice",
                "ports: [{containerPort: 1, hostPort: 5}, {containerPort: 2, hostPort: 5}]",
                &["spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//5\""],
            ),
        ],
        with_container,
    );
    let two = "{name: NAME, image: i, ports: [{containerPort: 1, hostPort: 5}]}";
    let spec = format!("containers: [{}, {}]", two.replace("NAME", "a"), two.replace("NAME", "b"));
    assert_eq!(
        problems_of(METADATA, &spec),
        ["spec.containers[1].ports[0].hostPort: Duplicate value: \"TCP//5\""]
    );
    let spec = "hostNetwork: true, containers: [{name: a, image: i, ports: [{containerPort: 1, \
                hostPort: 5}]}]";
    assert_eq!(
        problems_of(METADATA, spec),
        [
            "spec.containers[0].ports[0].hostPort: Invalid value: 5: must match `containerPort` when \
          `hostNetwork` is true"
        ]
    );
}

#[test]
fn invalid_resize_policies_have_upstream_errors() {
    const POLICY: &str = "spec.containers[0].resizePolicy";
    check_rows(
        &[
            ("a policy", "resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}]", &[]),
            (
                "a resource twice",
                "resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}, {resourceName: \
                 cpu, restartPolicy: RestartContainer}]",
                &[&format!("{POLICY}[1]: Duplicate value: \"cpu\"")],
            ),
            (
                "unknown words",
                "resizePolicy: [{resourceName: x, restartPolicy: z}]",
                &[
                    &format!(
                        "{POLICY}[0].resourceName: Unsupported value: \"x\": supported values: \
                         \"cpu\", \"memory\""
                    ),
                    &format!(
                        "{POLICY}[0].restartPolicy: Unsupported value: \"z\": supported values: \
                         \"NotRequired\", \"RestartContainer\""
                    ),
                ],
            ),
        ],
        with_container,
    );
    let spec = "restartPolicy: Never, containers: [{name: c, image: i, resizePolicy: \
                [{resourceName: cpu, restartPolicy: RestartContainer}]}]";
    assert_eq!(
        problems_of(METADATA, spec),
        [format!(
            "{POLICY}[0].restartPolicy: Invalid value: \"RestartContainer\": must be 'NotRequired' \
             when pod `restartPolicy` is 'Never'"
        )]
    );
}
