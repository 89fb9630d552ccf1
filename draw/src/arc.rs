//! Curves between devices, hidden behind boxes, devices and names.
//!
//! ```text
//!      ___________
//!  ___/___     ___\___     the curve runs from centre to centre; its parts inside boxes, devices and names
//! | 0 |   | 1 |   | 2 |    are hidden
//! ```

use crate::shapes::rounded;

/// Maximum distance of a long curve from the straight line: enough to clear a row of devices.
const BOW: f64 = 20.0;
/// Minimum length of a curve that is bent that far; shorter ones are nearly straight.
const LONG: f64 = 120.0;
/// The gap between a box and the point where a curve continues.
const CLEARANCE: f64 = 1.5;
/// The distance between sampled points of a curve.
const STEP: f64 = 0.5;

/// A rectangle in which no curve is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Obstacle {
    /// The upper left corner.
    pub(crate) at: [f64; 2],
    /// The width and the height.
    pub(crate) size: [f64; 2],
}

impl Obstacle {
    fn holds(&self, place: [f64; 2]) -> bool {
        (0..2).all(|side| {
            let from = self.at[side] - CLEARANCE;
            (from..=from + self.size[side] + 2.0 * CLEARANCE).contains(&place[side])
        })
    }
}

/// Returns the visible pieces of a curve from `from` to `to`, bent to its left, as the data of an SVG path.
pub(crate) fn arc(from: [f64; 2], to: [f64; 2], obstacles: &[Obstacle]) -> String {
    let along = [to[0] - from[0], to[1] - from[1]];
    let length = along[0].hypot(along[1]).max(STEP);
    // The middle of a quadratic curve is half as far from the straight line as its control point.
    let bent = 2.0 * BOW * (length / LONG).powi(2).min(1.0) / length;
    let control = [(from[0] + to[0]) / 2.0 + along[1] * bent, (from[1] + to[1]) / 2.0 - along[0] * bent];
    let curve = [from, control, to];

    let near = |obstacle: &&Obstacle| {
        (0..2).all(|side| {
            let [low, high] =
                [f64::min, f64::max].map(|pick| curve.iter().map(|place| place[side]).fold(from[side], pick));
            obstacle.at[side] - CLEARANCE <= high && obstacle.at[side] + obstacle.size[side] + CLEARANCE >= low
        })
    };
    let near: Vec<_> = obstacles.iter().filter(near).collect();
    // No curve is longer than the path through its control point.
    let steps = (2.0 * (length + 2.0 * BOW) / STEP).ceil() as usize;
    let (mut data, mut begin) = (String::new(), None);
    for step in 0..=steps {
        let part = step as f64 / steps as f64;
        let visible = !near.iter().any(|obstacle| obstacle.holds(place(curve, [part; 2])));
        match (visible, begin) {
            (true, None) => begin = Some(part),
            (true, Some(first)) if step == steps => data += &piece(curve, [first, part]),
            (false, Some(first)) => {
                data += &piece(curve, [first, (step - 1) as f64 / steps as f64]);
                begin = None;
            }
            _ => {}
        }
    }
    data
}

/// The part of a quadratic curve between two of its parameters, as a separate curve.
fn piece(curve: [[f64; 2]; 3], [first, last]: [f64; 2]) -> String {
    let [[x, y], [bent_x, bent_y], [to_x, to_y]] =
        [[first, first], [first, last], [last, last]].map(|at| place(curve, at).map(rounded));
    format!("M{x} {y}Q{bent_x} {bent_y} {to_x} {to_y}")
}

/// The polar form of a quadratic curve: a point on it if both parameters are equal, otherwise the control point of the
/// part between them.
fn place([start, control, end]: [[f64; 2]; 3], [s, t]: [f64; 2]) -> [f64; 2] {
    [0, 1].map(|side| {
        (1.0 - s) * (1.0 - t) * start[side] + (s * (1.0 - t) + t * (1.0 - s)) * control[side] + s * t * end[side]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_left_out_behind_what_it_meets() {
        let boxes = [0.0, 34.0, 68.0].map(|x| Obstacle { at: [x, 0.0], size: [26.0, 16.0] });
        let data = arc([13.0, 8.0], [47.0, 8.0], &boxes);
        assert_eq!(data.matches('M').count(), 1, "between two neighbours: {data}");
        let data = arc([13.0, 8.0], [81.0, 8.0], &boxes);
        assert!(data.matches('M').count() >= 1 && data.matches('M').count() <= 3, "above the middle one: {data}");
        assert_eq!(arc([13.0, 8.0], [47.0, 8.0], &[]).matches('M').count(), 1);
        let all = [Obstacle { at: [0.0, 0.0], size: [100.0, 100.0] }];
        assert_eq!(arc([13.0, 8.0], [47.0, 8.0], &all), "");
    }
}
