//! Pictures of the newest run in a results file of `./dev bench claims`.

mod answers;
mod rates;
mod run;

pub use answers::answers;
pub use rates::rates;
pub use run::Run;

use std::ops::Range;

use plotters::style::{FontFamily, FontStyle, IntoFont as _, RGBColor, TextStyle};

/// Width of a picture: that of a document's column.
const WIDTH: u32 = 760;

/// Black on white is harsh, and grey text is not read.
const INK: RGBColor = RGBColor(38, 45, 54);
/// For what only guides the eye.
const FAINT: RGBColor = RGBColor(222, 226, 230);
/// For what is less important.
const MUTED: RGBColor = RGBColor(108, 117, 125);
/// The product, where it is beside something else.
const OURS: RGBColor = RGBColor(0, 95, 115);

/// A number that is this many times the lower end of its axis leaves room for its figure below it.
const ROOM_BELOW: f64 = 1.5;

/// Text of a size in a colour.
fn text(size: u32, colour: &RGBColor) -> TextStyle<'_> {
    let font = (FontFamily::SansSerif, f64::from(size), FontStyle::Normal).into_font();
    TextStyle::from(font).color(colour)
}

/// The whole decades that contain the numbers, since part of a decade is hard to read, and room for the lowest one's
/// figure.
fn decades(numbers: impl Iterator<Item = f64> + Clone) -> Range<f64> {
    let low = numbers.clone().fold(f64::MAX, f64::min);
    let high = numbers.fold(f64::MIN_POSITIVE, f64::max);
    let start = 10_f64.powf(low.log10().floor()).min(low / ROOM_BELOW);
    start..10_f64.powf(high.log10().ceil())
}

/// A rate or time with as many digits as matter, and commas between thousands.
fn short(number: f64) -> String {
    if number < 10.0 {
        return format!("{number:.1}");
    }
    let digits = format!("{number:.0}");
    let mut parts: Vec<&str> =
        digits.as_bytes().rchunks(3).filter_map(|part| std::str::from_utf8(part).ok()).collect();
    parts.reverse();
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_have_commas_and_small_ones_a_digit_more() {
        let numbers = [4.96, 87.7, 999.4, 3_706.0, 1_234_567.0].map(short);
        assert_eq!(numbers, ["5.0", "88", "999", "3,706", "1,234,567"]);
    }

    #[test]
    fn an_axis_has_whole_decades_and_room_for_a_figure_below() {
        assert_eq!(decades([18.7, 607.7].into_iter()), 10.0..1_000.0);
        assert_eq!(decades([12.0, 90.0].into_iter()), 8.0..100.0);
    }

    #[test]
    fn every_figure_of_a_run_is_in_its_picture() {
        let run = r#"{"loads": [
            {"of_capacity": 0.5, "claims_per_s": 1853, "p50_ms": 29, "p99_ms": 88, "p999_ms": 134},
            {"of_capacity": 0.9, "claims_per_s": 3335, "p50_ms": 166, "p99_ms": 521, "p999_ms": 608}
        ], "thin_per_s": 541, "landed_per_s": 3706}"#;
        let run = Run::newest(run).unwrap();
        let answers = answers(&run).unwrap();
        let rates = super::rates(&run).unwrap().unwrap();
        for figure in ["50 % (1,853/s)", "29", "88", "134", "608", "p99.9", "3,706 claims/s"] {
            assert!(answers.contains(figure), "{figure}");
        }
        assert!(rates.contains("landed, one template: 3,706, 6.85 × thin transactions (541)"));
        assert!(!rates.contains("redis-benchmark"), "a figure that the run does not have");
    }
}
