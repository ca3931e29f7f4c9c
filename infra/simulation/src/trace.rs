use std::fmt;
use std::sync::Mutex;

use tokio::time::Instant;

/// What happened in a world, in order. Its hash shows whether two runs of a seed were the same.
#[derive(Debug)]
pub struct Trace {
    started: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    hash: u64,
    /// The lines, if they are kept.
    lines: Option<Vec<String>>,
}

impl State {
    fn add(&mut self, text: &str) {
        // FNV-1a: the same on every machine and with every version of Rust.
        for byte in text.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl Trace {
    /// Begins a trace. The lines are kept only if the caller wants to read them.
    #[must_use]
    pub fn new(keeps_lines: bool) -> Self {
        let state = State { hash: 0xcbf2_9ce4_8422_2325, lines: keeps_lines.then(Vec::new) };
        Self { started: Instant::now(), state: Mutex::new(state) }
    }

    /// Adds a line. Each line begins with the virtual time since the start of the world, in seconds.
    pub fn line(&self, line: fmt::Arguments<'_>) {
        let elapsed = self.started.elapsed();
        let text = format!("{:>6}.{:03} {line}", elapsed.as_secs(), elapsed.subsec_millis());
        let mut state = self.state.lock().expect("no holder of the lock panics");
        state.add(&text);
        if let Some(lines) = &mut state.lines {
            lines.push(text);
        }
    }

    /// Adds a text to the hash, but not to the lines.
    pub fn include(&self, text: &str) {
        self.state.lock().expect("no holder of the lock panics").add(text);
    }

    #[must_use]
    pub fn hash(&self) -> u64 {
        self.state.lock().expect("no holder of the lock panics").hash
    }

    /// Takes the lines that were kept.
    #[must_use]
    pub fn take_lines(&self) -> Vec<String> {
        let mut state = self.state.lock().expect("no holder of the lock panics");
        state.lines.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
