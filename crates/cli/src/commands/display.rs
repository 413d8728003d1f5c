//! Displays of pods for `--watch`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use model::ids::PodUid;
use serde::Serialize;
use server::decide::Change;
use server::wire::{PodItem, RefusedManifest};

use super::colours;
use super::get_pods::table_lines;
use super::output::Output;
use super::pods_table::{Layout, sort};
use super::refused::{brief, notes};
use super::screen::{Screen, Size};
use super::table::Columns;

/// Pods by uid.
pub type Pods = BTreeMap<PodUid, PodItem<Pod>>;
/// A change of a pod.
pub type PodChange = Change<PodItem<Pod>>;

/// The state to show.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DisplayState {
    /// The pods.
    pub pods: Pods,
    /// The refused manifests.
    pub refused: Vec<RefusedManifest>,
}

/// Shows pods and their changes.
pub trait Display {
    /// Changes of pods, and of manifests, led to this state. The first call has all pods as
    /// added.
    fn changed(
        &mut self,
        changes: &[PodChange],
        known: &DisplayState,
        now: Timestamp,
    ) -> io::Result<()>;

    /// Where notices are written, if not among the pods.
    fn notices(&mut self) -> Option<&mut dyn Write> {
        None
    }

    /// A notice is set, or removed.
    fn notice(&mut self, notice: Option<&str>, _: &DisplayState, _: Timestamp) -> io::Result<()> {
        match (notice, self.notices()) {
            (Some(notice), Some(out)) => writeln!(out, "ferrolet: {notice}"),
            _ => Ok(()),
        }
    }

    /// Time passed.
    fn tick(&mut self, _: &DisplayState, _: Timestamp) -> io::Result<()> {
        Ok(())
    }
}

fn sorted(pods: &Pods) -> Vec<PodItem<Pod>> {
    let mut pods: Vec<_> = pods.values().cloned().collect();
    sort(&mut pods);
    pods
}

/// Reports each refused manifest once, in addition to the pods.
#[derive(Debug)]
struct Notices<E> {
    out: E,
    reported: Vec<RefusedManifest>,
}

impl<E: Write> Notices<E> {
    fn new(out: E) -> Self {
        Self { out, reported: Vec::new() }
    }

    fn refused(&mut self, refused: &[RefusedManifest]) -> io::Result<()> {
        for one in refused.iter().filter(|one| !self.reported.contains(one)) {
            writeln!(self.out, "ferrolet: {}", brief(one))?;
        }
        let still = |one: &RefusedManifest| refused.iter().any(|now| now.manifest == one.manifest);
        for over in self.reported.iter().filter(|one| !still(one)) {
            writeln!(self.out, "ferrolet: {} is no longer refused", over.manifest)?;
        }
        self.reported = refused.to_vec();
        Ok(())
    }
}

/// A table, followed by a line for each change.
#[derive(Debug)]
pub struct TableLines<W, E> {
    out: W,
    notices: Notices<E>,
    layout: Layout,
    /// Set once the table was written.
    columns: Option<Columns>,
}

impl<W: Write, E: Write> TableLines<W, E> {
    /// Writes nothing yet.
    pub fn new(out: W, notices: E, layout: Layout) -> Self {
        Self { out, notices: Notices::new(notices), layout, columns: None }
    }
}

impl<W: Write, E: Write> Display for TableLines<W, E> {
    fn changed(
        &mut self,
        changes: &[PodChange],
        known: &DisplayState,
        now: Timestamp,
    ) -> io::Result<()> {
        let header = self.layout.header();
        let rows: Vec<Vec<String>> = match &self.columns {
            None => {
                sorted(&known.pods).iter().map(|item| self.layout.row(item, None, now)).collect()
            }
            Some(_) => changes
                .iter()
                .map(|change| match change {
                    Change::Added(item) | Change::Modified(item) => {
                        self.layout.row(item, None, now)
                    }
                    Change::Deleted(item) => self.layout.row(item, Some("Deleted"), now),
                })
                .collect(),
        };
        let before = self.columns.take();
        let mut columns = before.clone().unwrap_or_else(|| self.layout.usual_columns());
        for row in [&header].into_iter().chain(&rows) {
            columns.widen(row);
        }
        // When columns move, the header is needed again.
        if before.is_none_or(|before| !columns.begin_as(&before)) {
            writeln!(self.out, "{}", columns.line(&header, None))?;
        }
        for row in &rows {
            writeln!(self.out, "{}", columns.line(row, None))?;
        }
        self.columns = Some(columns);
        self.out.flush()?;
        self.notices.refused(&known.refused)
    }

