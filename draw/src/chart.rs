//! Seconds by size on logarithmic scales, one colour for each curve.
//!
//! ```text
//! seconds |        o/      dots: measured
//!         |     o-/        lines: predicted, each size from the others
//!         |  o-/
//!         +-------- bytes
//! ```
//!
//! A line through predictions that use their own measurements would pass through every dot and show nothing.

use crate::DrawError;
use plotters::coord::combinators::IntoLogRange;
use plotters::prelude::*;
use polyshard_machine::units::{binary, seconds};
use std::error::Error;

const SIZE: (u32, u32) = (960, 640);
/// Room around the smallest and largest values, as a factor.
const ROOM: f64 = 1.5;

/// The times of one call by size.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The name of the call.
    pub name: String,
    /// Its times, by ascending size.
    pub timings: Vec<Timing>,
}

/// The time of one call with buffers of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// Bytes of the larger of a rank's buffers, that sent from and that received into.
    pub bytes: f64,
    /// Measured seconds.
    pub measured: f64,
    /// Predicted seconds.
    pub predicted: f64,
}

/// Returns a picture of measured times, as dots, and predicted ones, as lines.
///
/// ```
/// use polyshard::draw::{Curve, Timing, chart};
/// let timings = vec![
///     Timing { bytes: 1024.0, measured: 2e-6, predicted: 2.1e-6 },
///     Timing { bytes: 65536.0, measured: 9e-6, predicted: 8e-6 },
/// ];
/// let drawing = chart("4 ranks", &[Curve { name: "AllGather".into(), timings }])?;
/// assert_eq!(drawing.matches("<circle").count(), 2);
/// assert!(drawing.contains("AllGather"));
/// # Ok::<(), polyshard::draw::DrawError>(())
/// ```
///
/// # Errors
/// [`DrawError::NotPositive`] if a size or a time is not a positive number.
///
/// # Panics
/// Never: a string takes any drawing.
pub fn chart(title: &str, curves: &[Curve]) -> Result<String, DrawError> {
    let numbers = curves.iter().flat_map(|curve| &curve.timings).flat_map(|t| [t.bytes, t.measured, t.predicted]);
    let positive = |number: &f64| *number > 0.0 && number.is_finite();
    if let Some(number) = numbers.into_iter().find(|number| !positive(number)) {
        return Err(DrawError::NotPositive { number });
    }
    let mut text = String::new();
    draw(title, curves, &mut text).expect("a string takes any drawing");
    Ok(text)
}

fn draw(title: &str, curves: &[Curve], text: &mut String) -> Result<(), Box<dyn Error>> {
    let timings = || curves.iter().flat_map(|curve| &curve.timings);
    let range = |values: &[f64]| {
        let [min, max] = [f64::min, f64::max].map(|pick| values.iter().copied().reduce(pick).unwrap_or(1.0));
        min / ROOM..max * ROOM
    };
    let sizes: Vec<f64> = timings().map(|timing| timing.bytes).collect();
    let times: Vec<f64> = timings().flat_map(|timing| [timing.measured, timing.predicted]).collect();

    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
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
    for (nth, Curve { name, timings }) in curves.iter().enumerate() {
        let colour = Palette99::pick(nth).to_rgba();
        let line = LineSeries::new(timings.iter().map(|timing| (timing.bytes, timing.predicted)), &colour);
        chart
            .draw_series(line)?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2)));
        let dots = timings.iter().map(|timing| Circle::new((timing.bytes, timing.measured), 3, colour.filled()));
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
