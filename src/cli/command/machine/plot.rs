//! `--plot`: seconds by size on logarithmic scales, one colour for each call.
//!
//! ```text
//! seconds |        o/      dots: measured
//!         |     o-/        lines: predicted, each size from the others
//!         |  o-/
//!         +-------- bytes
//! ```
//!
//! Lines through predictions that have seen their own measurement would pass through every dot and show nothing.

use super::units::binary;
use crate::cli::command::files::{failed, save};
use crate::machine::units::{counted, seconds};
use crate::runtime::machine::{Measured, Point};
use plotters::coord::combinators::IntoLogRange;
use plotters::prelude::*;
use std::error::Error;
use std::path::Path;

const SIZE: (u32, u32) = (960, 640);
/// Above and below the least and greatest seconds.
const ROOM: f64 = 1.5;

/// Draws the calls of all ranks to a file.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn plot(measured: &Measured, path: &Path) -> Result<(), String> {
    let mut text = String::new();
    draw(measured, &mut text).map_err(|why| failed("draw", path, why))?;
    save(path, &text)
}

fn draw(measured: &Measured, text: &mut String) -> Result<(), Box<dyn Error>> {
    let ranks = measured.topology.ranks();
    let points: Vec<&Point> = measured.points.iter().filter(|point| point.ranks == ranks).collect();
    let range = |values: &[f64]| {
        let [least, most] = [f64::min, f64::max].map(|pick| values.iter().copied().reduce(pick).unwrap_or(1.0));
        least / ROOM..most * ROOM
    };
    let sizes: Vec<f64> = points.iter().map(|point| point.bytes as f64).collect();
    let times: Vec<f64> = points.iter().flat_map(|point| [point.seconds, point.predicted]).collect();

    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let title = format!("{}: measured (dots) and predicted from the other sizes (lines)", counted(ranks, "rank"));
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(72)
        .build_cartesian_2d(range(&sizes).log_scale().base(4.0), range(&times).log_scale())?;
    chart
        .configure_mesh()
        .x_max_light_lines(0)
        .x_desc("larger side of a rank's buffers (bytes)")
        .y_desc("time of one call (seconds)")
        .x_label_formatter(&|bytes| binary(*bytes))
        .y_label_formatter(&|time| seconds(*time))
        .label_style(("sans-serif", 13))
        .draw()?;
    for (nth, call) in points.chunk_by(|left, right| left.call == right.call).enumerate() {
        let colour = Palette99::pick(nth).to_rgba();
        let line = LineSeries::new(call.iter().map(|point| (point.bytes as f64, point.predicted)), &colour);
        chart
            .draw_series(line)?
            .label(call[0].call.to_string())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2)));
        let dots = call.iter().map(|point| Circle::new((point.bytes as f64, point.seconds), 3, colour.filled()));
        chart.draw_series(dots)?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .label_font(("sans-serif", 13))
        .draw()?;
    root.present()?;
    Ok(())
}
