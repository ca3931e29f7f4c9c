//! Offensive words in names.

use super::lookalike;

/// The words that a name must not have, and the exceptions.
#[derive(Debug, Clone)]
pub struct OffensiveWords {
    rejected: Vec<Pattern>,
    allowed: Vec<Pattern>,
}

/// A pattern: `word`, `word*` or `*word*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    word: String,
    matches: Matches,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Matches {
    WholeWord,
    StartOfWord,
    Anywhere,
}

impl Pattern {
    /// Parses a pattern. Returns `None` if it is malformed. The word has only letters and digits, and at least two of
    /// them.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_lowercase();
        let (word, matches) = match (text.strip_prefix('*'), text.strip_suffix('*')) {
            (Some(rest), Some(_)) => (rest.strip_suffix('*')?, Matches::Anywhere),
            (None, Some(start)) => (start, Matches::StartOfWord),
            (None, None) => (text.as_str(), Matches::WholeWord),
            (Some(_), None) => return None,
        };
        let is_word = word.chars().count() >= 2 && word.chars().all(char::is_alphanumeric);
        is_word.then(|| Self { word: word.to_owned(), matches })
    }

    fn matches(&self, word: &str) -> bool {
        match self.matches {
            Matches::WholeWord => word == self.word,
            Matches::StartOfWord => word.starts_with(&self.word),
            Matches::Anywhere => word.contains(&self.word),
        }
    }
}

impl OffensiveWords {
    /// Returns the built-in words and exceptions, together with those of a deployment.
    #[must_use]
    pub fn new(more: Vec<Pattern>, allowed: Vec<Pattern>) -> Self {
        let mut words = Self { rejected: more, allowed };
        for line in include_str!("offensive_words.txt").lines() {
            match line.strip_prefix('!') {
                Some(exception) => words.allowed.extend(Pattern::parse(exception)),
                // Comments and empty lines are no patterns.
                None => words.rejected.extend(Pattern::parse(line)),
            }
        }
        words
    }

    /// Returns whether a text has an offensive word. `read` converts a word to small Latin letters.
    #[must_use]
    pub fn occur_in(&self, text: &str, read: fn(&str) -> String) -> bool {
        let mut text = text.to_lowercase();
        for pattern in &self.allowed {
            if pattern.matches == Matches::Anywhere {
                text = text.replace(&pattern.word, " ");
            }
        }
        let is_allowed =
            |word: &String| self.allowed.iter().any(|pattern| pattern.matches(&only_letters(word)));
        words(&text).iter().filter(|word| !is_allowed(word)).any(|word| {
            let latin = read(word);
            // `1` stands for `i` or `l`.
            ['i', 'l'].into_iter().any(|one| self.reject(&only_letters(&lookalike::letters(&latin, one))))
        })
    }

    fn reject(&self, word: &str) -> bool {
        let squeezed = squeezed(word);
        self.rejected.iter().any(|pattern| pattern.matches(word) || pattern.matches(&squeezed))
    }
}

/// Returns the words of a text, in every way in which a reader may see them:
///
/// - what stands between spaces, with the punctuation in it: `f.u-c.k` is one word
/// - what stands between spaces or punctuation: `big_shot` is two words
/// - letters that are spelled one by one: `f u c k` is one word
/// - all of these also without the digits around them
#[must_use]
pub fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut spelled = String::new();
    for part in text.split_whitespace() {
        add(&mut words, part);
        for piece in part.split(|c: char| !c.is_alphanumeric()).filter(|piece| !piece.is_empty()) {
            if piece.chars().count() == 1 {
                spelled.push_str(piece);
                continue;
            }
            add(&mut words, &std::mem::take(&mut spelled));
            if piece != part {
                add(&mut words, piece);
            }
        }
    }
    add(&mut words, &spelled);
    words
}

fn add(words: &mut Vec<String>, word: &str) {
    let without_digits = word.trim_matches(|c: char| c.is_ascii_digit());
    for word in [word, without_digits] {
        if !word.is_empty() && words.last().is_none_or(|last| last != word) {
            words.push(word.to_owned());
        }
    }
}

/// Removes everything but letters and digits.
#[must_use]
pub fn only_letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

