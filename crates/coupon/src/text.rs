//! Characters that are not allowed in text written by people: those that control a terminal or reverse the direction of
//! text and, in text that is compared byte by byte, invisible ones.

use std::fmt;

/// A refused character. It is displayed as `U+202E`, because printing it would have the effect it is refused for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused(pub char);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "U+{:04X}", u32::from(self.0))
    }
}

/// Returns the first character that is not allowed in names and reasons: a control character, a line or paragraph
/// separator, or one that changes the direction of the surrounding text (Unicode's `Bidi_Control`).
pub fn steering(text: &str) -> Option<Refused> {
    text.chars().find(|&one| steers(one)).map(Refused)
}

/// Returns what is wrong with a name or reason that people write: it is blank, has more than `most` characters, or holds
/// one that [`steering`] finds.
pub fn wrong(text: &str, most: usize) -> Option<String> {
    if text.trim().is_empty() || text.chars().count() > most {
        return Some(format!("use 1 to {most} characters"));
    }
    steering(text).map(|refused| format!("leave {refused} out, a control character"))
}

/// Returns the first character that is not allowed in references, because two references that look alike must be equal.
/// Besides those of [`steering`], it refuses all invisible characters (Unicode's `Default_Ignorable_Code_Point`) and
/// every space but U+0020.
pub fn unseen(text: &str) -> Option<Refused> {
    text.chars().find(|&one| steers(one) || is_unseen(one)).map(Refused)
}

/// Returns what is wrong with a reference: it is blank, has more than `most` characters, begins or ends with a space,
/// or holds one that [`unseen`] finds. A database may ignore trailing spaces when it compares texts.
pub fn wrong_reference(text: &str, most: usize) -> Option<String> {
    if text.is_empty() || text.chars().count() > most {
        return Some(format!("use 1 to {most} characters"));
    }
    if text.trim() != text {
        return Some("begin and end it without a space".to_owned());
    }
    if matches!(text, "." | "..") {
        return Some(
            "use another name than . and .., which clients leave out of an address".to_owned(),
        );
    }
    unseen(text).map(|refused| format!("leave {refused} out, which nobody sees"))
}

fn steers(one: char) -> bool {
    one.is_control()
        || matches!(one, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn is_unseen(one: char) -> bool {
    (one.is_whitespace() && one != ' ')
        || matches!(
            one,
            '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Samples of every kind of refused character.
    const STEERING: [char; 12] = [
        '\0', '\t', '\n', '\u{1b}', '\u{7f}', '\u{85}', '\u{61c}', '\u{200e}', '\u{2028}',
        '\u{202a}', '\u{202e}', '\u{2069}',
    ];
    const UNSEEN: [char; 12] = [
        '\u{a0}', '\u{ad}', '\u{200b}', '\u{200c}', '\u{200d}', '\u{2007}', '\u{2060}', '\u{2800}',
        '\u{3000}', '\u{3164}', '\u{fe0f}', '\u{feff}',
    ];

    /// Text as people write it, in many scripts, with symbols and joined emoji.
    const WRITTEN: [&str; 7] =
        ["A sale: 10 % off!", "Größe, naïve, ½", "春の割引", "תווית", "خصم", "छूट", "👩‍🚀 🏴‍☠️"];

    #[test]
    fn names_may_be_any_script_and_a_joined_emoji_is_no_reference() {
        assert!(WRITTEN.iter().all(|text| steering(text).is_none()));
        assert!(WRITTEN[..6].iter().all(|text| unseen(text).is_none()));
        assert_eq!(unseen(WRITTEN[6]).map(|it| it.to_string()), Some("U+200D".to_owned()));
    }

    proptest! {
        #[test]
        fn one_that_steers_is_found_wherever_it_stands(
            before in "[ -~äל春]{0,20}", which in 0..STEERING.len(), after in ".{0,20}",
        ) {
            let one = STEERING[which];
            let text = format!("{before}{one}{after}");
            prop_assert_eq!(steering(&text), Some(Refused(one)));
            prop_assert_eq!(unseen(&text), Some(Refused(one)));
        }

        #[test]
        fn an_invisible_character_is_found_in_a_reference(
            before in "[ -~äל春]{0,20}", which in 0..UNSEEN.len(), after in "[ -~]{0,20}",
        ) {
            let one = UNSEEN[which];
            let text = format!("{before}{one}{after}");
            prop_assert_eq!(steering(&text), None);
            prop_assert_eq!(unseen(&text), Some(Refused(one)));
        }

        #[test]
        fn accepted_text_holds_no_control_and_prints_as_it_reads(text in any::<String>()) {
            if steering(&text).is_none() {
                prop_assert!(!text.chars().any(char::is_control));
            }
            if unseen(&text).is_none() {
                prop_assert!(text.chars().all(|one| one == ' ' || !one.is_whitespace()));
                prop_assert!(steering(&text).is_none());
            }
        }
    }

    #[test]
    fn references_that_look_alike_are_equal() {
        assert_eq!(wrong_reference("pay 17-ä", 8), None);
        for wrong in ["", " ", "pay-1 ", " pay-1", "pay\u{200b}1", "pay\t1", "123456789"] {
            assert!(wrong_reference(wrong, 8).is_some(), "{wrong:?}");
        }
    }
}
