use journal::Inputs;
use server::wire::GcWarning;

use super::*;

fn item(kind: &str, id: &str, verdict: GcVerdict, rule: &str, detail: &str) -> GcItem {
    GcItem {
        kind: kind.to_owned(),
        id: id.to_owned(),
        name: String::new(),
        pod: Some("default/web".to_owned()),
        pod_uid: Some("u1".to_owned()),
        verdict,
        rule: rule.to_owned(),
        detail: serde_json::from_str::<Inputs>(detail).unwrap(),
    }
}

fn plan(items: Vec<GcItem>) -> GcPlan {
    GcPlan {
        generated_at: Timestamp::UNIX_EPOCH,
        source: GcSource::Agent,
        policy: Inputs::default(),
        items,
        warnings: Vec::new(),
        problems: Vec::new(),
    }
}

fn written(plan: &GcPlan, terminal: Option<usize>) -> (String, Result<(), String>) {
    let mut out = Vec::new();
    let now = Timestamp::from_second(7200).unwrap();
    let done = write_plan(plan, None, now, &mut out, terminal);
    (String::from_utf8(out).unwrap(), done.map_err(|error| error.to_string()))
}

fn some() -> GcPlan {
    let cap = r#"{"cap":1,"position":2,"instances":2,"created":"1970-01-01T00:00:00Z"}"#;
    let container =
        item("container", "4f6c0e1d2a3b4c5d", GcVerdict::Remove, "per-container-cap", cap);
    let image = item("image", "sha256:abc", GcVerdict::Keep, "image-pinned", r#"{"size":2097152}"#);
    let log = "/var/log/pods/default_web_u1";
    plan(vec![
        GcItem { name: "main".to_owned(), ..container },
        item("log", log, GcVerdict::Remove, "pod-is-gone", r#"{"pod":"gone"}"#),
        item("sandbox", "0123", GcVerdict::Keep, "sandbox-ready", "{}"),
        GcItem { pod: None, pod_uid: None, name: "pause:1".to_owned(), ..image },
    ])
}

#[test]
fn plan_is_a_table_of_removals_with_reasons_and_totals() {
    let (text, done) = written(&some(), None);
    assert_eq!(done, Ok(()));
    assert_eq!(
        text,
        "\
VERDICT   KIND        NAME                           POD           AGE/SIZE   ID              WHY
remove    container   main                           default/web   120m       4f6c0e1d2a3b4   per-container-cap: dead instance 2 of 2 of its container, counted from the newest; 1 is kept
remove    log         /var/log/pods/default_web_u1   default/web   -          -               pod-is-gone: its pod is gone
keep      sandbox     -                              default/web   -          0123            sandbox-ready: it is ready for its pod
keep      image       pause:1                        -             2.0 MiB    abc             image-pinned: the runtime has pinned it

would remove 1 container, 1 log; would keep 2
"
    );
}

/// A plan with the long names of a cluster.
fn of_a_cluster() -> GcPlan {
    let (pod, uid) =
        ("kube-system/coredns-7d4b9c6f5-x2x9z", "5d3c1f6e-8a55-4e0c-9d6b-0c1de2f3a4b5");
    let id = "4f6c0e1d2a3b4c5d6e7f4f6c0e1d2a3b4c5d6e7f4f6c0e1d2a3b4c5d6e7fabcd";
    let logs = format!("/var/log/pods/kube-system_coredns-7d4b9c6f5-x2x9z_{uid}");
    let link = format!("/var/log/containers/coredns-7d4b9c6f5-x2x9z_kube-system_coredns-{id}.log");
    let image = "registry.example.com/platform/networking/coredns:v1.11.3";
    let cap = r#"{"cap":1,"position":2,"instances":2,"created":"1970-01-01T00:00:00Z"}"#;
    let of = |mut item: GcItem| {
        (item.pod, item.pod_uid) = (Some(pod.to_owned()), Some(uid.to_owned()));
        item
    };
    let container = of(item("container", id, GcVerdict::Remove, "per-container-cap", cap));
    let in_use = item(
        "image",
        "sha256:abc",
        GcVerdict::Keep,
        "image-in-use",
        r#"{"containers":2,"container":"c","size":70000000}"#,
    );
    plan(vec![
        GcItem { name: "coredns".to_owned(), ..container },
        of(item("log", &logs, GcVerdict::Remove, "pod-is-gone", r#"{"pod":"gone"}"#)),
        GcItem {
            pod: None,
            pod_uid: None,
            ..item("log", &link, GcVerdict::Remove, "dangling-link", r#"{"container":"not-found"}"#)
        },
        GcItem { pod: None, pod_uid: None, name: image.to_owned(), ..in_use },
    ])
}

#[test]
fn plan_is_readable_on_narrow_terminals_with_long_names() {
    let plan = of_a_cluster();
    for cells in [80, 100, 120, 160, 200] {
        let (text, _) = written(&plan, Some(cells));
        assert!(text.lines().all(|line| line.chars().count() <= cells), "{text}");
        let rows = text.lines().filter(|line| line.starts_with(['r', 'k']));
        for (line, item) in rows.zip(&plan.items) {
            let verdict = if item.verdict == GcVerdict::Remove { "remove " } else { "keep " };
            assert!(line.starts_with(verdict) && line.contains(&item.rule), "{text}");
        }
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for item in &plan.items {
            assert!(words.contains(&reason(&item.rule, &item.detail)), "{text}");
        }
    }
    assert_eq!(
        written(&plan, Some(80)).0,
        "\
VERDICT   KIND        NAME           POD            AGE/SIZE   WHY
remove    container   coredns        coredns-7d4…   120m       per-container-cap
          dead instance 2 of 2 of its container, counted from the newest; 1 is
          kept
remove    log         kube-system…   coredns-7d4…   -          pod-is-gone
          its pod is gone
remove    log         coredns-7d4…   -              -          dangling-link
          the log that the link points to is gone (container: not-found)
keep      image       coredns:v1.…   -              66.8 MiB   image-in-use
          it is used by 2 containers, such as c

would remove 1 container, 2 logs; would keep 1
"
    );
}

#[test]
fn reason_is_on_the_line_of_its_rule_when_it_fits() {
    let (text, _) = written(&some(), Some(102));
    assert_eq!(
        text,
        "\
VERDICT   KIND        NAME             POD           AGE/SIZE   WHY
remove    container   main             default/web   120m       per-container-cap
          dead instance 2 of 2 of its container, counted from the newest; 1 is kept
remove    log         default_web_u1   default/web   -          pod-is-gone: its pod is gone
keep      sandbox     -                default/web   -          sandbox-ready: it is ready for its pod
keep      image       pause:1          -             2.0 MiB    image-pinned
          the runtime has pinned it

would remove 1 container, 1 log; would keep 2
"
    );
}

#[test]
fn empty_plan_is_one_line_and_missing_item_is_an_error() {
    assert_eq!(written(&plan(vec![]), None).0, "would remove nothing; would keep 0\n");
    let mut partial = plan(vec![]);
    partial.problems.push("failed to list containers: on\u{1b}fire".to_owned());
    let (text, error) = written(&partial, None);
    assert_eq!(text, "", "the number of kept items is unknown");
    assert_eq!(
        error.unwrap_err(),
        "some items could not be listed: failed to list containers: on fire"
    );
}

// behaviour: IMG-67
#[test]
fn plan_warns_when_the_next_pass_cannot_free_enough_space() {
    let mut full = plan(vec![]);
    let message = "Insufficient free disk space on the\u{1b}node.";
    full.warnings
        .push(GcWarning { reason: "FreeDiskSpaceFailed".to_owned(), message: message.to_owned() });
    let (text, done) = written(&full, None);
    assert_eq!(done, Ok(()), "all lists succeeded");
    assert_eq!(
        text,
        "\
would remove nothing; would keep 0
by the sizes that the runtime reports, the next pass cannot free enough: FreeDiskSpaceFailed: Insufficient free disk space on the node.
"
    );
    let (narrow, _) = written(&full, Some(60));
    assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&narrow), words(&text));
}

#[test]
fn json_output_is_the_unchanged_response() {
    let mut out = Vec::new();
    let plan = some();
    write_plan(&plan, Some(Output::Json), Timestamp::UNIX_EPOCH, &mut out, Some(10)).unwrap();
    assert_eq!(serde_json::from_slice::<GcPlan>(&out).unwrap(), plan);
}
