//! How long answers take at shares of the capacity.

use anyhow::{Context as _, Result};
use plotters::{
    prelude::{
        BindKeyPoints as _, ChartBuilder, Circle, EmptyElement, IntoDrawingArea as _,
        IntoLogRange as _, LineSeries, SVGBackend, Text, WHITE,
    },
    style::{
        Color as _, RGBColor, ShapeStyle,
        text_anchor::{HPos, Pos, VPos},
    },
};

use super::{FAINT, INK, MUTED, Run, WIDTH, decades, run::Load, short, text};

const HEIGHT: u32 = 440;

/// A curve, and its height at a load.
struct Curve {
    name: &'static str,
    colour: RGBColor,
    of: fn(&Load) -> f64,
    /// Where its figures are: p99 and p99.9 are close together.
    figures: Side,
}

/// Pixels below a point, and the anchor of the text there.
type Side = (i32, VPos);
const ABOVE: Side = (-7, VPos::Bottom);
const BELOW: Side = (7, VPos::Top);

const CURVES: [Curve; 3] = [
    Curve { name: "p50", colour: RGBColor(10, 147, 150), of: |load| load.p50_ms, figures: BELOW },
    Curve { name: "p99", colour: RGBColor(202, 103, 2), of: |load| load.p99_ms, figures: BELOW },
    Curve { name: "p99.9", colour: RGBColor(155, 34, 38), of: |load| load.p999_ms, figures: ABOVE },
];

/// Draws the curves of p50, p99 and p99.9, and returns the picture as SVG.
///
/// # Errors
/// The run has no answers, or the picture cannot be drawn.
pub fn answers(run: &Run) -> Result<String> {
    let mut loads = run.loads.clone();
    loads.sort_by(|a, b| a.of_capacity.total_cmp(&b.of_capacity));
    let last = loads.last().context("a run without answers")?;
    let times = || loads.iter().flat_map(|load| CURVES.map(|curve| (curve.of)(load)));
    let percents: Vec<i32> = loads.iter().map(percent).collect();
    let share = |share: &i32| {
        let load = loads.iter().find(|load| percent(load) == *share);
        load.map_or_else(String::new, |load| format!("{share} % ({}/s)", short(load.claims_per_s)))
    };
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        root.fill(&WHITE)?;
        heading(&root, run)?;
        let mut chart = ChartBuilder::on(&root)
            .margin_top(76)
            .margin_bottom(8)
            .margin_right(48)
            .x_label_area_size(40)
            .y_label_area_size(84)
            .build_cartesian_2d((0..100).with_key_points(percents), decades(times()).log_scale())?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(FAINT)
            .light_line_style(WHITE)
            .axis_style(MUTED)
            .label_style(text(13, &INK))
            .x_label_formatter(&share)
            .y_label_formatter(&|ms| format!("{} ms", short(*ms).trim_end_matches(".0")))
            .draw()?;
        for Curve { name, colour, of, figures } in CURVES {
            let points = || loads.iter().map(|load| (percent(load), of(load)));
            let line = ShapeStyle::from(colour).stroke_width(2);
            chart.draw_series(LineSeries::new(points(), line))?;
            chart.draw_series(points().map(|at| Circle::new(at, 4, colour.filled())))?;
            let (below, side) = figures;
            let small = text(12, &colour).pos(Pos::new(HPos::Center, side));
            let figure = |at: (i32, f64)| {
                EmptyElement::at(at) + Text::new(short(at.1), (0, below), small.clone())
            };
            chart.draw_series(points().map(figure))?;
            let beside = text(14, &colour).pos(Pos::new(HPos::Left, VPos::Center));
            let place = (percent(last) + 2, of(last));
            chart.draw_series([Text::new(name, place, beside)])?;
        }
        root.present()?;
    }
    Ok(svg)
}

type Area<'a> = plotters::drawing::DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Whole percents: only an axis of whole numbers can have its labels at given places.
fn percent(load: &Load) -> i32 {
    (load.of_capacity * 100.0).round() as i32
}

fn heading(root: &Area<'_>, run: &Run) -> Result<()> {
    root.draw(&Text::new("How long a claim's answer takes", (24, 18), text(20, &INK)))?;
    let capacity = run.landed_per_s.map(|rate| format!(" of {} claims/s", short(rate)));
    let date = run.date.as_ref().map(|date| format!(", {date}"));
    let below = format!(
        "at shares of the capacity{}, from the moment a claim was to be sent{}",
        capacity.unwrap_or_default(),
        date.unwrap_or_default(),
    );
    root.draw(&Text::new(below, (24, 44), text(14, &MUTED)))?;
    Ok(())
}
