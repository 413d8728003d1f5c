//! Accepted configurations: the kubelet's `/configz` equals the configuration that our program reports.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, ensure};
use config::KubeletConfiguration;
use serde_json::Value;

use crate::case;
use crate::upstream::Place;

/// How many kubelets run at once, each in its own instance.
const AT_A_TIME: usize = 2;

/// A kubelet asks the runtime for it at its start, so it is in no file.
const ASKED_OF_THE_RUNTIME: &str = "cgroupDriver";

// behaviour: CFG-71
#[test]
fn effective_configuration_equals_the_kubelets() {
    let cases = case::all("accepted").unwrap();
    assert!(cases.len() >= 30, "{} cases", cases.len());
    let left = Mutex::new(cases.iter());
    let different = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                let place = Place::start().unwrap();
                while let Some(stored) = next(&left) {
                    if let Err(error) = compare(&place, stored) {
                        different.lock().unwrap().push(format!("{}: {error:#}", stored.display()));
                    }
                }
                place.stop().unwrap();
            });
        }
    });
    let different = different.into_inner().unwrap();
    let problem = different.join("\n\n");
    assert!(different.is_empty(), "{} of {}:\n{problem}", different.len(), cases.len());
}

#[test]
fn accepted_cases_cover_every_field() {
    let mut text = String::new();
    for case in case::all("accepted").unwrap() {
        collect(&case, &mut text).unwrap();
    }
    let missing: Vec<&str> = KubeletConfiguration::FIELDS
        .iter()
        .filter(|field| {
            !text.contains(&format!("{field}:")) && !text.contains(&format!("{field}\""))
        })
        .copied()
        .collect();
    assert_eq!(missing, [""; 0]);
}

/// Adds the text of all files below a directory.
fn collect(directory: &Path, text: &mut String) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, text)?;
        } else {
            *text += &fs::read_to_string(path)?;
        }
    }
    Ok(())
}

fn next<'a>(left: &Mutex<impl Iterator<Item = &'a PathBuf>>) -> Option<&'a Path> {
    left.lock().expect("no thread panics with it").next().map(PathBuf::as_path)
}

fn compare(place: &Place, stored: &Path) -> Result<()> {
    let case = place.lay_out(stored)?;
    let output = place.check(&case, &["-o", "json"])?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "refused by us: {stderr}");
    let mut ours: Value = serde_json::from_slice(&output.stdout).context("read our answer")?;
    let port = ours["port"].as_u64().and_then(|port| u16::try_from(port).ok());
    let mut theirs = place.configz(&case, port.context("our answer has no port")?)?;
    for configuration in [&mut ours, &mut theirs] {
        configuration.as_object_mut().context("an object")?.remove(ASKED_OF_THE_RUNTIME);
    }
    let mut difference = String::new();
    compare_values("", &ours, &theirs, &mut difference);
    ensure!(difference.is_empty(), "{difference}");
    Ok(())
}

fn compare_values(path: &str, ours: &Value, theirs: &Value, difference: &mut String) {
    match (ours, theirs) {
        (Value::Object(one), Value::Object(other)) => {
            let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for name in names {
                let at = |object: &Value| object.get(name).cloned().unwrap_or(Value::Null);
                compare_values(&format!("{path}.{name}"), &at(ours), &at(theirs), difference);
            }
        }
        _ if ours == theirs => {}
        _ => writeln!(difference, "  {path}: ours {ours}, theirs {theirs}").expect("a string"),
    }
}
