//! What is drawn, before it is drawn.

use std::ops::Range;

use anyhow::{Result, ensure};

use super::Axis;
use crate::{
    evaluation::{row::Row, table::Table},
    statistics::Interval,
};

/// Panels over one range of KL, and the names that their lines share.
#[derive(Debug, PartialEq)]
pub(super) struct Figure {
    pub panels: Vec<Panel>,
    /// Rules, with their anchors if there are several.
    pub names: Vec<String>,
    /// From the smallest to the largest KL.
    pub kl: Range<f64>,
}

/// A set of cases on a model.
#[derive(Debug, PartialEq)]
pub(super) struct Panel {
    pub title: String,
    pub lines: Vec<Line>,
}

/// A rule behind an anchor.
#[derive(Debug, PartialEq)]
pub(super) struct Line {
    /// Index into [`Figure::names`].
    pub name: usize,
    /// By ascending cost.
    pub points: Vec<Point>,
}

/// A rule at a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub cost: f64,
    pub kl: Interval,
}

impl Figure {
    /// The rows of tables that have a place on the axes; it is an error if none has.
    pub(super) fn new(tables: &[Table], axis: Axis) -> Result<Self> {
        let mut figure = Self {
            panels: Vec::new(),
            names: Vec::new(),
            kl: f64::INFINITY..0.0,
        };
        let first = tables.first().map(|table| &table.place.anchor);
        let several = tables.iter().any(|table| Some(&table.place.anchor) != first);
        for table in tables {
            for row in &table.rows {
                if let Some(point) = Point::of(row, axis) {
                    let name = figure.name(table, row, several);
                    figure.add(
                        format!("{}, {}", table.place.data, table.place.model),
                        name,
                        point,
                    );
                }
            }
        }
        ensure!(!figure.panels.is_empty(), "no result has a place in the plot");
        figure.sort();
        Ok(figure)
    }

    /// Where the axis of a panel's costs ends. All panels share the ratios; rows depend on the set.
    pub(super) fn most(&self, panel: &Panel, axis: Axis) -> f64 {
        let most = match axis {
            Axis::Ratio => self.panels.iter().map(Panel::most).fold(0.0, f64::max),
            Axis::Rows => panel.most(),
        };
        if most > 0.0 { most } else { 1.0 }
    }

    fn name(&mut self, table: &Table, row: &Row, several_anchors: bool) -> usize {
        let name = if several_anchors {
            format!("{}, {}", row.rule, table.place.anchor)
        } else {
            row.rule.clone()
        };
        place(&mut self.names, |known| *known == name, || name.clone())
    }

    fn add(&mut self, title: String, name: usize, point: Point) {
        let panel = |panel: &Panel| panel.title == title;
        let new = || Panel {
            title: title.clone(),
            lines: Vec::new(),
        };
        let at = place(&mut self.panels, panel, new);
        let lines = &mut self.panels[at].lines;
        let points = Vec::new();
        let line = place(lines, |line| line.name == name, || Line { name, points });
        lines[line].points.push(point);
        let low = if point.kl.low > 0.0 {
            point.kl.low
        } else {
            point.kl.mean
        };
        self.kl = self.kl.start.min(low)..self.kl.end.max(point.kl.high);
    }

    fn sort(&mut self) {
        for line in self.panels.iter_mut().flat_map(|panel| &mut panel.lines) {
            line.points.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        }
    }
}

impl Panel {
    /// The largest cost; 0 if nothing costs anything.
    fn most(&self) -> f64 {
        let points = self.lines.iter().flat_map(|line| &line.points);
        points.map(|point| point.cost).fold(0.0, f64::max)
    }
}

impl Point {
    fn of(row: &Row, axis: Axis) -> Option<Self> {
        let cost = match axis {
            Axis::Ratio => (f64::from(row.ratio) * 1e6).round() / 1e6,
            Axis::Rows => row.rows?,
        };
        (row.kl.mean > 0.0).then_some(Self { cost, kl: row.kl })
    }
}

/// The index of the first that fits, or of a new one.
fn place<T>(all: &mut Vec<T>, fits: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> usize {
    all.iter().position(fits).unwrap_or_else(|| {
        all.push(new());
        all.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::ledger::{Record, sample};

    fn at(rule: &str, ratio: f32, kl: f64) -> Record {
        let mut record = sample("0", rule, kl);
        record.key.ratio = ratio;
        record
    }

    fn figure(records: &[Record], axis: Axis) -> Result<Figure> {
        Figure::new(&Table::all(records, "none"), axis)
    }

    #[test]
    fn rules_are_lines_by_ascending_cost_and_a_full_prefill_is_none() {
        let records = [at("query", 0.2, 0.1), at("full", 1.0, 0.0), at("query", 0.1, 0.4)];
        let figure = figure(&records, Axis::Ratio).expect("two points");
        assert_eq!((figure.names, figure.kl), (vec!["query".to_owned()], 0.1..0.4));
        let costs: Vec<_> = figure.panels[0].lines[0].points.iter().map(|p| p.cost).collect();
        assert_eq!((costs, figure.panels.len()), (vec![0.1, 0.2], 1));
    }

    #[test]
    fn sets_are_panels_and_anchors_are_named_where_there_are_several() {
        let (mut other_set, mut other_anchor) = (at("query", 0.1, 0.3), at("query", 0.1, 0.2));
        other_set.key.data = "e".into();
        other_anchor.key.anchor = "neutral".into();
        let figure = figure(&[at("query", 0.1, 0.4), other_set, other_anchor], Axis::Ratio).expect("points");
        assert_eq!(figure.names, ["query, bos", "query, neutral"]);
        let panels: Vec<_> = figure
            .panels
            .iter()
            .map(|p| (p.title.as_str(), p.lines.len()))
            .collect();
        assert_eq!(panels, [("d, m", 2), ("e, m", 1)]);
    }

    #[test]
    fn results_without_rows_have_no_place_among_rows() {
        assert!(figure(&[at("query", 0.1, 0.4)], Axis::Rows).is_err());
    }
}