/// Reduces each run of three or more equal letters to one letter.
fn squeezed(word: &str) -> String {
    let characters: Vec<char> = word.chars().collect();
    let runs = characters.chunk_by(|one, next| one == next);
    runs.flat_map(|run| if run.len() > 2 { &run[..1] } else { run }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn are_in(text: &str) -> bool {
        OffensiveWords::new(Vec::new(), Vec::new()).occur_in(text, lookalike::latin)
    }

    #[test]
    fn offensive_words_are_found_in_all_spellings() {
        for text in [
            "fuck",
            "FUCK",
            "fuckfc",
            "the_fuck",
            "f.u.c.k",
            "f u c k",
            "f_u_c_k",
            "fuuuuck",
            "fu©k fuck",
            "ｆｕｃｋ",
            "fυсk",
            "fúck",
            "f*u*c*k",
            "sh1t",
            "5h1t",
            "$hit",
            "shit99",
            "69shit",
            "big_cock",
            "c0ck!",
            "b1tch",
            "Ba5tard",
            "s1ut",
            "cunt_united",
            "Sieg Heil Hitler",
            "hurensohn88",
        ] {
            assert!(are_in(text), "{text}");
        }
    }

    #[test]
    fn names_of_people_clubs_and_places_are_accepted() {
        for text in [
            "Scunthorpe",
            "Scunthorpe United",
            "scunthorpe_fan",
            "scunthorpe1899",
            "Arsenal",
            "Essex",
            "Sussex",
            "Middlesex",
            "Cockburn",
            "Hancock",
            "Hitchcock",
            "Assane",
            "Assan",
            "Bassett",
            "Dick Advocaat",
            "Dick van Dijk",
            "Virgil van Dijk",
            "Fuchs",
            "Christian Fuchs",
            "Dikembe",
            "Kuntz",
            "Stefan Kuntz",
            "Fücks",
            "Matsushita",
            "Harshit",
            "Danny Shittu",
            "Slutsky",
            "Nwankwo Kanu",
            "Wankdorf",
            "Wankhede",
            "Lyndon Dykes",
            "Greg Dyke",
            "Kike García",
            "Pornchai",
            "Penistone",
            "Clitheroe",
            "Titus",
            "Nigeria",
            "Niger",
            "Montenegro",
            "Analia",
            "Anaí",
            "Cassandra",
            "Uranus",
            "Shiitake",
            "Therapist",
            "Raphael",
            "Puteaux",
            "Putin",
            "Polla Mundialista",
            "En retard",
            "FC Köln",
            "FCK",
            "A C Milan",
            "A S Roma",
            "who_really",
            "push_it",
            "is_hit",
            "Passat",
            "Grass",
            "Class of 92",
            "Spice",
            "Kafir",
            "Pakistan",
            "Strandby IF",
            "Aalhavn SK",
            "alice",
            "fan234567892",
            "North Stand",
            "Room 7 of 11",
            "person11",
        ] {
            assert!(!are_in(text), "{text}");
        }
    }

    #[test]
    fn a_deployment_can_add_words_and_exceptions() {
        let patterns = |texts: &[&str]| texts.iter().filter_map(|text| Pattern::parse(text)).collect();
        let words = OffensiveWords::new(patterns(&["Diver", "*glory*"]), patterns(&["cock", "ar*"]));
        let are_in = |text| words.occur_in(text, lookalike::latin);
        for text in ["diver", "the d1ver", "gloryhunter", "g1oryhunter", "shit"] {
            assert!(are_in(text), "{text}");
        }
        for text in ["divers", "cock", "The Cock, Inn", "arse"] {
            assert!(!are_in(text), "{text}");
        }
    }

    #[test]
    fn malformed_patterns_are_rejected() {
        for text in ["", "*", "**", "x", "*word", "two words", "a-b", "wo*rd", "***"] {
            assert_eq!(Pattern::parse(text), None, "{text}");
        }
    }

    #[test]
    fn every_line_of_the_list_is_a_pattern_or_a_comment() {
        let lines = include_str!("offensive_words.txt").lines();
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let pattern = Pattern::parse(line.trim_start_matches('!')).unwrap_or_else(|| panic!("{line}"));
            // Texts are compared after `letters`, so a word that `letters` changes would never be found.
            let read = lookalike::letters(&pattern.word, 'i');
            assert!(line.starts_with('!') || read == pattern.word, "{line} is never found");
        }
    }

    proptest! {
        /// No separator, digit spelling or repetition hides a word.
        #[test]
        fn disguises_do_not_hide_a_word(
            separators in prop::collection::vec("[._ -]{0,1}", 3),
            repetitions in prop::collection::vec(prop_oneof![Just(1_usize), 3..6_usize], 4),
            spelling in prop::sample::subsequence(vec!['s', 'i'], 0..=2),
        ) {
            // A space between some letters only makes two words.
            let spaces = separators.iter().filter(|separator| *separator == " ").count();
            prop_assume!(spaces == 0 || spaces == 3 && repetitions.iter().all(|count| *count == 1));
            let mut text = String::new();
            for (at, letter) in "shit".chars().enumerate() {
                let shown = match letter {
                    's' if spelling.contains(&'s') => '5',
                    'i' if spelling.contains(&'i') => '1',
                    other => other,
                };
                text.extend(std::iter::repeat_n(shown, repetitions[at]));
                text.push_str(separators.get(at).map_or("", String::as_str));
            }
            prop_assert!(are_in(&text), "{}", text);
        }
    }
}
