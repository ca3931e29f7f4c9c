//! Writes the figures of a benchmark into `docs/benchmarks.md`, and compares later figures with them.
//!
//! Times depend on the machine and on its load. A ratio of two times from the same run does not, so only ratios are
//! compared.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use touchline::ports::clock::{Clock as _, SystemClock};

/// How much worse than the documented ratio a measured ratio may be.
const TOLERANCE: f64 = 1.5;

/// The figures of one benchmark, as Markdown, and the ratios to compare.
#[derive(Debug)]
pub struct Report {
    /// The name of the section in `docs/benchmarks.md` that holds the figures.
    section: String,
    text: String,
    ratios: Vec<(String, f64)>,
}

/// What happens with the figures at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Print,
    /// `--write`: replace the section of `docs/benchmarks.md`.
    Write,
    /// `--check`: compare the ratios with those in `docs/benchmarks.md`.
    Check,
}

impl Report {
    #[must_use]
    pub fn new(section: impl Into<String>) -> Self {
        Self { section: section.into(), text: String::new(), ratios: Vec::new() }
    }

    /// Prints a line and adds it to the section.
    pub fn line(&mut self, line: impl AsRef<str>) {
        println!("{}", line.as_ref());
        self.text.push_str(line.as_ref());
        self.text.push('\n');
    }

    /// Adds a ratio to compare. A larger ratio is worse.
    pub fn ratio(&mut self, name: impl Into<String>, ratio: f64) {
        self.ratios.push((name.into(), ratio));
    }

    /// Writes or compares the figures, as the arguments of the program ask. Ends the program with status 1 if a
    /// ratio is too high.
    pub fn finish(mut self) {
        let ratios = std::mem::take(&mut self.ratios);
        if !ratios.is_empty() {
            self.line("\n| ratio | value |\n|---|---|");
            for (name, ratio) in &ratios {
                self.line(format!("| {name} | {ratio:.2} |"));
            }
        }
        match mode() {
            Mode::Print => {}
            Mode::Write => {
                let document = read_document();
                let text = format!("{}\n\n{}", measured_at(), self.text.trim());
                let changed = with_section(&document, &self.section, &text);
                std::fs::write(path(), changed).expect("docs/benchmarks.md can be written");
                println!("\nWrote the section \"{}\" of docs/benchmarks.md.", self.section);
            }
            Mode::Check => {
                let documented = section(&read_document(), &self.section).map(ratios_in).unwrap_or_default();
                let failures = too_high(&documented, &lowest_so_far(ratios));
                for failure in &failures {
                    println!("TOO HIGH: {failure}");
                }
                if !failures.is_empty() {
                    std::process::exit(1);
                }
                println!("\nNo ratio is more than {TOLERANCE} times the ratio in docs/benchmarks.md.");
            }
        }
    }
}

fn mode() -> Mode {
    let has = |flag: &str| std::env::args().any(|argument| argument == flag);
    if has("--write") {
        Mode::Write
    } else if has("--check") {
        Mode::Check
    } else {
        Mode::Print
    }
}

/// Returns a sentence with the commit and the date of the measurement.
fn measured_at() -> String {
    let commit = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    let commit = commit.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let commit = commit.unwrap_or_default();
    format!("Measured on {} at commit {commit}.", SystemClock.now().format("%Y-%m-%d"))
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks.md")
}

fn read_document() -> String {
    std::fs::read_to_string(path()).expect("docs/benchmarks.md can be read")
}

fn markers(section: &str) -> (String, String) {
    (format!("<!-- {section}: the program writes this part -->"), format!("<!-- end of {section} -->"))
}

/// Returns the text of a section.
fn section<'a>(document: &'a str, name: &str) -> Option<&'a str> {
    let (begin, end) = markers(name);
    let start = document.find(&begin)? + begin.len();
    let length = document[start..].find(&end)?;
    Some(&document[start..start + length])
}

/// Returns the document with another text in a section.
fn with_section(document: &str, name: &str, text: &str) -> String {
    let old = section(document, name).unwrap_or_else(|| panic!("docs/benchmarks.md has no section {name}"));
    let (begin, end) = markers(name);
    document.replace(&format!("{begin}{old}{end}"), &format!("{begin}\n{text}\n{end}"))
}

