use std::path::PathBuf;

use super::*;

const HEADER: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// The result of the command, and its output.
#[derive(Debug)]
struct Checked {
    outcome: Result<(), String>,
    out: String,
    notes: String,
}

fn checked(args: &[&str], machine: CgroupVersion) -> Checked {
    let options = parse(args.iter().map(|arg| (*arg).to_owned()).collect()).unwrap();
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    let outcome = check(&options, machine, &mut out, &mut notes);
    Checked {
        outcome: outcome.map_err(|error| error.to_string()),
        out: String::from_utf8(out).unwrap(),
        notes: String::from_utf8(notes).unwrap(),
    }
}

/// Files in a temporary directory.
struct Files(tempfile::TempDir);

impl Files {
    fn new(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            hostfs::replace(&directory.path().join(name), text.as_bytes()).unwrap();
        }
        Self(directory)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}

#[test]
fn own_flags_are_split_from_kubelet_flags() {
    let (json, yaml) = (Some(Output::Json), Some(Output::Yaml));
    let rows: [(&[&str], &[&str], Option<Output>); 6] = [
        (&["/a", "--max-pods", "3", "-o", "json"], &["--max-pods=3", "--config=/a"], json),
        (&["-o=json", "--config=/a", "-v", "4"], &["--config=/a", "-v=4"], json),
        (&["--output", "yaml", "--cluster-domain", "-o"], &["--cluster-domain=-o"], yaml),
        (
            &["-ojson", "--rotate-certificates", "/a"],
            &["--rotate-certificates", "--config=/a"],
            json,
        ),
        (&["--max_pods", "/a", "/b"], &["--max-pods=3"], None),
        (&[], &[], None),
    ];
    for (args, flags, output) in rows {
        let parsed = parse(args.iter().map(|arg| (*arg).to_owned()).collect());
        if args.contains(&"--max_pods") {
            assert!(parsed.is_err(), "/a is not a number: {parsed:?}");
            continue;
        }
        let expected = FlagSet::parse(flags.iter().copied()).unwrap();
        let expected = CheckOptions { output, flags: expected, ..CheckOptions::default() };
        assert_eq!(parsed.unwrap(), expected, "{args:?}");
    }
    for args in [&["/a", "/b"][..], &["-o", "xml"], &["--nonsense"], &["-o"]] {
        let parsed = parse(args.iter().map(|arg| (*arg).to_owned()).collect());
        let error = parsed.unwrap_err();
        assert_eq!(crate::exit_code::of(&error), 2, "{args:?}: {error}");
    }
}

// behaviour: CFG-90
#[test]
fn printed_configuration_is_yaml_that_loads_to_the_same_values() {
    let files = Files::new(&[(
        "kubelet.yaml",
        &format!("{HEADER}maxPods: 7\nport: 8\nsyncFrequency: 90s\n"),
    )]);
    let first = checked(&[&files.path("kubelet.yaml"), "--pods-per-core=2"], CgroupVersion::V2);
    assert_eq!(first.outcome, Ok(()));
    for line in ["maxPods: 7", "syncFrequency: 1m30s", "podsPerCore: 2", "healthzPort: 10248"] {
        assert!(first.out.lines().any(|reported| reported == line), "{line}:\n{}", first.out);
    }
    let notes = "warning: --pods-per-core: the flag is deprecated, set podsPerCore in the file given \
                 by --config\n";
    assert_eq!(first.notes, notes);
    hostfs::replace(&PathBuf::from(files.path("again.yaml")), first.out.as_bytes()).unwrap();
    let again = checked(&[&files.path("again.yaml")], CgroupVersion::V2);
    assert_eq!((again.outcome, again.out), (Ok(()), first.out));
}

// behaviour: CFG-93
#[test]
fn only_values_without_effect_are_marked() {
    let fields = "cpuManagerReconcilePeriod: 2m\nserializeImagePulls: true\nmaxPods: 7\n\
                  featureGates: {MemoryQoS: true, ContainerStopSignals: true}\n";
    let files = Files::new(&[("kubelet.yaml", &format!("{HEADER}{fields}"))]);
    let file = files.path("kubelet.yaml");
    let yaml = checked(&[&file], CgroupVersion::V2);
    assert_eq!(yaml.outcome, Ok(()), "{}", yaml.notes);
    for line in [
        "cpuManagerReconcilePeriod: 2m0s  # no effect yet",
        "registryPullQPS: 5",
        "containerLogMaxFiles: 5",
        "  memory.available: 100Mi",
        "  imagefs.available: 15%",
        "  MemoryQoS: true  # no effect yet",
        "  ContainerStopSignals: true",
        "maxPods: 7",
        "serializeImagePulls: true",
        "syncFrequency: 1m0s",
    ] {
        assert!(yaml.out.lines().any(|found| found == line), "{line}:\n{}", yaml.out);
    }
    // JSON has no comments; it is the document of /configz.
    let json = checked(&[&file, "-o", "json"], CgroupVersion::V2);
    let document: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(document["cpuManagerReconcilePeriod"], "2m0s");
    let (_, listed) = json.notes.trim_end().split_once("without effect: ").unwrap();
    let is_listed = |field: &str| listed.split(", ").any(|path| path == field);
    assert!(is_listed("cpuManagerReconcilePeriod"), "{listed}");
    assert!(!is_listed("evictionHard.memory.available"), "{listed}");
}

