//! Lines of a CSV file (RFC 4180), safe to open in a spreadsheet.

use std::fmt::{Display, Write as _};

/// Characters at the beginning of a cell that make a spreadsheet read it as a formula, the full-width ones in Japan.
const FORMULA: [char; 10] = ['=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠'];

/// Characters behind which another cell begins, in whichever country the file is opened: spreadsheets of half of Europe
/// separate cells by semicolons, and heed no quotes of a file with commas.
const SEPARATORS: [char; 5] = [',', ';', '\t', '\r', '\n'];

/// Written before such a text, so that it stays one. Spreadsheets do not show it.
const GUARD: char = '\'';

/// A line that is being written.
pub(crate) struct Line<'a> {
    out: &'a mut String,
    is_begun: bool,
}

impl<'a> Line<'a> {
    pub(crate) fn begin(out: &'a mut String) -> Self {
        Self { out, is_begun: false }
    }

    /// Writes a cell of people's text.
    pub(crate) fn text(&mut self, text: &str) {
        self.separate();
        let is_quoted = text.contains(['"', ',', '\r', '\n']);
        if is_quoted {
            self.out.push('"');
        }
        self.guarded(text);
        if is_quoted {
            self.out.push('"');
        }
    }

    /// Writes a text with its quotes doubled, and a [`GUARD`] before whatever would be a formula at the beginning of a
    /// cell.
    fn guarded(&mut self, text: &str) {
        let mut begins_cell = true;
        for one in text.chars() {
            if begins_cell && FORMULA.contains(&one) {
                self.out.push(GUARD);
            }
            if one == '"' {
                self.out.push('"');
            }
            self.out.push(one);
            let is_skipped = one == '"' || one.is_whitespace();
            begins_cell = SEPARATORS.contains(&one) || (begins_cell && is_skipped);
        }
    }

    /// Writes a cell of our own making: a number, a time, a word. It needs no quotes, and a number below 0 is no
    /// formula.
    pub(crate) fn plain(&mut self, value: impl Display) {
        self.separate();
        // Writing to a text cannot fail.
        write!(self.out, "{value}").unwrap_or_default();
    }

    /// Writes a cell of our own making that may be empty.
    pub(crate) fn maybe(&mut self, value: Option<impl Display>) {
        match value {
            Some(value) => self.plain(value),
            None => self.separate(),
        }
    }

    pub(crate) fn end(self) {
        self.out.push_str("\r\n");
    }

    fn separate(&mut self) {
        if self.is_begun {
            self.out.push(',');
        }
        self.is_begun = true;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(texts: &[&str]) -> String {
        let mut out = String::new();
        let mut line = Line::begin(&mut out);
        for text in texts {
            line.text(text);
        }
        line.end();
        out
    }

    #[test]
    fn no_text_begins_a_formula_and_each_cell_stays_in_its_place() {
        assert_eq!(line(&["a", "", "b c"]), "a,,b c\r\n");
        assert_eq!(line(&["=1+1", "+1", "-1", "@a", "\tb"]), "'=1+1,'+1,'-1,'@a,'\tb\r\n");
        assert_eq!(line(&["say \"so\", twice", "a\nb"]), "\"say \"\"so\"\", twice\",\"a\nb\"\r\n");
        assert_eq!(line(&["=HYPERLINK(\"a\",\"b\")"]), "\"'=HYPERLINK(\"\"a\"\",\"\"b\"\")\"\r\n");
        assert_eq!(line(&["\r=1"]), "\"'\r'=1\"\r\n");
        assert_eq!(line(&["a=1", "1-2"]), "a=1,1-2\r\n");
    }

    #[test]
    fn no_text_is_a_formula_where_cells_are_separated_by_semicolons() {
        assert_eq!(line(&["x;=1+1;"]), "x;'=1+1;\r\n");
        assert_eq!(line(&["x; @SUM(1)", "a;b"]), "x; '@SUM(1),a;b\r\n");
        assert_eq!(line(&["x;\"=1\""]), "\"x;\"\"'=1\"\"\"\r\n");
        assert_eq!(line(&["＝1+1", " =1"]), "'＝1+1, '=1\r\n");
    }

    proptest! {
        #[test]
        fn however_a_line_is_split_no_cell_begins_a_formula(text in "[ax1=+@;,\t\r\n\" ＝-]{0,12}") {
            let line = line(&["a", &text, "b"]);
            for separator in SEPARATORS {
                for cell in line.trim_end().split(separator) {
                    let begin = cell.trim_start_matches(|one: char| one == '"' || one.is_whitespace());
                    prop_assert!(!begin.starts_with(FORMULA), "{cell:?} of {line:?}");
                }
            }
        }
    }

    #[test]
    fn our_own_values_are_written_as_they_are() {
        let mut out = String::new();
        let mut line = Line::begin(&mut out);
        line.plain(-5);
        line.maybe(None::<i64>);
        line.maybe(Some("used"));
        line.end();
        assert_eq!(out, "-5,,used\r\n");
    }
}
