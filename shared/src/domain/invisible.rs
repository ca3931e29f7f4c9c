//! Characters that nobody sees, and that therefore make two different names look the same.
//!
//! Some scripts and emoji need such characters. They are accepted where they change what is shown:
//!
//! | character | is accepted |
//! |---|---|
//! | zero-width joiner and non-joiner | between two characters of the Arabic or an Indic script, and after a virama |
//! | zero-width joiner | between two emoji |
//! | variation selectors 15 and 16 | after an emoji, and between a digit and a keycap |
//! | ideographic variation selectors | after an ideograph |
//! | tag characters | in the flags of England, Scotland and Wales |

use super::Reason;

const ZERO_WIDTH_NON_JOINER: char = '\u{200C}';
const ZERO_WIDTH_JOINER: char = '\u{200D}';
const KEYCAP: char = '\u{20E3}';

/// The flags that are written with tag characters: a black flag, the letters of the region, and an end.
const FLAGS: [&str; 3] = [
    "\u{1F3F4}\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}",
    "\u{1F3F4}\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F}",
    "\u{1F3F4}\u{E0067}\u{E0062}\u{E0077}\u{E006C}\u{E0073}\u{E007F}",
];

/// The most accents that a letter can have. No language needs more, and a stack of them covers the lines above and below.
const MAX_ACCENTS: usize = 3;

/// Rejects a text with invisible characters, blank characters other than spaces, characters that change the direction of
/// text, and stacked accents.
pub fn check(text: &str) -> Result<(), Reason> {
    let text = FLAGS.iter().fold(text.to_owned(), |text, flag| text.replace(flag, "\u{1F3F4}"));
    let characters: Vec<char> = text.chars().collect();
    let is_hidden = |at: usize| {
        let before = at.checked_sub(1).map(|before| characters[before]);
        let after = characters.get(at + 1).copied();
        !is_shown(characters[at], before, after)
    };
    if (0..characters.len()).any(is_hidden) {
        return Err("Remove the invisible characters.".into());
    }
    if characters.chunk_by(|one, next| is_accent(*one) && is_accent(*next)).any(|run| run.len() > MAX_ACCENTS)
    {
        return Err("Remove the stacked accents.".into());
    }
    Ok(())
}

/// Returns whether a character is visible, or changes what is shown of its neighbours.
fn is_shown(character: char, before: Option<char>, after: Option<char>) -> bool {
    let joins_letters = || {
        before.is_some_and(is_virama)
            || (before.is_some_and(needs_joiners) && after.is_some_and(needs_joiners))
    };
    let joins_emoji = || {
        before.is_some_and(|before| is_emoji(before) || before == '\u{FE0F}') && after.is_some_and(is_emoji)
    };
    let selects_keycap =
        || before.is_some_and(|before| matches!(before, '0'..='9' | '#' | '*')) && after == Some(KEYCAP);
    match character {
        ZERO_WIDTH_NON_JOINER => joins_letters(),
        ZERO_WIDTH_JOINER => joins_letters() || joins_emoji(),
        '\u{FE0E}' | '\u{FE0F}' => before.is_some_and(is_emoji) || selects_keycap(),
        '\u{E0100}'..='\u{E01EF}' => before.is_some_and(is_ideograph),
        _ => !is_invisible(character),
    }
}

/// Returns whether a character is never accepted: it shows nothing, or it changes the direction of text.
fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{AD}' // soft hyphen
        | '\u{34F}' // combining grapheme joiner
        | '\u{61C}' // direction
        | '\u{115F}' | '\u{1160}' | '\u{3164}' | '\u{FFA0}' // Hangul fillers
        | '\u{17B4}' | '\u{17B5}' // Khmer vowels that are not shown
        | '\u{180B}'..='\u{180F}' // Mongolian selectors and vowel separator
        | '\u{200B}' | '\u{200E}' | '\u{200F}' // zero-width space, direction
        | '\u{2028}'..='\u{202E}' // line and paragraph separators, direction
        | '\u{2060}'..='\u{206F}' // word joiner, invisible operators, direction
        | '\u{2800}' // blank Braille pattern
        | '\u{FE00}'..='\u{FE0D}' // variation selectors
        | '\u{FEFF}' // byte order mark
        | '\u{FFF0}'..='\u{FFFC}' // annotations, object replacement
        | '\u{13430}'..='\u{1343F}' // hieroglyph format controls
        | '\u{1BCA0}'..='\u{1BCA3}' // shorthand format controls
        | '\u{1D159}' | '\u{1D173}'..='\u{1D17A}' // musical null notehead and format controls
        | '\u{E0000}'..='\u{E0FFF}' // tags, and unassigned characters that are never shown
    )
}