// behaviour: CFG-94
#[test]
fn machine_facts_can_be_omitted() {
    let files = Files::new(&[("kubelet.yaml", HEADER)]);
    let file = files.path("kubelet.yaml");
    assert!(checked(&[&file], CgroupVersion::V1).outcome.is_err());
    let checked = checked(&[&file, "--any-machine"], CgroupVersion::V1);
    assert_eq!(checked.outcome, Ok(()), "{}", checked.notes);
}

// behaviour: CFG-25
#[test]
fn unknown_drop_in_field_is_a_warning() {
    let files = Files::new(&[("10.conf", &format!("{HEADER}maxPod: 7\n"))]);
    let directory = files.0.path().display().to_string();
    let checked = checked(&["--config-dir", &directory], CgroupVersion::V2);
    let expected = format!("warning: {}: maxPod: unknown field, ignored\n", files.path("10.conf"));
    assert!(checked.notes.starts_with(&expected), "{}", checked.notes);
}

// behaviour: CFG-7, CFG-91
#[test]
fn every_error_names_its_source() {
    let files = Files::new(&[
        ("kubelet.yaml", &format!("{HEADER}maxPods: many\noomScoreAdj: 5000\nnoSuchField: 1\n")),
        (
            "own.yaml",
            "apiVersion: ferrolet/v1alpha1\nkind: FerroletConfiguration\nevents: {x: 1}\n",
        ),
    ]);
    let (file, own) = (files.path("kubelet.yaml"), files.path("own.yaml"));
    let args = [file.as_str(), "--port=0", "--ferrolet-config", &own, "-o", "json"];
    let refused = checked(&args, CgroupVersion::V1);
    assert_eq!(refused.outcome, Err("the configuration has 5 errors".to_owned()));
    assert_eq!(
        refused.notes,
        format!(
            "warning: noSuchField: unknown field, ignored\n\
             warning: --port: the flag is deprecated, set port in the file given by --config\n\
             error: {file}: maxPods: expected an integer, found a string\n\
             error: --port: port: must be from 1 to 65535\n\
             error: {file}: oomScoreAdj: must be from -1000 to 1000\n\
             error: failCgroupV1: this machine has cgroup v1, which is refused unless the field is \
             false\n\
             error: {own}: events.x: no such field\n"
        )
    );
    let json: Value = serde_json::from_str(&refused.out).unwrap();
    let errors = json["errors"].as_array().unwrap();
    let fields: Vec<&str> = errors.iter().filter_map(|error| error["field"].as_str()).collect();
    assert_eq!(fields, ["maxPods", "port", "oomScoreAdj", "failCgroupV1", "events.x"]);
    assert_eq!(errors[1]["source"], "--port");
}

// behaviour: GC-70, IMG-64
#[test]
fn invalid_gc_settings_are_errors_with_their_source() {
    let own = "apiVersion: ferrolet/v1alpha1\nkind: FerroletConfiguration\n\
               gc: {images: {pin: [busybox, 'a b', 'label:']}, containers: {ageBy: x}}\n";
    let files = Files::new(&[("own.yaml", own)]);
    let file = files.path("own.yaml");
    let wrong = |pattern: &str| {
        format!(
            "{pattern:?} is neither a name of an image, nor a pattern with * or ?, nor \
             label:NAME[=VALUE]"
        )
    };
    let errors = [
        format!("{file}: gc.containers.ageBy: must be created or finished"),
        format!("{file}: gc.images.pin[1]: {}", wrong("a b")),
        format!("{file}: gc.images.pin[2]: {}", wrong("label:")),
        "--minimum-container-ttl-duration: invalid minimum garbage collection age: -1s".to_owned(),
    ];
    let flags = ["--ferrolet-config", &file, "--minimum-container-ttl-duration=-1s"];
    let reported = checked(&[&flags[..], &["-o", "json"]].concat(), CgroupVersion::V2);
    assert_eq!(reported.outcome, Err("the configuration has 4 errors".to_owned()));
    let printed: Vec<&str> =
        reported.notes.lines().filter_map(|line| line.strip_prefix("error: ")).collect();
    assert_eq!(printed, errors);
    let json: Value = serde_json::from_str(&reported.out).unwrap();
    assert_eq!(json["errors"][1]["field"], "gc.images.pin[1]");
    assert_eq!(json["errors"][1]["source"], file.as_str());
    // The agent refuses to start with the same errors.
    let run = ferrolet::run_args::parse(flags.iter().map(OsString::from), CgroupVersion::V2);
    let refused = run.unwrap_err().to_string();
    assert!(errors.iter().all(|error| refused.contains(error)), "{refused}");
}

