//! Bytes as base64, with padding.

/// Appends `bytes` to a text.
pub(crate) fn append(out: &mut Vec<u8>, mut bytes: impl Iterator<Item = u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    while let Some(first) = bytes.next() {
        let (second, third) = (bytes.next(), bytes.next());
        let [a, b, c] = [first, second.unwrap_or(0), third.unwrap_or(0)].map(usize::from);
        out.push(DIGITS[a >> 2]);
        out.push(DIGITS[(a << 4 | b >> 4) & 63]);
        out.push(second.map_or(b'=', |_| DIGITS[(b << 2 | c >> 6) & 63]));
        out.push(third.map_or(b'=', |_| DIGITS[c & 63]));
    }
}

/// `bytes` as a text of its own.
pub(crate) fn text(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    append(&mut out, bytes.iter().copied());
    out.into_iter().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_are_no_multiple_of_three_are_padded() {
        assert_eq!(text(b"abc"), "YWJj");
        assert_eq!(text(b"ab\0\0"), "YWIAAA==");
        assert_eq!(text(b"ab"), "YWI=");
        assert_eq!(text(b""), "");
    }
}
