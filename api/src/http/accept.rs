//! What a client wants of a list: a page as JSON, or all rows as NDJSON or CSV (RFC 9110, 12.5.1).

use axum::http::{HeaderMap, header};

/// Media type of one JSON object in each line.
pub(crate) const NDJSON: &str = "application/x-ndjson";

/// Media type of a table (RFC 4180).
pub(crate) const CSV: &str = "text/csv";

/// Weight of a range that names none.
const WEIGHT_DEFAULT: f32 = 1.0;

/// The form of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A page, with the cursor of the next one.
    Page,
    /// All rows, one JSON object in each line.
    Ndjson,
    /// All rows, with a line of names first.
    Csv,
}

impl Form {
    /// Returns the form that the client prefers, or `None` if it accepts none of them. Of equal weights a page comes
    /// first; ranges with `*` mean a page.
    pub(crate) fn preferred(headers: &HeaderMap) -> Option<Self> {
        let lines = headers.get_all(header::ACCEPT);
        if lines.iter().next().is_none() {
            return Some(Self::Page);
        }
        let lines = lines.iter().filter_map(|line| line.to_str().ok());
        let mut best: Option<(f32, Self)> = None;
        for (weight, form) in lines.flat_map(|line| line.split(',')).filter_map(Self::of_range) {
            let is_better = best.is_none_or(|(known, other)| {
                weight > known || (weight >= known && form == Self::Page && other != Self::Page)
            });
            if weight > 0.0 && is_better {
                best = Some((weight, form));
            }
        }
        best.map(|(_, form)| form)
    }

    /// Reads a media range and its weight. Returns `None` for ranges that mean none of the forms.
    fn of_range(range: &str) -> Option<(f32, Self)> {
        let mut parts = range.split(';').map(str::trim);
        let form = match parts.next()?.to_ascii_lowercase().as_str() {
            "*/*" | "application/*" | "application/json" => Self::Page,
            NDJSON | "application/ndjson" | "application/jsonl" => Self::Ndjson,
            CSV | "text/*" => Self::Csv,
            _ => return None,
        };
        let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        let weight = weight.map_or(Some(WEIGHT_DEFAULT), |text| text.trim().parse().ok())?;
        Some((weight, form))
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Page => "application/json",
            Self::Ndjson => NDJSON,
            Self::Csv => "text/csv; charset=utf-8; header=present",
        }
    }

    /// Ending of a file of this form.
    pub(crate) fn ending(self) -> &'static str {
        match self {
            Self::Page => "json",
            Self::Ndjson => "ndjson",
            Self::Csv => "csv",
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_preferred_form_is_that_of_the_largest_weight_and_a_page_of_equal_ones() {
        let preferred = |lines: &[&'static str]| {
            let line = |line: &&'static str| (header::ACCEPT, HeaderValue::from_static(line));
            let mut headers = HeaderMap::new();
            for (name, value) in lines.iter().map(line) {
                headers.append(name, value);
            }
            Form::preferred(&headers)
        };
        for (lines, form) in [
            (&[][..], Some(Form::Page)),
            (&["*/*"], Some(Form::Page)),
            (&["text/csv"], Some(Form::Csv)),
            (&["Text/CSV; charset=utf-8"], Some(Form::Csv)),
            (&["application/x-ndjson"], Some(Form::Ndjson)),
            (&["text/csv, application/json"], Some(Form::Page)),
            (&["text/csv, */*;q=0.1"], Some(Form::Csv)),
            (&["application/json;q=0.5", "application/x-ndjson;q=0.8"], Some(Form::Ndjson)),
            (&["text/csv;q=0"], None),
            (&["text/csv;q=x"], None),
            (&["text/html"], None),
            (&[""], None),
        ] {
            assert_eq!(preferred(lines), form, "{lines:?}");
        }
    }
}
