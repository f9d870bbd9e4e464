//! Bounds in which several features are switched on at once.

use super::Configuration;

/// Bounds that every test run explores.
pub const SMALL: &[Configuration] = &[];

/// Bounds that a soak explores.
pub const LARGE: &[Configuration] = &[];
