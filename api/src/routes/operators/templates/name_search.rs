//! Finds templates by a part of their name, however either of the two is written.

use std::ops::RangeInclusive;

use unicode_normalization::UnicodeNormalization as _;

/// Accents and other marks above or below a letter. Greek capitals bear none, and a keyboard may lack them. Marks of other
/// scripts are vowels and sounds, so they count.
const ACCENTS: RangeInclusive<char> = '\u{300}'..='\u{36f}';

/// A part of a name that is looked for.
pub(super) struct PartOfName(String);

impl PartOfName {
    /// `None`: an empty text, which every name contains.
    pub(super) fn of(text: &str) -> Option<Self> {
        let folded = folded(text);
        // Accents alone are in no name, whose accents do not count.
        let part = if folded.is_empty() { text.to_owned() } else { folded };
        (!part.is_empty()).then_some(Self(part))
    }

    pub(super) fn is_in(&self, name: &str) -> bool {
        folded(name).contains(&self.0)
    }
}

/// Returns a text without what does not count: accents and case. Lower case alone would not do: `ΣΑΣ` becomes `σας`, whose
/// last letter is another one than its first, and a part of a word does not end where the word does. Capitals have one
/// sigma, and `SS` for `ß`; lower case before them makes the capital `ẞ` one of those.
fn folded(text: &str) -> String {
    let plain: String = text.nfd().filter(|mark| !ACCENTS.contains(mark)).nfc().collect();
    plain.to_lowercase().to_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_in_capitals_and_without_accents_and_by_a_part_of_a_word() {
        for (part, name) in [
            ("ΕΚΠΤΩΣΕΙΣ", "Εκπτώσεις του χειμώνα"),
            ("εκπτώσεις", "ΕΚΠΤΩΣΕΙΣ"),
            // A part of the word that ends in the sigma within words.
            ("εκπτωσ", "Εκπτώσεις"),
            ("τιμες", "ΤΙΜΕΣ"),
            ("STRASSE", "Straße"),
            ("straße", "STRAẞE"),
            ("FÜR", "Ein Entwurf für später"),
            // The same letter in two parts.
            ("fu\u{308}r", "für"),
            ("istanbul", "İstanbul"),
            ("распродажа", "РАСПРОДАЖА"),
            ("が", "が"),
        ] {
            assert!(PartOfName::of(part).unwrap().is_in(name), "{part} in {name}");
        }
        for (part, name) in [("か", "が"), ("sale", "sole"), ("%", "100"), ("\u{301}", "café")] {
            assert!(!PartOfName::of(part).unwrap().is_in(name), "{part} in {name}");
        }
        assert!(PartOfName::of("").is_none());
    }
}
