//! Which name was probably meant.

use strsim::osa_distance;

/// Returns the name of which `name` is probably a misspelling: few letters differ, or only their case does.
///
/// ```
/// use polyshard::layout::nearest;
/// assert_eq!(nearest("divid", ["split", "divide", "fuse"]), Some("divide"));
/// assert_eq!(nearest("tile", ["split", "divide", "fuse"]), None);
/// ```
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let distances = names.into_iter().map(|other| (osa_distance(&lower, &other.to_lowercase()), other));
    // Short names, such as those of most loops, are all close to each other.
    let near = distances.filter(|(distance, _)| 3 * distance <= name.chars().count());
    near.min_by_key(|(distance, _)| *distance).map(|(_, other)| other)
}

/// Returns a question about the nearest name, such as "did you mean `divide`? ", to put before more help;
/// empty if no name is near.
pub fn did_you_mean<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, names).map(|name| format!("did you mean `{name}`? ")).unwrap_or_default()
}
