//! Ways to show pods while they change.

use std::collections::BTreeMap;
use std::io::{self, Write};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use model::ids::PodUid;
use serde::Serialize;
use server::decide::Change;
use server::wire::PodItem;

use super::get_pods::table_lines;
use super::pods_table::{Layout, sort};
use super::screen::{Screen, Size};
use super::table::Columns;

/// Pods by uid.
pub type Pods = BTreeMap<PodUid, PodItem<Pod>>;
/// A change of a pod.
pub type PodChange = Change<PodItem<Pod>>;

/// Shows pods while they change.
pub trait Display {
    /// These changes led to these pods. The first time, all that is there has come.
    fn changed(&mut self, changes: &[PodChange], pods: &Pods, now: Timestamp) -> io::Result<()>;

    /// Something is to be said, or no longer.
    fn notice(&mut self, notice: Option<&str>, pods: &Pods, now: Timestamp) -> io::Result<()>;

    /// Time passed.
    fn tick(&mut self, pods: &Pods, now: Timestamp) -> io::Result<()>;
}

fn sorted(pods: &Pods) -> Vec<PodItem<Pod>> {
    let mut pods: Vec<_> = pods.values().cloned().collect();
    sort(&mut pods);
    pods
}

/// A table, and then one line for each change.
#[derive(Debug)]
pub struct TableLines<W, E> {
    out: W,
    notices: E,
    layout: Layout,
    /// Known once the table was written.
    columns: Option<Columns>,
}

impl<W: Write, E: Write> TableLines<W, E> {
    /// Nothing is written yet.
    pub fn new(out: W, notices: E, layout: Layout) -> Self {
        Self { out, notices, layout, columns: None }
    }
}

impl<W: Write, E: Write> Display for TableLines<W, E> {
    fn changed(&mut self, changes: &[PodChange], pods: &Pods, now: Timestamp) -> io::Result<()> {
        let rows: Vec<Vec<String>> = match &self.columns {
            None => {
                let pods = sorted(pods);
                let rows = pods.iter().map(|item| self.layout.row(item, None, now));
                [self.layout.header()].into_iter().chain(rows).collect()
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
        let columns = self.columns.get_or_insert_with(|| Columns::of(&rows));
        for row in &rows {
            columns.widen(row);
            writeln!(self.out, "{}", columns.line(row, None))?;
        }
        self.out.flush()
    }

    fn notice(&mut self, notice: Option<&str>, _: &Pods, _: Timestamp) -> io::Result<()> {
        notice.map_or(Ok(()), |notice| writeln!(self.notices, "ferrolet: {notice}"))
    }

    fn tick(&mut self, _: &Pods, _: Timestamp) -> io::Result<()> {
        Ok(())
    }
}

/// One object for each change, as a watch of the API writes it.
#[derive(Debug)]
pub struct JsonLines<W, E> {
    out: W,
    notices: E,
}

#[derive(Debug, Serialize)]
struct WatchEvent<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    object: &'a Pod,
}

impl<W: Write, E: Write> JsonLines<W, E> {
    /// Nothing is written yet.
    pub fn new(out: W, notices: E) -> Self {
        Self { out, notices }
    }
}

impl<W: Write, E: Write> Display for JsonLines<W, E> {
    fn changed(&mut self, changes: &[PodChange], _: &Pods, _: Timestamp) -> io::Result<()> {
        for change in changes {
            let (kind, item) = match change {
                Change::Added(item) => ("ADDED", item),
                Change::Modified(item) => ("MODIFIED", item),
                Change::Deleted(item) => ("DELETED", item),
            };
            let text = serde_json::to_string(&WatchEvent { kind, object: &item.pod })?;
            writeln!(self.out, "{text}")?;
        }
        self.out.flush()
    }

    fn notice(&mut self, notice: Option<&str>, _: &Pods, _: Timestamp) -> io::Result<()> {
        notice.map_or(Ok(()), |notice| writeln!(self.notices, "ferrolet: {notice}"))
    }

    fn tick(&mut self, _: &Pods, _: Timestamp) -> io::Result<()> {
        Ok(())
    }
}

/// A table on a terminal that is always as it is now.
#[derive(Debug)]
pub struct LiveTable<W> {
    out: W,
    layout: Layout,
    size: fn() -> Option<Size>,
    screen: Screen,
    notice: Option<String>,
    /// Whether it is known what is there: before, there is nothing to draw.
    begun: bool,
}

impl<W: Write> LiveTable<W> {
    /// Nothing is drawn yet. The size is asked for with each drawing: it may change.
    pub fn new(out: W, layout: Layout, size: fn() -> Option<Size>) -> Self {
        Self { out, layout, size, screen: Screen::default(), notice: None, begun: false }
    }

    fn draw(&mut self, pods: &Pods, now: Timestamp) -> io::Result<()> {
        if !self.begun {
            return Ok(());
        }
        let size = (self.size)().unwrap_or(Size { columns: 80, rows: 24 });
        let mut lines = match &self.notice {
            Some(notice) => vec![format!("({notice})")],
            None if pods.is_empty() => vec!["(no pods yet)".to_owned()],
            None => Vec::new(),
        };
        lines.extend(table_lines(self.layout, &sorted(pods), now, Some(size.columns)));
        self.out.write_all(self.screen.redraw(&lines, size).as_bytes())?;
        self.out.flush()
    }
}

impl<W: Write> Display for LiveTable<W> {
    fn changed(&mut self, _: &[PodChange], pods: &Pods, now: Timestamp) -> io::Result<()> {
        self.begun = true;
        self.draw(pods, now)
    }

    fn notice(&mut self, notice: Option<&str>, pods: &Pods, now: Timestamp) -> io::Result<()> {
        self.notice = notice.map(str::to_owned);
        self.draw(pods, now)
    }

    fn tick(&mut self, pods: &Pods, now: Timestamp) -> io::Result<()> {
        self.draw(pods, now)
    }
}
