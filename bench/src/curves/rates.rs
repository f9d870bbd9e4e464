//! Rates of the product, each beside its baseline.

use anyhow::Result;
use plotters::{
    prelude::{
        ChartBuilder, Circle, IntoDrawingArea as _, IntoLogRange as _, PathElement, SVGBackend,
        Text, WHITE,
    },
    style::{
        Color as _, ShapeStyle,
        text_anchor::{HPos, Pos, VPos},
    },
};

use super::{FAINT, INK, MUTED, OURS, Run, WIDTH, decades, short, text};

/// Height of one row, of the heading above, and of the axis below.
const ROW: u32 = 58;
const ABOVE: u32 = 84;
const BELOW: u32 = 44;

/// A rate beside another one.
struct Pair {
    name: &'static str,
    per_s: f64,
    beside: &'static str,
    baseline_per_s: f64,
}

/// Draws the rates that the run has, and returns the picture as SVG; `None` if it has no rate with a
/// baseline.
///
/// # Errors
/// The picture cannot be drawn.
pub fn rates(run: &Run) -> Result<Option<String>> {
    let pairs = pairs(run);
    if pairs.is_empty() {
        return Ok(None);
    }
    let count = u32::try_from(pairs.len())?;
    let all = || pairs.iter().flat_map(|pair| [pair.per_s, pair.baseline_per_s]);
    let mut svg = String::new();
    {
        let size = (WIDTH, ABOVE + ROW * count + BELOW);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        root.draw(&Text::new("Rates beside their baselines", (24, 18), text(20, &INK)))?;
        let date = run.date.as_ref().map(|date| format!(", {date}")).unwrap_or_default();
        let below = format!(
            "per second, of one run on one machine{date}; each step of the axis is ten times the last"
        );
        root.draw(&Text::new(below, (24, 44), text(14, &MUTED)))?;
        let mut chart = ChartBuilder::on(&root)
            .margin_top(ABOVE - 8)
            .margin_right(40)
            .margin_left(24)
            .x_label_area_size(BELOW)
            .build_cartesian_2d(decades(all()).log_scale(), 0.0..f64::from(count))?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .bold_line_style(FAINT)
            .light_line_style(WHITE)
            .axis_style(MUTED)
            .label_style(text(13, &INK))
            .x_label_formatter(&|per_s| short(*per_s))
            .draw()?;
        for (row, pair) in (1..).zip(&pairs) {
            let height = f64::from(count - row) + 0.35;
            let ours = pair.per_s;
            let theirs = pair.baseline_per_s;
            let line = ShapeStyle::from(MUTED).stroke_width(2);
            chart.draw_series([PathElement::new([(theirs, height), (ours, height)], line)])?;
            let hollow = [WHITE.filled(), ShapeStyle::from(MUTED).stroke_width(2)];
            chart.draw_series(hollow.map(|style| Circle::new((theirs, height), 6, style)))?;
            chart.draw_series([Circle::new((ours, height), 6, OURS.filled())])?;
            label(&mut chart, pair, height)?;
        }
        root.present()?;
    }
    Ok(Some(svg))
}

type Chart<'a, 'b> = plotters::chart::ChartContext<
    'a,
    SVGBackend<'b>,
    plotters::coord::cartesian::Cartesian2d<
        plotters::coord::combinators::LogCoord<f64>,
        plotters::coord::types::RangedCoordf64,
    >,
>;

/// Writes the row's label above its line, from the end where there is more room.
fn label(chart: &mut Chart<'_, '_>, pair: &Pair, height: f64) -> Result<()> {
    let Pair { name, per_s, beside, baseline_per_s } = pair;
    let ratio = per_s / baseline_per_s;
    let words =
        format!("{name}: {}, {ratio:.2} × {beside} ({})", short(*per_s), short(*baseline_per_s));
    let x = chart.x_range();
    let middle = (x.start * x.end).sqrt();
    let (from, side) = if per_s.max(*baseline_per_s) < middle {
        (per_s.min(*baseline_per_s), HPos::Left)
    } else {
        (per_s.max(*baseline_per_s), HPos::Right)
    };
    let style = text(13, &INK).pos(Pos::new(side, VPos::Bottom));
    chart.draw_series([Text::new(words, (from, height + 0.2), style)])?;
    Ok(())
}

fn pairs(run: &Run) -> Vec<Pair> {
    let of = |name, per_s: Option<f64>, beside, baseline_per_s: Option<f64>| {
        Some(Pair { name, per_s: per_s?, beside, baseline_per_s: baseline_per_s? })
    };
    let gate = &run.gate;
    let spread = &run.spread;
    let benchmark = [gate.redis_benchmark_per_s, gate.redis_benchmark_pipelined_per_s];
    let benchmark = benchmark.into_iter().flatten().reduce(f64::max);
    let all = [
        of("landed, one template", run.landed_per_s, "thin transactions", run.thin_per_s),
        of("landed, 1,000 templates", spread.uniform_per_s, "one", spread.one_per_s),
        of("landed, 1,000 templates by Zipf's law", spread.zipf_per_s, "one", spread.one_per_s),
        of("refused, sold out", run.refused_per_s, "a bare route", run.bare_per_s),
        of("admitted by the gate", gate.client_per_s, "redis-benchmark", benchmark),
    ];
    all.into_iter().flatten().collect()
}