/// Returns the rows of the table of ratios.
fn ratios_in(section: &str) -> Vec<(String, f64)> {
    let rows = section.lines().skip_while(|line| !line.starts_with("| ratio |")).skip(2);
    rows.filter_map(|row| {
        let mut cells = row.split('|').map(str::trim).skip(1);
        Some((cells.next()?.to_owned(), cells.next()?.parse().ok()?))
    })
    .collect()
}

/// Returns the lowest value of each ratio, of this run and of earlier runs. `TOUCHLINE_RATIOS` names the file that holds
/// the ratios of the earlier runs. Without it, only this run counts.
fn lowest_so_far(mut ratios: Vec<(String, f64)>) -> Vec<(String, f64)> {
    let Some(file) = std::env::var_os("TOUCHLINE_RATIOS") else { return ratios };
    let earlier = ratios_in(&std::fs::read_to_string(&file).unwrap_or_default());
    for (name, ratio) in &mut ratios {
        if let Some((_, lower)) = earlier.iter().find(|(known, _)| known == name) {
            *ratio = ratio.min(*lower);
        }
    }
    let rows: String =
        ratios.iter().fold("| ratio | value |\n|---|---|\n".to_owned(), |rows, (name, ratio)| {
            format!("{rows}| {name} | {ratio} |\n")
        });
    std::fs::write(&file, rows).expect("the file of ratios can be written");
    ratios
}

/// Returns the highest ratio that is allowed. A documented ratio below 1 is noise: nothing gets faster with more data.
fn limit(documented: f64) -> f64 {
    documented.max(1.0) * TOLERANCE
}

/// Returns a sentence for each ratio that is too high or not documented.
fn too_high(documented: &[(String, f64)], measured: &[(String, f64)]) -> Vec<String> {
    let mut failures = Vec::new();
    for (name, ratio) in measured {
        let mut failure = String::new();
        let written = match documented.iter().find(|(known, _)| known == name) {
            Some((_, documented)) if *ratio <= limit(*documented) => continue,
            Some((_, documented)) => {
                write!(
                    failure,
                    "{name} is {ratio:.2}. docs/benchmarks.md has {documented:.2}, so {:.2} is allowed.",
                    limit(*documented)
                )
            }
            None => write!(failure, "{name} is not in docs/benchmarks.md. Run the program with --write."),
        };
        written.expect("a text can grow");
        failures.push(failure);
    }
    for (name, _) in documented.iter().filter(|(name, _)| !measured.iter().any(|(known, _)| known == name)) {
        failures.push(format!("{name} is in docs/benchmarks.md, but it was not measured."));
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "\
# Benchmarks
<!-- a: the program writes this part -->
old
<!-- end of a -->
<!-- ab: the program writes this part -->
| ratio | value |
|---|---|
| me, stack to floor | 2.00 |
| me, after to fresh | 1.00 |
<!-- end of ab -->
";

    fn ratios(values: &[(&str, f64)]) -> Vec<(String, f64)> {
        values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn writing_a_section_changes_no_other_section() {
        let written = with_section(DOCUMENT, "a", "new");
        assert_eq!(written, DOCUMENT.replace("old", "new"));
    }

    #[test]
    fn only_ratios_over_one_and_a_half_times_the_documented_ratio_are_too_high() {
        let documented = ratios_in(section(DOCUMENT, "ab").unwrap());
        assert_eq!(documented, ratios(&[("me, stack to floor", 2.0), ("me, after to fresh", 1.0)]));
        let high = ratios(&[("me, stack to floor", 3.0), ("me, after to fresh", 1.5)]);
        assert_eq!(too_high(&documented, &high), [""; 0]);
        assert_eq!(
            too_high(&documented, &ratios(&[("me, stack to floor", 3.1), ("me, after to fresh", 1.4)])),
            ["me, stack to floor is 3.10. docs/benchmarks.md has 2.00, so 3.00 is allowed."]
        );
        assert_eq!(too_high(&documented, &ratios(&[("new", 1.0)])).len(), 3, "one is new, two are missing");
        assert_eq!(too_high(&ratios(&[("me", 0.6)]), &ratios(&[("me", 1.4)])), [""; 0]);
    }
}
