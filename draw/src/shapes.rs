//! Common parts of pictures: text, lengths and colours.

use svg::node::element::Text;

/// Returns a line of text.
pub(crate) fn label(class: &str, text: String, x: f64, y: f64) -> Text {
    Text::new(text).set("class", class).set("x", rounded(x)).set("y", rounded(y))
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
