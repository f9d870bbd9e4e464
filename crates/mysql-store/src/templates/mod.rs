//! Templates, their stock and their edits.

pub mod stock;
pub mod template;
pub mod template_edit;
pub mod validity_move;
