//! The ratios as a picture: a bar for each, on a logarithmic axis.

use std::fmt::Write as _;

use crate::metrics::{Row, rows};
use crate::report::short;
use crate::results::Results;
use crate::spread::Spread;
use crate::targets::{Measure, TARGETS};

const LINE: f64 = 20.0;
const TOP: f64 = 50.0;
const LEFT: f64 = 390.0;
const WIDTH: f64 = 420.0;
const RIGHT: f64 = 70.0;
/// The ends of the axis; values outside are drawn at its ends.
const LEAST: f64 = 0.001;
const MOST: f64 = 10.0;

/// A ratio to draw.
#[derive(Debug, Clone, Copy)]
pub struct Bar<'a> {
    /// Its group; the name is written above the group's first bar.
    pub group: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Over the rounds.
    pub ratio: Spread,
    /// The target, drawn as a red line.
    pub limit: Option<f64>,
}

/// A picture in SVG of ferrolet's share of upstream's numbers.
pub fn svg(results: &Results) -> String {
    let rows = rows(results);
    let bars = rows.iter().filter_map(|row| {
        let (group, name, ratio) = (row.scenario, row.metric, row.ratio?);
        Some(Bar { group, name, ratio, limit: limit(row) })
    });
    picture(&bars.collect::<Vec<_>>())
}

/// A picture in SVG of these ratios.
pub fn picture(bars: &[Bar<'_>]) -> String {
    let mut lines = TOP;
    let mut body = String::new();
    let mut group = "";
    for one in bars {
        if one.group != group {
            group = one.group;
            lines += LINE * 0.6;
            text(&mut body, 10.0, lines + 14.0, "b", group);
        }
        bar(&mut body, lines, one);
        lines += LINE;
    }
    let height = lines + LINE;
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <style>.b{{font-weight:bold}}.e{{text-anchor:end}}.m{{text-anchor:middle}}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        width = LEFT + WIDTH + RIGHT,
    );
    text(&mut picture, 10.0, 18.0, "b", "ferrolet's share of upstream's number (less is better)");
    axis(&mut picture, lines);
    picture + &body + "</svg>\n"
}

/// The position of a ratio.
fn place(ratio: f64) -> f64 {
    let decades = (MOST / LEAST).log10();
    LEFT + WIDTH * (ratio.clamp(LEAST, MOST) / LEAST).log10() / decades
}

fn axis(picture: &mut String, bottom: f64) {
    for ratio in [0.001, 0.01, 0.1, 1.0, 10.0] {
        let x = place(ratio);
        let colour = if ratio.to_bits() == 1.0_f64.to_bits() { "#555" } else { "#ddd" };
        shape(
            picture,
            &format!(
                "line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"{colour}\""
            ),
        );
        text(picture, x, TOP - 8.0, "m", &format!("{ratio}×"));
    }
}

fn bar(body: &mut String, top: f64, bar: &Bar<'_>) {
    let Bar { name, ratio, limit, .. } = *bar;
    let middle = top + LINE / 2.0;
    let (left, end) = (place(LEAST), place(ratio.median));
    let (from, to) = (place(ratio.min), place(ratio.max));
    text(body, LEFT - 8.0, middle + 4.0, "e", name);
    shape(
        body,
        &format!(
            "rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#4a7ebb\"",
            top + 4.0,
            end - left,
            LINE - 8.0
        ),
    );
    shape(
        body,
        &format!(
            "line x1=\"{from:.1}\" y1=\"{middle:.1}\" x2=\"{to:.1}\" y2=\"{middle:.1}\" stroke=\"#222\" stroke-width=\"1.5\""
        ),
    );
    if let Some(limit) = limit {
        let x = place(limit);
        shape(
            body,
            &format!(
                "line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"#c33\" stroke-width=\"2\"",
                top + 1.0,
                top + LINE - 1.0
            ),
        );
    }
    text(body, LEFT + WIDTH + 8.0, middle + 4.0, "", &format!("{}×", short(ratio.median)));
}

/// The target of a ratio.
fn limit(row: &Row<'_>) -> Option<f64> {
    let of_row = |target: &&crate::targets::Target| {
        target.measure == Measure::Ratio
            && target.scenario == row.scenario
            && target.metric == row.metric
    };
    TARGETS.iter().find(of_row).map(|target| target.limit)
}

fn shape(to: &mut String, shape: &str) {
    writeln!(to, "<{shape}/>").expect("writing to a string does not fail");
}

fn text(to: &mut String, x: f64, y: f64, class: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    writeln!(to, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{text}</text>")
        .expect("writing to a string does not fail");
}