#[test]
fn unreadable_file_is_one_error() {
    let refused = checked(&["/nowhere/kubelet.yaml"], CgroupVersion::V2);
    assert_eq!(refused.outcome, Err("the configuration has 1 error".to_owned()));
    assert!(refused.notes.contains("/nowhere/kubelet.yaml"), "{}", refused.notes);
    assert_eq!(refused.out, "");
}

// behaviour: CFG-90
#[test]
fn ferrolet_configuration_is_printed_after_the_kubelets() {
    let own = "apiVersion: ferrolet/v1alpha1\nkind: FerroletConfiguration\n\
               pleg: {relistPeriodWithHints: 30s}\n";
    let files = Files::new(&[("own.yaml", own)]);
    let reported = checked(&["--ferrolet-config", &files.path("own.yaml")], CgroupVersion::V2);
    let (_, second) = reported.out.split_once("\n---\n").expect("two documents");
    assert!(second.contains("kind: FerroletConfiguration"), "{second}");
    assert!(second.contains("relistPeriodWithHints: 30s"), "{second}");
    assert!(second.contains("perPod: 50"), "{second}");
}

#[test]
fn unreadable_file_has_an_error_for_the_whole_file() {
    let reported = checked(&["--ferrolet-config", "/nope.yaml"], CgroupVersion::V2);
    assert!(
        reported.notes.starts_with("error: cannot read configuration file /nope.yaml"),
        "{}",
        reported.notes
    );
}

// behaviour: CFG-73
#[test]
fn full_configuration_of_an_older_cluster_passes_on_any_machine() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/tests/data/full.yaml");
    let v1 = checked(&[file], CgroupVersion::V1);
    assert_eq!(v1.outcome, Err("the configuration has 1 error".to_owned()));
    let passes = checked(&[file, "--fail-cgroupv1=false"], CgroupVersion::V1);
    assert_eq!(passes.outcome, Ok(()), "{}", passes.notes);
    assert_eq!(passes.notes, "");
}

// behaviour: CFG-92
#[test]
fn first_file_and_drop_in_of_the_document_are_valid() {
    let document = include_str!("../../../../docs/configuration.md");
    let (_, rest) = document.split_once("## A first file").unwrap();
    let blocks: Vec<&str> = rest.split("```").skip(1).step_by(2).take(2).collect();
    let yaml = |block: &str| block.strip_prefix("yaml\n").unwrap().to_owned();
    let files = Files::new(&[("kubelet.yaml", &yaml(blocks[0])), ("10.conf", &yaml(blocks[1]))]);
    let directory = files.0.path().display().to_string();
    let file = files.path("kubelet.yaml");
    let args = ["--config", &file, "--config-dir", &directory, "-o", "json"];
    let answer = checked(&args, CgroupVersion::V2);
    assert_eq!(answer.outcome, Ok(()), "{}", answer.notes);
    // The file is in the directory of drop-ins in this test.
    let warnings: Vec<&str> = answer.notes.lines().collect();
    assert_eq!(
        warnings[0],
        format!("warning: {file}: skipped: the name of a drop-in must end in .conf")
    );
    assert!(warnings[1].starts_with("without effect: "), "{warnings:?}");
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    let config: Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(config["staticPodPath"], format!("{directory}/manifests"));
    assert_eq!(config["failSwapOn"], false);
    let thresholds = config["evictionHard"].as_object().unwrap();
    assert_eq!((thresholds.len(), &thresholds["memory.available"]), (5, &"1Gi".into()));
}

// behaviour: CFG-92
#[test]
fn document_shows_the_actual_output() {
    let document = include_str!("../../../../docs/configuration.md");
    let (_, rest) = document.split_once("Given this `kubelet.yaml`").unwrap();
    let blocks: Vec<&str> = rest.split("```").skip(1).step_by(2).take(2).collect();
    let (file, session) = (blocks[0].strip_prefix("yaml\n").unwrap(), blocks[1].trim());
    let (command, expected) = session.split_once('\n').unwrap();
    let files = Files::new(&[("kubelet.yaml", file)]);
    let args: Vec<String> = command
        .strip_prefix("$ ferrolet config check ")
        .unwrap()
        .split(' ')
        .map(|arg| if arg == "kubelet.yaml" { files.path(arg) } else { arg.to_owned() })
        .collect();
    let reported = checked(&args.iter().map(String::as_str).collect::<Vec<_>>(), CgroupVersion::V2);
    let printed = format!("{}ferrolet: {}", reported.notes, reported.outcome.unwrap_err());
    assert_eq!(printed.replace(&files.path("kubelet.yaml"), "kubelet.yaml"), expected);
}