/// Returns whether a character is a mark that is drawn above or below the letter before it.
fn is_accent(character: char) -> bool {
    matches!(character,
        '\u{300}'..='\u{36F}' | '\u{483}'..='\u{489}' | '\u{1AB0}'..='\u{1AFF}' | '\u{1DC0}'..='\u{1DFF}'
        | '\u{20D0}'..='\u{20FF}' | '\u{FE20}'..='\u{FE2F}'
        | '\u{591}'..='\u{5BD}' | '\u{5BF}' | '\u{5C1}'..='\u{5C7}' // Hebrew
        | '\u{610}'..='\u{61A}' | '\u{64B}'..='\u{65F}' | '\u{670}' | '\u{6D6}'..='\u{6ED}' // Arabic
        | '\u{E31}' | '\u{E34}'..='\u{E3A}' | '\u{E47}'..='\u{E4E}' // Thai
        | '\u{EB1}' | '\u{EB4}'..='\u{EBC}' | '\u{EC8}'..='\u{ECE}' // Lao
    )
}

/// Returns whether a character belongs to a script that is written with joiners.
fn needs_joiners(character: char) -> bool {
    matches!(character,
        '\u{620}'..='\u{8FF}' // Arabic, Syriac, Thaana, N'Ko, Mandaic
        | '\u{900}'..='\u{DFF}' // the scripts of India and Sri Lanka
        | '\u{1000}'..='\u{109F}' // Myanmar
        | '\u{1780}'..='\u{17B3}' | '\u{17B6}'..='\u{17D3}' // Khmer
        | '\u{1820}'..='\u{18AA}' // Mongolian
    )
}

/// Returns whether a character joins consonants to one sign. A joiner after it selects another shape.
fn is_virama(character: char) -> bool {
    matches!(
        character,
        '\u{94D}'
            | '\u{9CD}'
            | '\u{A4D}'
            | '\u{ACD}'
            | '\u{B4D}'
            | '\u{BCD}'
            | '\u{C4D}'
            | '\u{CCD}'
            | '\u{D4D}'
            | '\u{DCA}'
            | '\u{1039}'
            | '\u{103A}'
            | '\u{17D2}'
    )
}

/// Returns whether a character is a symbol that can be an emoji.
fn is_emoji(character: char) -> bool {
    matches!(character,
        '\u{A9}' | '\u{AE}' | '\u{203C}' | '\u{2049}' | '\u{2122}' | '\u{2139}'
        | '\u{2190}'..='\u{21FF}' | '\u{2300}'..='\u{23FF}' | '\u{24C2}' | '\u{25A0}'..='\u{27BF}'
        | '\u{2934}' | '\u{2935}' | '\u{2B00}'..='\u{2BFF}'
        | '\u{3030}' | '\u{303D}' | '\u{3297}' | '\u{3299}' | '\u{1F000}'..='\u{1FAFF}'
    )
}

fn is_ideograph(character: char) -> bool {
    matches!(character,
        '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFD}'
    )
}

/// The characters below U+10000 that [`check`] never accepts, as ranges in a character class of a pattern.
///
/// The other rules of this module are not in the pattern: engines differ in how they write the characters from U+10000
/// on, and a pattern cannot look at neighbours.
#[cfg(feature = "openapi")]
pub const NEVER_ACCEPTED: &str = r"\u00AD\u034F\u061C\u115F\u1160\u17B4\u17B5\u180B-\u180F\u200B\u200E\u200F\u2028-\u202E\u2060-\u206F\u2800\u3164\uFE00-\uFE0D\uFEFF\uFFA0\uFFF0-\uFFFC";

