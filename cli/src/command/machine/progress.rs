//! How far a measurement is, on standard error: a bar on a terminal, now and then a line elsewhere.

use crate::say::remark;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use polyshard::runtime::machine::Progress;
use std::io::{IsTerminal, stderr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Between two lines.
const PAUSE: Duration = Duration::from_secs(2);

/// Shows the steps of a measurement.
pub(crate) struct Shown {
    /// Hidden if standard error is no terminal.
    bar: ProgressBar,
    /// When the last line was written.
    last: Mutex<Instant>,
}

impl Shown {
    /// Shows nothing yet.
    pub(crate) fn new() -> Self {
        let bar = match stderr().is_terminal() {
            true => ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr()),
            false => ProgressBar::hidden(),
        };
        let style = ProgressStyle::with_template("{bar:20} {pos}/{len} {msg} ({elapsed})");
        bar.set_style(style.expect("the template is well formed"));
        Self { bar, last: Mutex::new(Instant::now()) }
    }

    /// Shows the next step.
    pub(crate) fn show(&self, progress: &Progress) {
        let Progress { done, total, next } = progress;
        if !self.bar.is_hidden() {
            self.bar.set_length(*total as u64);
            self.bar.set_position(*done as u64);
            self.bar.set_message(next.clone());
            return;
        }
        // One thread alone shows progress, so the lock is never poisoned.
        let Ok(mut last) = self.last.lock() else { return };
        if last.elapsed() >= PAUSE {
            *last = Instant::now();
            remark(&format_args!("measuring, {done} of {total} done: {next}"));
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
