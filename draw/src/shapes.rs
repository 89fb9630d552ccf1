//! Common parts of pictures: pages, panels, text, lengths and colours.

use svg::Document;
use svg::node::element::{Group, Rectangle, Text};

/// Returns an empty page of this width and height.
pub(crate) fn page(size: [f64; 2]) -> Document {
    let [width, height] = size.map(rounded);
    Document::new().set("width", width).set("height", height).set("viewBox", (0, 0, width, height))
}

/// Returns a panel with two lines above its picture, which is still to be added.
pub(crate) fn panel(title: &str, note: &str) -> Group {
    Group::new()
        .set("class", "panel")
        .add(Text::new(title).set("class", "title").set("y", 12))
        .add(Text::new(note).set("class", "note").set("y", 28))
}

pub(crate) fn rectangle(class: &str, [x, y]: [f64; 2], [width, height]: [f64; 2]) -> Rectangle {
    Rectangle::new()
        .set("class", class)
        .set("x", rounded(x))
        .set("y", rounded(y))
        .set("width", rounded(width))
        .set("height", rounded(height))
}

/// Returns a line of text.
pub(crate) fn label(class: &str, text: String, x: f64, y: f64) -> Text {
    Text::new(text).set("class", class).set("x", rounded(x)).set("y", rounded(y))
}

/// Returns the dimensions of an array that are drawn downwards and across: the first two, those that are cut before others.
pub(crate) fn drawn_dims(ndim: usize, is_cut: impl Fn(usize) -> bool) -> [Option<usize>; 2] {
    let (cut, whole): (Vec<_>, Vec<_>) = (0..ndim).partition(|&dim| is_cut(dim));
    let mut drawn: Vec<_> = cut.into_iter().chain(whole).take(2).collect();
    drawn.sort_unstable();
    match drawn[..] {
        [down, across] => [Some(down), Some(across)],
        [across] => [None, Some(across)],
        _ => [None, None],
    }
}

/// Returns a length in hundredths, which are finer than the eye.
pub(crate) fn rounded(length: f64) -> f64 {
    (length * 100.0).round() / 100.0
}

/// Returns one of `count` colours: around the circle of hues, and neighbours in different lightness.
pub(crate) fn colour(nth: usize, count: usize) -> String {
    let hue = 360.0 * nth as f64 / count as f64;
    let lightness = [0.45, 0.62, 0.76][nth % 3];
    // From hue, saturation and lightness: CSS Color Module Level 4, section 7.1.
    let channel = |n: f64| {
        let k = (n + hue / 30.0) % 12.0;
        let value = lightness - 0.7 * f64::min(lightness, 1.0 - lightness) * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0);
        (value * 255.0).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", channel(0.0), channel(8.0), channel(4.0))
}
