//! Calls about many gates: split by server, sent to all servers at once, and put back in order.

pub(crate) mod presence;
mod reach;
mod sold_out;

use std::{collections::BTreeMap, sync::Arc};

use coupon::TemplateId;

pub use self::{
    presence::{CheckedGate, KeyFault, QuietGate},
    reach::Reach,
    sold_out::{SoldOutGate, SoldOutLook},
};
use crate::{
    Gate, GateError,
    connection::{Live, Server},
};

/// One answer for each item. A server that fails costs the answers about its own gates.
pub(crate) type Answers<R> = Vec<Result<R, GateError>>;

/// The items whose gates are on one server.
pub(crate) struct Part<'a, T> {
    server: Arc<Server>,
    /// Place of each item among all.
    places: Vec<usize>,
    pub(crate) items: Vec<&'a T>,
}

impl Gate {
    /// Splits items by the server of their template's gate.
    pub(crate) fn parts<'a, T>(
        &self,
        items: &'a [T],
        template_of: impl Fn(&T) -> TemplateId,
    ) -> Vec<Part<'a, T>> {
        let mut parts = BTreeMap::new();
        for (place, item) in items.iter().enumerate() {
            let Some(node) = self.server_of(template_of(item)) else { continue };
            let part = parts.entry(node).or_insert_with_key(|node| Part {
                server: self.redis.server(node),
                places: Vec::new(),
                items: Vec::new(),
            });
            part.places.push(place);
            part.items.push(item);
        }
        parts.into_values().collect()
    }
}

impl<T> Part<'_, T> {
    pub(crate) async fn live(&self) -> Result<Live, GateError> {
        self.server.live().await
    }

    /// Returns the answers to this part, each with its place. An error is the answer to every item.
    pub(crate) fn answered<R>(
        self,
        answers: Result<Answers<R>, GateError>,
    ) -> Vec<(usize, Result<R, GateError>)> {
        match answers {
            Ok(answers) => self.places.into_iter().zip(answers).collect(),
            Err(error) => {
                self.places.into_iter().map(|place| (place, Err(error.clone()))).collect()
            }
        }
    }
}

/// Returns the answers to `count` items, in the order of the items. An item without an answer is on no server.
pub(crate) fn in_order<R>(
    count: usize,
    answered: Vec<Vec<(usize, Result<R, GateError>)>>,
) -> Answers<R> {
    let mut answers = Vec::new();
    answers.resize_with(count, || Err(GateError::Unreachable { source: None }));
    for (place, answer) in answered.into_iter().flatten() {
        answers[place] = answer;
    }
    answers
}
