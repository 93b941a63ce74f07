//! The terminal while a picture fills it: keys come one by one, and what stood there before comes back in the end.
//!
//! In: pictures. Out: bytes on standard output. Dropping it gives the terminal back, also when the program panics.

use std::io::{self, Write};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

/// Another screen than that of the shell, without a cursor.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";

/// A terminal that is ours.
pub(super) struct Terminal {
    before: Termios,
}

impl Terminal {
    /// Takes it.
    ///
    /// **Errors**: standard input is not a terminal.
    pub(super) fn enter() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let terminal = Self { before };
        terminal.take()?;
        Ok(terminal)
    }

    fn take(&self) -> io::Result<()> {
        let mut ours = self.before.clone();
        // Each key at once, not shown; Ctrl-C and Ctrl-Z are keys too, so that what stood here can be brought back first.
        ours.local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN);
        ours.special_codes[SpecialCodeIndex::VMIN] = 1;
        ours.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Now, &ours)?;
        write(ENTER);
        Ok(())
    }

    fn give_back(&self) {
        write(LEAVE);
        // A terminal that is gone needs nothing.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }

    /// Shows these rows from the top left corner on.
    pub(super) fn show(&self, rows: &[String]) {
        // Each row clears what is left of the old one behind it; no new line after the last, which would move all up.
        let rows: Vec<String> = rows.iter().map(|row| format!("{row}\u{1b}[K")).collect();
        write(&format!("\u{1b}[H{}\u{1b}[J", rows.join("\r\n")));
    }

    /// Stops this process as Ctrl-Z does, until the shell lets it go on.
    pub(super) fn suspend(&self) {
        self.give_back();
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TSTP);
        let _ = self.take();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Who is not there to read it does not matter.
fn write(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}
