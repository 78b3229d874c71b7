//! Drawing, by plotters' SVG backend.

use anyhow::Result;
use plotters::{
    coord::{
        Shift,
        combinators::{LogCoord, WithKeyPoints},
        types::RangedCoordf64,
    },
    element::{DynElement, IntoDynElement},
    prelude::*,
};

use super::{
    Axis,
    figure::{Figure, Line, Panel},
    ticks::ticks,
};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plane = Cartesian2d<RangedCoordf64, WithKeyPoints<LogCoord<f64>>>;
type Chart<'c, 'a> = ChartContext<'c, SVGBackend<'a>, Plane>;

/// Size of a panel in pixels.
const PANEL: (u32, u32) = (520, 400);
/// Width of the legend, and the height of one of its names.
const LEGEND: (u32, i32) = (240, 24);
/// Panels side by side, at most.
const COLUMNS: usize = 2;
/// Distance of lines that stand at the same ratio, so that their bars can be told apart: a share of the axis.
const APART: f64 = 0.006;
/// Colours that the colour-blind can tell apart (Okabe and Ito 2008), without yellow.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(0, 0, 0),
];

/// The figure as SVG.
pub(super) fn svg(figure: &Figure, axis: Axis) -> Result<String> {
    let columns = figure.panels.len().min(COLUMNS);
    let lines = figure.panels.len().div_ceil(columns);
    let width = PANEL.0 * columns as u32;
    let size = (width + LEGEND.0, PANEL.1 * lines as u32);
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE)?;
        let (panels, names) = root.split_horizontally(width);
        for (panel, area) in figure.panels.iter().zip(panels.split_evenly((lines, columns))) {
            draw(panel, figure, axis, &area)?;
        }
        legend(&figure.names, &names)?;
        root.present()?;
    }
    Ok(text + "\n")
}

fn draw(panel: &Panel, figure: &Figure, axis: Axis, area: &Area<'_>) -> Result<()> {
    let most = figure.most(panel, axis);
    let (left, right) = (-0.05 * most, 1.08 * most);
    let kl = figure.kl.start / 1.2..figure.kl.end * 1.2;
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(left..right, kl.clone().log_scale().with_key_points(ticks(&kl)))?;
    chart
        .configure_mesh()
        .x_desc(match axis {
            Axis::Ratio => "ratio",
            Axis::Rows => "rows for the first token",
        })
        .y_desc("KL (nats per token)")
        .x_label_formatter(&|x| label(*x, axis))
        .y_label_formatter(&f64::to_string)
        .label_style(("sans-serif", 13))
        .bold_line_style(BLACK.mix(0.1))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for line in &panel.lines {
        let shift = apart(line.name, figure.names.len(), axis) * (right - left);
        draw_line(line, shift, &mut chart)?;
    }
    Ok(())
}

/// How far a line is moved aside: lines at the same ratio hide one another, and rows mean what they say.
fn apart(name: usize, names: usize, axis: Axis) -> f64 {
    match axis {
        Axis::Ratio => APART * (name as f64 - (names - 1) as f64 / 2.0),
        Axis::Rows => 0.0,
    }
}

fn draw_line(line: &Line, shift: f64, chart: &mut Chart<'_, '_>) -> Result<()> {
    let colour = colour(line.name);
    let at = |cost: f64| cost + shift;
    let means = line.points.iter().map(|p| (at(p.cost), p.kl.mean));
    chart.draw_series(LineSeries::new(means.clone(), colour.stroke_width(2)))?;
    let bars = line.points.iter().map(|p| {
        let low = if p.kl.low > 0.0 { p.kl.low } else { p.kl.mean };
        PathElement::new([(at(p.cost), low), (at(p.cost), p.kl.high)], colour.mix(0.6))
    });
    chart.draw_series(bars)?;
    for mean in means {
        chart.plotting_area().draw(&marker(mean, line.name))?;
    }
    Ok(())
}

fn legend(names: &[String], area: &Area<'_>) -> Result<()> {
    for (name, text) in names.iter().enumerate() {
        let y = 50 + LEGEND.1 * name as i32;
        let colour = colour(name);
        area.draw(&PathElement::new([(8, y), (36, y)], colour.stroke_width(2)))?;
        area.draw(&marker((22, y), name))?;
        area.draw(&Text::new(text.as_str(), (44, y - 6), ("sans-serif", 14)))?;
    }
    Ok(())
}

/// Discs, then triangles, then crosses: colours come again.
fn marker<'a, C: Clone + 'static>(at: C, name: usize) -> DynElement<'a, SVGBackend<'a>, C> {
    let style = colour(name).filled();
    match name / COLOURS.len() {
        0 => Circle::new(at, 4, style).into_dyn(),
        1 => TriangleMarker::new(at, 6, style).into_dyn(),
        _ => Cross::new(at, 5, style).into_dyn(),
    }
}

fn colour(name: usize) -> RGBColor {
    COLOURS[name % COLOURS.len()]
}

fn label(cost: f64, axis: Axis) -> String {
    match axis {
        Axis::Ratio => format!("{cost:.2}"),
        Axis::Rows => format!("{cost:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::{Table, ledger::sample};

    #[test]
    fn the_drawing_names_its_rules_sets_and_axes() {
        let mut query = sample("0", "query", 0.2);
        query.rows = Some(30);
        let tables = Table::all(&[query, sample("0", "heads", 0.5)], "none");
        for (axis, description) in [(Axis::Ratio, "ratio"), (Axis::Rows, "rows for the first token")] {
            let figure = Figure::new(&tables, axis).expect("points");
            let drawn = svg(&figure, axis).expect("drawn");
            for text in ["query", "d, m", "KL (nats per token)", description] {
                assert!(
                    drawn.contains(&format!("\n{text}\n")),
                    "{text} is missing:\n{drawn}"
                );
            }
            assert_eq!(drawn.contains("\nheads\n"), axis == Axis::Ratio);
        }
    }
}
