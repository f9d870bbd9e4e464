//! Lines of a CSV file (RFC 4180), safe to open in a spreadsheet.

use std::fmt::{Display, Write as _};

/// Characters at the beginning of a text that make a spreadsheet read it as a formula.
const FORMULA: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

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
        if text.starts_with(FORMULA) {
            self.out.push(GUARD);
        }
        if is_quoted {
            self.out.push_str(&text.replace('"', "\"\""));
            self.out.push('"');
        } else {
            self.out.push_str(text);
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
        assert_eq!(line(&["\r=1"]), "\"'\r=1\"\r\n");
        assert_eq!(line(&["a=1", "1-2"]), "a=1,1-2\r\n");
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
