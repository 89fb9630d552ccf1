//! How far something is that takes a while, on standard error: a bar on a terminal, now and then a line elsewhere.

use crate::say::remark;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Between two lines.
const PAUSE: Duration = Duration::from_secs(2);

/// Shows the steps of something.
pub(crate) struct Shown {
    /// What is going on: `measuring`.
    doing: &'static str,
    /// Hidden if standard error is no terminal.
    bar: ProgressBar,
    /// When the last line was written.
    last: Mutex<Instant>,
}

impl Shown {
    /// Shows nothing yet.
    pub(crate) fn new(doing: &'static str) -> Self {
        let bar = match stderr().is_terminal() {
            true => ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr()),
            false => ProgressBar::hidden(),
        };
        let style = ProgressStyle::with_template("{bar:20} {pos}/{len} {msg} ({elapsed})");
        bar.set_style(style.expect("the template is well formed"));
        Self { doing, bar, last: Mutex::new(Instant::now()) }
    }

    /// Shows how many of all steps are done, and what is next.
    pub(crate) fn show(&self, done: u64, total: u64, next: &str) {
        if !self.bar.is_hidden() {
            self.bar.set_length(total);
            self.bar.set_position(done);
            self.bar.set_message(if next.is_empty() { self.doing } else { next }.to_owned());
            return;
        }
        // One thread alone shows progress, so the lock is never poisoned.
        let Ok(mut last) = self.last.lock() else { return };
        if last.elapsed() >= PAUSE {
            *last = Instant::now();
            let next = if next.is_empty() { String::new() } else { format!(": {next}") };
            remark(&format_args!("{}, {done} of {total} done{next}", self.doing));
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
