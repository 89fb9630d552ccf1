//! Progress on standard error: a bar on a terminal, elsewhere a line every two seconds.

use crate::say::remark;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time between two lines.
const PAUSE: Duration = Duration::from_secs(2);

/// The progress of one activity.
pub(crate) struct Shown {
    /// The activity, such as `measuring`.
    doing: &'static str,
    /// Hidden if standard error is not a terminal.
    bar: ProgressBar,
    /// Time of the last line.
    last: Mutex<Instant>,
}

impl Shown {
    /// Creates a display that shows nothing yet.
    pub(crate) fn new(doing: &'static str) -> Self {
        let bar = match stderr().is_terminal() {
            true => ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr()),
            false => ProgressBar::hidden(),
        };
        let style = ProgressStyle::with_template("{bar:20} {pos}/{len} {msg} ({elapsed})");
        bar.set_style(style.expect("the template is well formed"));
        Self { doing, bar, last: Mutex::new(Instant::now()) }
    }

    /// Shows how many of `total` steps are done, and the name of the next one.
    pub(crate) fn show(&self, done: u64, total: u64, next: &str) {
        if !self.bar.is_hidden() {
            self.bar.set_length(total);
            self.bar.set_position(done);
            self.bar.set_message(if next.is_empty() { self.doing } else { next }.to_owned());
            return;
        }
        // Only one thread shows progress, so the lock is never poisoned.
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
