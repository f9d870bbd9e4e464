//! Text of statements, which the server writes in the character set of the client that sent them.
//!
//! In some of these sets the second byte of a character may be that of a quote or a backslash. A reader that does not
//! know the set takes it for one, and reads a string where the server has read a definition.

use std::borrow::Cow;

use encoding_rs::Encoding;
use mysql_common::collations::{Collation, CollationId};

/// Bit of the number of MariaDB's collations without padding. The rest is the number of the one with it.
const NO_PADDING: u16 = 0x400;

/// Reads a statement's text. `collation` is the number of the client's, 0 if it is not known. Characters of an unknown
/// set become replacement characters.
pub(crate) fn decode(text: &[u8], collation: u16) -> Cow<'_, str> {
    let collation = if collation < 2 * NO_PADDING { collation % NO_PADDING } else { collation };
    let collation = Collation::resolve(CollationId::from(collation));
    let Some(encoding) = encoding(collation.charset()) else {
        return String::from_utf8_lossy(text);
    };
    match wide(collation.charset()) {
        None => encoding.decode_without_bom_handling(text).0,
        Some(wide) => Cow::Owned(decode_wide(text, encoding, wide)),
    }
}

/// Returns the encoding that reads a character set of the server; `None`: UTF-8, or a set that none reads. In each of
/// those a byte below 128 is an ASCII character.
fn encoding(charset: &str) -> Option<&'static Encoding> {
    Some(match charset {
        "big5" => encoding_rs::BIG5,
        "cp1250" => encoding_rs::WINDOWS_1250,
        "cp1251" => encoding_rs::WINDOWS_1251,
        "cp1256" => encoding_rs::WINDOWS_1256,
        "cp1257" => encoding_rs::WINDOWS_1257,
        "cp866" => encoding_rs::IBM866,
        "eucjpms" | "ujis" => encoding_rs::EUC_JP,
        "euckr" => encoding_rs::EUC_KR,
        "gb18030" => encoding_rs::GB18030,
        "gb2312" | "gbk" => encoding_rs::GBK,
        "greek" => encoding_rs::ISO_8859_7,
        "hebrew" => encoding_rs::ISO_8859_8,
        "koi8r" => encoding_rs::KOI8_R,
        "koi8u" => encoding_rs::KOI8_U,
        "latin1" => encoding_rs::WINDOWS_1252,
        "latin2" => encoding_rs::ISO_8859_2,
        "latin5" => encoding_rs::WINDOWS_1254,
        "latin7" => encoding_rs::ISO_8859_13,
        "macroman" => encoding_rs::MACINTOSH,
        "cp932" | "sjis" => encoding_rs::SHIFT_JIS,
        "tis620" => encoding_rs::WINDOWS_874,
        _ => return None,
    })
}

/// Returns the length of the character at the beginning of a text, as the server reads it. A byte that begins no
/// character is one.
type Length = fn(&[u8]) -> usize;

/// Returns how the server takes a set apart whose characters may have bytes below 128 behind their first.
fn wide(charset: &str) -> Option<Length> {
    // From the servers' `strings/ctype-*.c`.
    Some(match charset {
        "big5" => |text| {
            pair(text, |a| matches!(a, 0xa1..=0xf9), |b| matches!(b, 0x40..=0x7e | 0xa1..=0xfe))
        },
        // Its encoding takes it for gbk, which has more characters.
        "gb2312" => |text| pair(text, |a| matches!(a, 0xa1..=0xf7), |b| matches!(b, 0xa1..=0xfe)),
        "gbk" => |text| {
            pair(text, |a| matches!(a, 0x81..=0xfe), |b| matches!(b, 0x40..=0x7e | 0x80..=0xfe))
        },
        "cp932" | "sjis" => |text| {
            let leads = |a| matches!(a, 0x81..=0x9f | 0xe0..=0xfc);
            pair(text, leads, |b| matches!(b, 0x40..=0x7e | 0x80..=0xfc))
        },
        "gb18030" => |text| match text {
            [0x81..=0xfe, 0x30..=0x39, 0x81..=0xfe, 0x30..=0x39, ..] => 4,
            [0x81..=0xfe, 0x40..=0x7e | 0x80..=0xfe, ..] => 2,
            _ => 1,
        },
        _ => return None,
    })
}

fn pair(text: &[u8], leads: fn(u8) -> bool, follows: fn(u8) -> bool) -> usize {
    match *text {
        [first, second, ..] if leads(first) && follows(second) => 2,
        _ => 1,
    }
}

/// Decodes character by character: an encoding may know fewer pairs than the server, and would read the second byte of
/// an unknown one by itself.
fn decode_wide(text: &[u8], encoding: &'static Encoding, length: Length) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (character, behind) = rest.split_at(length(rest).clamp(1, rest.len()));
        match character {
            [ascii] if ascii.is_ascii() => out.push(char::from(*ascii)),
            _ => match encoding.decode_without_bom_handling_and_without_replacement(character) {
                Some(known) => out.push_str(&known),
                None => out.push(char::REPLACEMENT_CHARACTER),
            },
        }
        rest = behind;
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GBK: u16 = 28;
    const BIG5: u16 = 1;
    const GB2312: u16 = 24;
    const SJIS: u16 = 13;
    const CP932: u16 = 95;
    const GB18030: u16 = 248;
    const LATIN1: u16 = 8;

    #[test]
    fn a_second_byte_that_looks_like_a_backslash_or_a_quote_is_part_of_its_character() {
        for (collation, text, read) in [
            (GBK, &b"'\x81\x5c'"[..], "'乗'"),
            (GBK + NO_PADDING, b"'\x81\x5c'", "'乗'"),
            (GBK, b"\x81\x60x`", "乣x`"),
            (BIG5, b"'\xa5\x5c'", "'功'"),
            // No character of this set: a backslash is a backslash.
            (GB2312, b"'\x81\x5c'", "'\u{fffd}\\'"),
            (SJIS, b"'\x95\x5c'", "'表'"),
            (CP932, b"'\x95\x5c'", "'表'"),
            (GB18030, b"'\x81\x5c\x81\x30\x81\x30'", "'乗\u{80}'"),
            // The server knows the pair, and the encoding does not.
            (SJIS, b"'\x85\x5c'", "'\u{fffd}'"),
            // No pair: a quote is a quote.
            (GBK, b"'\x81'", "'\u{fffd}'"),
            (LATIN1, b"b\xfccher", "bücher"),
            (0, "bücher".as_bytes(), "bücher"),
            (45, "bücher".as_bytes(), "bücher"),
        ] {
            assert_eq!(decode(text, collation), read, "{collation}");
        }
    }

    proptest! {
        #[test]
        fn whatever_the_set_no_text_of_ascii_changes(text in "[ -~\n]{0,40}", collation: u16) {
            prop_assert_eq!(decode(text.as_bytes(), collation), text.as_str());
        }

        #[test]
        fn any_bytes_are_read(text in prop::collection::vec(any::<u8>(), 0..60), collation in 0u16..2100) {
            let _read = decode(&text, collation);
        }
    }
}