    fn notices(&mut self) -> Option<&mut dyn Write> {
        Some(&mut self.notices.out)
    }
}

/// One object for each change, as a watch of the API writes it.
#[derive(Debug)]
pub struct ObjectStream<W, E> {
    out: W,
    notices: Notices<E>,
    format: Output,
}

#[derive(Debug, Serialize)]
struct WatchEvent<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    object: &'a Pod,
}

impl<W: Write, E: Write> ObjectStream<W, E> {
    /// Writes nothing yet.
    pub fn new(out: W, notices: E, format: Output) -> Self {
        Self { out, notices: Notices::new(notices), format }
    }
}

impl<W: Write, E: Write> Display for ObjectStream<W, E> {
    fn changed(
        &mut self,
        changes: &[PodChange],
        known: &DisplayState,
        _: Timestamp,
    ) -> io::Result<()> {
        for change in changes {
            let (kind, item) = match change {
                Change::Added(item) => ("ADDED", item),
                Change::Modified(item) => ("MODIFIED", item),
                Change::Deleted(item) => ("DELETED", item),
            };
            let text = self.format.item(&WatchEvent { kind, object: &item.pod });
            self.out.write_all(text.map_err(io::Error::other)?.as_bytes())?;
        }
        self.out.flush()?;
        self.notices.refused(&known.refused)
    }

    fn notices(&mut self) -> Option<&mut dyn Write> {
        Some(&mut self.notices.out)
    }
}

/// A table on a terminal that is redrawn at every change.
#[derive(Debug)]
pub struct LiveTable<W> {
    out: W,
    layout: Layout,
    size: fn() -> Option<Size>,
    screen: Screen,
    notice: Option<String>,
    has_colours: bool,
    /// Whether the first state has arrived: before, there is nothing to draw.
    begun: bool,
}

impl<W: Write> LiveTable<W> {
    /// Draws nothing yet. The size is read at each drawing: it may change.
    pub fn new(out: W, layout: Layout, size: fn() -> Option<Size>) -> Self {
        let screen = Screen::default();
        Self { out, layout, size, screen, notice: None, has_colours: false, begun: false }
    }

    /// With or without colours.
    #[must_use]
    pub fn coloured(self, has_colours: bool) -> Self {
        Self { has_colours, ..self }
    }

    fn draw(&mut self, known: &DisplayState, now: Timestamp) -> io::Result<()> {
        if !self.begun {
            return Ok(());
        }
        let size = (self.size)().unwrap_or(Size { columns: 80, rows: 24 });
        let mut lines = match &self.notice {
            Some(notice) => vec![format!("({notice})")],
            None if known.pods.is_empty() => vec!["(no pods yet)".to_owned()],
            None => Vec::new(),
        };
        let header = lines.len();
        lines.extend(table_lines(self.layout, &sorted(&known.pods), now, Some(size.columns)));
        let end = lines.len();
        lines.extend(notes(&known.refused, size.columns));
        let has_colours = self.has_colours;
        let paint = |lines: &mut [String]| {
            let end = end.min(lines.len());
            if let Some(table) = lines.get_mut(header..end).filter(|_| has_colours) {
                colours::paint(table, "STATUS", colours::of_status);
            }
        };
        self.out.write_all(self.screen.redraw_painted(&lines, size, paint).as_bytes())?;
        self.out.flush()
    }
}

impl<W: Write> Display for LiveTable<W> {
    fn changed(&mut self, _: &[PodChange], known: &DisplayState, now: Timestamp) -> io::Result<()> {
        self.begun = true;
        self.draw(known, now)
    }

    fn notice(
        &mut self,
        notice: Option<&str>,
        known: &DisplayState,
        now: Timestamp,
    ) -> io::Result<()> {
        self.notice = notice.map(str::to_owned);
        self.draw(known, now)
    }

    fn tick(&mut self, known: &DisplayState, now: Timestamp) -> io::Result<()> {
        self.draw(known, now)
    }
}
