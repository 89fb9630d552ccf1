//! What a long run is doing, on the terminal of the person who waits for it.

use super::launch::failure;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use polyshard::World;
use polyshard::cli::say::say;
use std::io::{IsTerminal, stderr};
use std::time::Duration;

/// A line with the phase and the time it has taken; nothing but on rank 0, and if nobody looks.
pub struct Progress(ProgressBar);

impl Progress {
    /// Begins to show progress.
    pub fn new(world: &World) -> Self {
        if !world.is_root() || !stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})");
        bar.set_style(style.expect("the template is well formed"));
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }

    /// Names the phase that begins.
    pub fn phase(&self, phase: impl Into<String>) {
        self.0.set_message(phase.into());
        self.0.reset_elapsed();
    }

    /// Prints lines above the progress.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn say(&self, lines: &str) -> polyshard::Result<()> {
        self.0.suspend(|| say(&format!("{lines}\n"))).map_err(failure)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
