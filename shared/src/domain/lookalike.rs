//! Spellings that look alike: `adm1n`, `a.dmin` and `adrnin` look like `admin`, and `Тouchline` with a Cyrillic letter
//! looks like `Touchline`.

use decancer::{Options, Translation};

/// Returns the key under which usernames that look alike collide. The key of a username that is its own key costs no
/// additional write, so the key changes as little as possible:
///
/// - `.` and `_` are left out. Between two digits they become `-`: `1.5` looks like `1_5`, but not like `15`.
/// - `0` becomes `o`, and `1` becomes `l`.
/// - `rn` becomes `m`, and `vv` becomes `w`.
#[must_use]
pub fn username_key(username: &str) -> String {
    let characters: Vec<char> = username.chars().collect();
    let is_digit = |at: Option<usize>| at.and_then(|at| characters.get(at)).is_some_and(char::is_ascii_digit);
    let mut key = String::with_capacity(username.len());
    for (at, character) in characters.iter().enumerate() {
        match character {
            '.' | '_' if is_digit(at.checked_sub(1)) && is_digit(Some(at + 1)) => key.push('-'),
            '.' | '_' => {}
            '0' => key.push('o'),
            '1' => key.push('l'),
            other => key.push(*other),
        }
    }
    join_strokes(&key)
}

/// Replaces pairs of letters that look like one letter.
fn join_strokes(text: &str) -> String {
    text.replace("rn", "m").replace("vv", "w")
}

/// Converts a text to lower case, and each character that looks like a Latin letter to that letter. Accents are
/// removed.
#[must_use]
pub fn latin(text: &str) -> String {
    let mut latin = String::with_capacity(text.len());
    for character in text.chars() {
        // Latin letters of which the crate does not know all, such as a d with a hook.
        if let ('\u{180}'..='\u{2AF}', Some(letters)) = (character, deunicode::deunicode_char(character)) {
            latin.push_str(&letters.to_lowercase());
            continue;
        }
        match decancer::cure_char(character, Options::default()) {
            Translation::Character(letter) if is_replaced(character, letter) => {
                latin.extend(letter.to_lowercase());
            }
            Translation::String(letters) if character.is_alphanumeric() => latin.push_str(&letters),
            // Combining characters, such as an accent after its letter.
            Translation::None if !character.is_alphanumeric() => {}
            // The crate reads letters into some emoji and symbols.
            _ => latin.extend(character.to_lowercase()),
        }
    }
    latin
}

/// Returns whether a character can stand for `letter`. A symbol can stand for another symbol, as the dashes do, but not
/// for a letter.
fn is_replaced(character: char, letter: char) -> bool {
    character.is_alphanumeric() || !letter.is_alphanumeric()
}

/// Replaces digits and symbols that are used as letters. `1` is used for two letters; `one` says for which.
#[must_use]
pub fn letters(text: &str, one: char) -> String {
    let letter = |character| match character {
        '0' => 'o',
        '1' | '!' | '|' => one,
        '3' => 'e',
        '4' | '@' => 'a',
        '5' | '$' => 's',
        '7' => 't',
        '8' => 'b',
        other => other,
    };
    text.chars().map(letter).collect()
}

/// Returns the same text for all texts in lower case that look alike. It takes `i` and `l` for the same letter, because a
/// capital `I` looks like `l`.
#[must_use]
pub fn skeleton(lower_case: &str) -> String {
    join_strokes(&letters(lower_case, 'l').replace('i', "l"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn usernames_that_look_alike_have_the_same_key() {
        for (one, other) in [
            ("john_smith", "johnsmith"),
            ("j.o.h.n", "john"),
            ("le0", "leo"),
            ("marcel", "marce1"),
            ("rnarcel", "marcel"),
            ("vvanda", "wanda"),
            ("r_n", "m"),
            ("v1.5", "v1_5"),
        ] {
            assert_eq!(username_key(one), username_key(other), "{one} {other}");
        }
        for (one, other) in [("fan.1.10", "fan.11.0"), ("alice", "alicia"), ("lia", "ila"), ("ada2", "ada3")]
        {
            assert_ne!(username_key(one), username_key(other), "{one} {other}");
        }
        for plain in ["alice", "striker", "ada42", "fan234567892"] {
            assert_eq!(username_key(plain), plain);
        }
    }

    #[test]
    fn letters_of_other_scripts_are_read_as_the_latin_letters_that_they_look_like() {
        for text in [
            "Тоuсhlіnе",
            "Ｔｏｕｃｈｌｉｎｅ",
            "𝕿𝖔𝖚𝖈𝖍𝖑𝖎𝖓𝖊",
            "ᴛᴏᴜᴄʜʟɪɴᴇ",
            "Ⓣⓞⓤⓒⓗⓛⓘⓝⓔ",
            "Tóuchlíne",
            "T\u{337}ouchline",
        ] {
            assert_eq!(latin(text), "touchline", "{text}");
        }
        assert_eq!(latin("Strandby IF – Aalhavn SK"), latin("Strandby IF — Aalhavn SK"));
        assert_eq!(latin("⚽👩‍👧"), "⚽👩👧");
    }

    #[test]
    fn skeletons_see_digits_and_symbols_as_letters() {
        for text in ["admin", "adm1n", "4dm!n", "@dmln", "adrnin"] {
            assert_eq!(skeleton(text), skeleton("admin"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_key_of_a_key_is_the_key_itself(username in "[a-z0-9_.]{3,30}") {
            let key = username_key(&username);
            prop_assert_eq!(username_key(&key), key);
        }

        /// `decancer` has tables for all of Unicode, so this test calls it with all of Unicode.
        #[test]
        fn every_text_has_a_latin_reading(text: String) {
            let reading = latin(&text);
            prop_assert!(!reading.chars().any(|c| c.is_ascii_uppercase()));
        }

        #[test]
        fn the_latin_reading_of_ascii_is_its_lower_case(text in "[ -~]{0,40}") {
            prop_assert_eq!(latin(&text), text.to_ascii_lowercase());
        }
    }

    #[test]
    fn every_character_has_a_latin_reading() {
        for character in '\0'..=char::MAX {
            assert!(!latin(&character.to_string()).chars().any(|c| c.is_ascii_uppercase()));
        }
    }
}
