use journal::Inputs;

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
        problems: Vec::new(),
    }
}

fn written(plan: &GcPlan, terminal: Option<usize>) -> (String, Result<(), String>) {
    let mut out = Vec::new();
    let now = Timestamp::from_second(7200).unwrap();
    let done = write_plan(plan, None, now, (&mut out, terminal));
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
fn a_plan_is_a_table_with_what_goes_and_why_and_what_it_comes_to() {
    let (text, done) = written(&some(), None);
    assert_eq!(done, Ok(()));
    assert_eq!(
        text,
        "\
KIND        NAME                           ID              POD           AGE/SIZE   VERDICT   WHY
container   main                           4f6c0e1d2a3b4   default/web   120m       remove    dead instance 2 of 2 of its container, counted from the newest, and 1 may stay (per-container-cap)
log         /var/log/pods/default_web_u1   -               default/web   -          remove    its pod is gone (pod-is-gone)
sandbox     -                              0123            default/web   -          keep      it is ready for its pod (sandbox-ready)
image       pause:1                        abc             -             2.0 MiB    keep      the runtime asks to keep it (image-pinned)

would remove 1 container, 1 log; would keep 2
"
    );
}

#[test]
fn a_narrow_terminal_cuts_the_reasons() {
    let (text, _) = written(&some(), Some(100));
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.contains("remove    d"), "{text}");
}

#[test]
fn nothing_there_is_told_in_a_line_and_what_is_missing_is_an_error() {
    assert_eq!(written(&plan(vec![]), None).0, "would remove nothing; would keep 0\n");
    let mut partial = plan(vec![]);
    partial.problems.push("failed to list containers: on\u{1b}fire".to_owned());
    let error = written(&partial, None).1.unwrap_err();
    assert_eq!(error, "not everything could be looked at: failed to list containers: on fire");
}

#[test]
fn json_is_the_answer_as_it_is() {
    let mut out = Vec::new();
    let plan = some();
    write_plan(&plan, Some(Output::Json), Timestamp::UNIX_EPOCH, (&mut out, Some(10))).unwrap();
    assert_eq!(serde_json::from_slice::<GcPlan>(&out).unwrap(), plan);
}
