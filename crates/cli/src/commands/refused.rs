//! Notes about refused manifests.

use std::path::Path;

use server::wire::RefusedManifest;

use super::table::{clean, width};

/// How many notes are shown on a terminal.
const MOST: usize = 5;
/// The maximum number of lines of a note.
const LINES: usize = 3;

/// How many characters of the message are shown beside a table: validation may return a thousand errors.
const BRIEF: usize = 100;

/// The problem of a manifest, and the consequence for its pod.
pub(crate) fn note(refused: &RefusedManifest) -> String {
    written(refused, &refused.manifest, &refused.message)
}

/// The note in one line, with a hint where to find the rest.
pub(crate) fn brief(refused: &RefusedManifest) -> String {
    shortened(refused, &refused.manifest)
}

fn shortened(refused: &RefusedManifest, manifest: &str) -> String {
    let message = clean(&refused.message);
    let Some((cut, _)) = message.char_indices().nth(BRIEF) else {
        return written(refused, manifest, &message);
    };
    // Cuts between words, unless a single word is longer than the limit.
    let end = message[..cut].rfind(' ').unwrap_or(cut);
    let name = Path::new(&refused.manifest).file_name().and_then(|name| name.to_str());
    let name = name.unwrap_or(&refused.manifest);
    let note = written(refused, manifest, message[..end].trim_end_matches([' ', ',', ';', ':']));
    format!("{note} … (describe {name} has the rest)")
}

fn written(refused: &RefusedManifest, manifest: &str, message: &str) -> String {
    let RefusedManifest { pod, last_good_stays, .. } = refused;
    let rest = match pod {
        _ if !last_good_stays => String::new(),
        Some(pod) => format!("; {pod} is unchanged"),
        None => "; its pods are unchanged".to_owned(),
    };
    clean(&format!("{manifest} was refused: {message}{rest}"))
}

/// The notes of all manifests, below a table on a terminal, with file names only.
pub(crate) fn notes(refused: &[RefusedManifest], columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for refused in refused.iter().take(MOST) {
        let path = Path::new(&refused.manifest);
        let name = path.file_name().and_then(|name| name.to_str());
        // A URL is not shortened: its last part alone has no meaning.
        let name = name.filter(|_| path.is_absolute()).unwrap_or(&refused.manifest);
        lines.extend(wrapped(&format!("! {}", shortened(refused, name)), columns));
    }
    if let Some(more @ 1..) = refused.len().checked_sub(MOST) {
        lines.push(format!("! and {more} more; get pods -o json names them"));
    }
    lines
}

/// A text wrapped between words into a few lines; the last one may be too long.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split(' ') {
        let room = lines.len() < LINES;
        let line = lines.last_mut().expect("there is a first line");
        if !line.trim().is_empty() && room && width(line) + 1 + width(word) > columns {
            lines.push(format!("  {word}"));
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(manifest: &str, pod: Option<&str>, last_good_stays: bool) -> RefusedManifest {
        RefusedManifest {
            manifest: manifest.to_owned(),
            message: "spec.containers[0].image: Required value".to_owned(),
            pod: pod.map(str::to_owned),
            last_good_stays,
        }
    }

    #[test]
    fn note_names_the_problem_and_the_consequence_for_the_pod() {
        let wrong = "was refused: spec.containers[0].image: Required value";
        let rows = [
            (refused("/m/a.yaml", None, false), format!("/m/a.yaml {wrong}")),
            (
                refused("/m/a.yaml", Some("default/a-node"), true),
                format!("/m/a.yaml {wrong}; default/a-node is unchanged"),
            ),
            (
                refused("http://h/pods", None, true),
                format!("http://h/pods {wrong}; its pods are unchanged"),
            ),
        ];
        for (refused, expected) in rows {
            assert_eq!(note(&refused), expected);
        }
    }

    #[test]
    fn brief_note_shortens_a_long_message_and_names_the_source() {
        let mut long = refused("/m/a.yaml", Some("default/a-node"), true);
        assert_eq!(brief(&long), note(&long));
        long.message = "spec.containers[0].image: Required value; ".repeat(40);
        let text = brief(&long);
        assert!(text.len() < 250 && !text.contains('\n'), "{text}");
        assert!(text.starts_with("/m/a.yaml was refused: spec.containers[0].image"), "{text}");
        let rest = "; default/a-node is unchanged … (describe a.yaml has the rest)";
        assert!(text.ends_with(rest), "{text}");
        assert!(note(&long).len() > 1000);
        long.message = "é".repeat(300);
        assert!(brief(&long).contains(&"é".repeat(100)));
    }

    #[test]
    fn terminal_notes_are_short_few_and_wrapped_between_words() {
        let one = refused("/m/a.yaml", Some("default/a-node"), true);
        let expected = [
            "! a.yaml was refused: spec.containers[0].image:",
            "  Required value; default/a-node is unchanged",
        ];
        assert_eq!(notes(std::slice::from_ref(&one), 50), expected);
        let lines = notes(&vec![one; 8], 200);
        assert_eq!(lines.len(), MOST + 1);
        assert_eq!(lines[MOST], "! and 3 more; get pods -o json names them");
        let url = refused("http://h/pods", None, false);
        assert!(notes(&[url], 200)[0].starts_with("! http://h/pods was"));
    }

    #[test]
    fn note_has_a_line_limit() {
        let mut long = refused("/m/a.yaml", None, false);
        long.message = "word ".repeat(100);
        assert_eq!(notes(&[long], 20).len(), LINES);
    }
}
