//! Mistakes in a text, shown below their lines.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use polyshard::layout::joined;
use polyshard::text::Mistake;
use std::path::Path;

/// The mistakes, each with its line of the text. The first lacks its `error: `, which the caller prints before every error.
pub(crate) fn shown(path: &Path, text: &str, mistakes: &[Mistake]) -> String {
    let path = path.display().to_string();
    let rendered = mistakes.iter().map(|mistake| {
        let place = AnnotationKind::Primary.span(mistake.at.clone());
        let snippet = Snippet::source(text).path(&*path).annotation(place);
        let group = Level::ERROR.primary_title(&*mistake.message).element(snippet);
        let help = mistake.help.as_deref().map(|help| Level::HELP.message(help));
        Renderer::plain().render(&[group.elements(help)])
    });
    let rendered = joined(rendered, "\n\n");
    rendered.strip_prefix("error: ").unwrap_or(&rendered).to_owned()
}
