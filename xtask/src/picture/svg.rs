//! Frames as one animated SVG. Without animation, the fullest frame is shown.
#![expect(clippy::cast_precision_loss, reason = "rows, columns and frames are few")]

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::session::Frame;

const CELL: f64 = 8.4;
const LINE: f64 = 20.0;
const FONT: u32 = 14;
/// The margin around the text of a pane, and above it for its title.
const MARGIN: f64 = 18.0;
const TITLE: f64 = 34.0;
/// The gap between the panes.
const GAP: f64 = 14.0;
/// The number of visible typed lines.
const TYPED: usize = 3;
/// The longest and the shortest time of a frame, and that of the last one.
const LONGEST: Duration = Duration::from_millis(2600);
const SHORTEST: Duration = Duration::from_millis(90);
const LAST: Duration = Duration::from_secs(6);

const STYLE: &str = "
  text { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace;
         fill: #d7dde6; white-space: pre; }
  .title { fill: #8b96a5; font-family: -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; }
  .pane { fill: #12171f; stroke: #3b4654; }
  .head { font-weight: 600; fill: #8fb8de; }
  .note { fill: #e3b341; }
  .good { fill: #7ee2a0; }
  .dim { fill: #8b96a5; }
  @media (prefers-reduced-motion: reduce) { #film { animation: none; } }
";

/// The distance between frames, in widths: long lines must not reach the next frame.
const APART: f64 = 2.0;

/// Draws the frames.
pub(super) fn draw(frames: &[Frame], columns: usize, rows: usize) -> String {
    let frames = timed(frames);
    let width = columns as f64 * CELL + 2.0 * MARGIN;
    let upper = TITLE + rows as f64 * LINE + MARGIN;
    let lower = TITLE + TYPED as f64 * LINE + MARGIN;
    let height = upper + GAP + lower;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" font-size=\"{FONT}\" role=\"img\">\n\
         <title>A session of make run: pods come, are restarted, and go</title>\n\
         <style>{STYLE}{}</style>\n",
        film(&frames, width),
    );
    pane(&mut svg, "make run", width, upper, 0.0);
    pane(&mut svg, "another terminal", width, lower, upper + GAP);
    let mut lines = Lines::default();
    let mut strip = String::new();
    for (index, frame) in frames.iter().enumerate() {
        let left = index as f64 * width * APART + MARGIN;
        for (row, text) in frame.rows.iter().enumerate() {
            lines.place(&mut strip, text, class(text), Point { x: left, y: baseline(0.0, row) });
        }
        let seen = frame.typed.len().saturating_sub(TYPED);
        for (row, text) in frame.typed[seen..].iter().enumerate() {
            let place = Point { x: left, y: baseline(upper + GAP, row) };
            lines.place(&mut strip, &format!("$ {text}"), "good", place);
        }
    }
    writeln!(svg, "<defs>{}</defs>", lines.defined).expect("writing to a string does not fail");
    let inner = width - 2.0;
    writeln!(
        svg,
        "<svg x=\"1\" y=\"0\" width=\"{inner:.0}\" height=\"{height:.0}\">\
         <g id=\"film\">\n{strip}</g></svg>\n</svg>"
    )
    .expect("writing to a string does not fail");
    svg
}

/// The visible frames, each with a time within the limits.
fn timed(frames: &[Frame]) -> Vec<Frame> {
    let mut seen: Vec<Frame> = Vec::new();
    for frame in frames {
        // A short-lived frame is left out: the next one shows more.
        if let Some(last) = seen.last_mut().filter(|last| last.time < SHORTEST) {
            *last = frame.clone();
        } else {
            seen.push(frame.clone());
        }
    }
    for frame in &mut seen {
        frame.time = frame.time.clamp(SHORTEST, LONGEST);
    }
    if let Some(last) = seen.last_mut() {
        last.time = LAST;
    }
    seen
}

/// The movement from frame to frame, and the one that is shown without animation.
fn film(frames: &[Frame], width: f64) -> String {
    let whole: Duration = frames.iter().map(|frame| frame.time).sum();
    let mut steps = String::new();
    let mut past = Duration::ZERO;
    for (index, frame) in frames.iter().enumerate() {
        let percent = past.as_secs_f64() * 100.0 / whole.as_secs_f64().max(f64::EPSILON);
        let left = index as f64 * width * APART;
        write!(steps, "{percent:.3}%{{transform:translateX(-{left:.1}px)}}")
            .expect("writing to a string does not fail");
        past += frame.time;
    }
    let filled = |frame: &Frame| {
        let is_content = |row: &&String| matches!(class(row), "row" | "note");
        (frame.rows.iter().filter(is_content).count(), Reverse(frame.typed.len()))
    };
    let by_filling = frames.iter().enumerate().max_by_key(|(_, frame)| filled(frame));
    let fullest = by_filling.map_or(0, |(index, _)| index);
    let seconds = whole.as_secs_f64();
    format!(
        "\n  #film {{ transform: translateX(-{:.1}px); animation: film {seconds:.2}s step-end infinite; }}\n\
         \x20 @keyframes film {{{steps}}}\n",
        fullest as f64 * width * APART
    )
}

fn pane(svg: &mut String, title: &str, width: f64, height: f64, top: f64) {
    let (inner, middle) = (width - 2.0, width / 2.0);
    write!(
        svg,
        "<rect class=\"pane\" x=\"1\" y=\"{:.1}\" width=\"{inner:.1}\" height=\"{:.1}\" rx=\"9\"/>\n\
         <text class=\"title\" x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{title}</text>\n",
        top + 1.0,
        height - 2.0,
        top + 22.0,
    )
    .expect("writing to a string does not fail");
    for (index, colour) in ["#ff5f57", "#febc2e", "#28c840"].iter().enumerate() {
        let x = 20.0 + index as f64 * 18.0;
        writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{:.1}\" r=\"5.5\" fill=\"{colour}\"/>",
            top + 18.0
        )
        .expect("writing to a string does not fail");
    }
}

fn baseline(top: f64, row: usize) -> f64 {
    top + TITLE + (row as f64 + 0.8) * LINE
}

/// The colour of a line.
fn class(text: &str) -> &'static str {
    if text.starts_with("NAME") && text.contains("STATUS") {
        "head"
    } else if text.starts_with('!') || text.starts_with("  ") || text.starts_with('(') {
        "note"
    } else if text.starts_with("default ") {
        "row"
    } else {
        "dim"
    }
}

/// Where a text begins.
#[derive(Debug, Clone, Copy)]
struct Point {
    x: f64,
    y: f64,
}

/// Each different line is written once and then placed.
#[derive(Debug, Default)]
struct Lines {
    known: BTreeMap<String, usize>,
    defined: String,
}

impl Lines {
    fn place(&mut self, strip: &mut String, text: &str, class: &str, at: Point) {
        if text.is_empty() {
            return;
        }
        let next = self.known.len();
        let number = *self.known.entry(format!("{class} {text}")).or_insert_with(|| {
            // The length is given, so that other fonts keep the columns.
            let length = text.chars().count() as f64 * CELL;
            writeln!(
                self.defined,
                "<text id=\"t{next}\" class=\"{class}\" xml:space=\"preserve\" \
                 textLength=\"{length:.1}\" lengthAdjust=\"spacingAndGlyphs\">{}</text>",
                escaped(text)
            )
            .expect("writing to a string does not fail");
            next
        });
        let Point { x, y } = at;
        writeln!(strip, "<use href=\"#t{number}\" x=\"{x:.1}\" y=\"{y:.1}\"/>")
            .expect("writing to a string does not fail");
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(rows: &[&str], typed: &[&str], time: u64) -> Frame {
        let owned = |lines: &[&str]| lines.iter().map(ToString::to_string).collect();
        Frame { rows: owned(rows), typed: owned(typed), time: Duration::from_millis(time) }
    }

    #[test]
    fn frames_are_drawn_once_each_with_their_lines_shared() {
        let frames = [
            frame(&["NAME STATUS", "default a <none>"], &[], 1000),
            frame(&["NAME STATUS", "default b"], &["kill -9 7"], 60_000),
        ];
        let svg = draw(&frames, 20, 2);
        assert_eq!(svg.matches(">NAME STATUS</text>").count(), 1, "{svg}");
        assert!(svg.contains("default a &lt;none&gt;") && svg.contains("$ kill -9 7"), "{svg}");
        assert_eq!(svg.matches("<use ").count(), 5, "{svg}");
        assert_eq!(svg.matches("translateX").count(), 3, "{svg}");
    }

    #[test]
    fn long_waits_are_shortened_and_short_frames_left_out() {
        let frames = [
            frame(&["a"], &[], 5),
            frame(&["b"], &[], 60_000),
            frame(&["c"], &[], 300),
            frame(&["d"], &[], 0),
        ];
        let seen: Vec<(String, Duration)> =
            timed(&frames).into_iter().map(|frame| (frame.rows[0].clone(), frame.time)).collect();
        let expected = [
            ("b".to_owned(), LONGEST),
            ("c".to_owned(), Duration::from_millis(300)),
            ("d".to_owned(), LAST),
        ];
        assert_eq!(seen, expected);
    }
}