/// Returns whether [`check`] accepts a character only in some places, or is not described by [`NEVER_ACCEPTED`].
#[cfg(all(test, feature = "openapi"))]
#[must_use]
pub fn depends_on_neighbours(character: char) -> bool {
    matches!(character, ZERO_WIDTH_NON_JOINER | ZERO_WIDTH_JOINER | '\u{FE0E}' | '\u{FE0F}')
        || character >= '\u{10000}'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_nobody_can_see_are_rejected() {
        for text in [
            "\u{3164}",
            "\u{2800}\u{2800}",
            "\u{200B}",
            "\u{FE0F}",
            "\u{E0061}\u{E0064}",
            "\u{1F3F4}\u{E0067}\u{E0062}\u{E007F}",
            "Ada\u{202E}ecalevoL",
            "Ada\u{2066}x\u{2069}",
            "Ada\u{200B}",
            "ad\u{AD}min",
            "A\u{FE0F}da",
            "A\u{200D}da",
            "a\u{200C}b",
            "Ada\u{200D}",
            "\u{200D}👩",
            "👩\u{200D}",
            "👩\u{200D}\u{200D}👧",
            "a\u{E0100}",
            "1\u{FE0F}",
            "\u{1D159}",
            "Z\u{300}\u{316}\u{301}\u{317}algo",
            "ก\u{E34}\u{E48}\u{E49}\u{E4A}",
            "ب\u{64E}\u{651}\u{652}\u{653}",
        ] {
            assert!(check(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn names_in_all_scripts_and_emoji_are_accepted() {
        for text in [
            "Ada Lovelace",
            "Nguye\u{302}\u{303}n",
            "José  García",
            "Göteholm IF",
            "Спартак Москва",
            "北京国安",
            "葛\u{E0100}城",
            "山田\u{3000}太郎",
            "الهلال",
            "مُحَمَّد",
            "ก\u{E34}\u{E48}น",
            "שָׁ\u{5C2}לוֹם",
            "می\u{200C}خواهم",
            "ക്\u{200D}ഷ",
            "മോഹന്\u{200D}",
            "র\u{200D}\u{9CD}যাব",
            "श्री\u{200D}मान",
            "👩\u{200D}👩\u{200D}👧",
            "❤\u{FE0F}\u{200D}🔥",
            "👩🏽\u{200D}🚀",
            "🏴\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F} Tartan Army",
            "🏴\u{200D}☠\u{FE0F}",
            "🇩🇰 ⚽\u{FE0F} 1\u{FE0F}\u{20E3}",
            "Zoe\u{308}",
        ] {
            assert!(check(text).is_ok(), "{text:?}");
        }
    }

    proptest! {
        /// Wherever it stands, a character that is never accepted makes the text invalid.
        #[test]
        fn an_invisible_character_is_rejected_at_every_place(
            text in "\\PC{0,20}", at: prop::sample::Index,
            hidden in prop::sample::select("\u{AD}\u{34F}\u{61C}\u{115F}\u{1160}\u{180E}\u{200B}\u{200E}\u{202A}\u{202E}\u{2060}\u{2066}\u{2069}\u{2800}\u{3164}\u{FEFF}\u{FFA0}\u{1D173}\u{E0001}\u{E0041}".chars().collect::<Vec<_>>()),
        ) {
            let mut characters: Vec<char> = text.chars().collect();
            characters.insert(at.index(characters.len() + 1), hidden);
            let text: String = characters.into_iter().collect();
            prop_assert!(check(&text).is_err(), "{:?}", text);
        }

        /// Letters of scripts without joiners, digits, punctuation and spaces never make a text invalid.
        #[test]
        fn texts_of_letters_and_punctuation_are_accepted(text in "[\\p{Latin}\\p{Cyrillic}\\p{Greek}\\p{Han}\\p{Nd}\\p{P} ]{1,40}") {
            prop_assert!(check(&text).is_ok(), "{:?}", text);
        }
    }
}
