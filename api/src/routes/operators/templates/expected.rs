//! Confirmations that a change requires: the version that an edit is based on, and the template's name for an end or a
//! cut.

use coupon::{AcceptedClaims, TemplateState};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    code::Code,
    http::{etag::IfMatch, schemas},
    problem::Problem,
    routes::{bodies::template_json, operators::templates::changed_meanwhile},
};

/// The version that an edit is meant for.
pub(crate) struct Expected {
    pub(crate) version: Option<i64>,
    pub(crate) if_match: IfMatch,
}

/// Request to change a template's state.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = StateChange, examples(json!({ "confirm": "A sale" })))]
pub(crate) struct StateRequest {
    /// The template's name, to confirm an `end`; or send `If-Match`. The other changes need neither.
    pub(crate) confirm: Option<String>,
    /// Whether queued claims that were accepted before a `pause` or an `end`, and have not landed yet, still land. Default:
    /// `land`.
    #[schema(value_type = Option<schemas::AcceptedClaims>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted: Option<String>,
}

impl StateRequest {
    /// Whether the request says nothing, as all did before there was a body.
    pub(crate) fn is_empty(&self) -> bool {
        self.confirm.is_none() && self.accepted.is_none()
    }

    /// Whether accepted claims are to be refused, which breaks the 202 that their users received.
    pub(crate) fn rejects_accepted(&self) -> bool {
        self.accepted.as_deref() == Some(AcceptedClaims::Reject.word())
    }

    /// Returns what becomes of accepted claims, if the request says so.
    pub(crate) fn accepted(&self, next: TemplateState) -> Result<Option<AcceptedClaims>, Problem> {
        let Some(word) = &self.accepted else { return Ok(None) };
        if !matches!(next, TemplateState::Paused | TemplateState::Ended) {
            let problem = "it goes with a pause or an end".to_owned();
            return Err(template_json::invalid("accepted", problem));
        }
        let accepted = AcceptedClaims::from_word(word);
        let unknown = || template_json::invalid("accepted", "use land or reject".to_owned());
        accepted.map(Some).ok_or_else(unknown)
    }
}

impl Expected {
    /// Requires a version, so that no operator undoes a change that they have not seen.
    pub(crate) fn is_said(&self) -> Result<(), Problem> {
        if self.version.is_some() || self.if_match.is_given() {
            return Ok(());
        }
        let detail = "Send `If-Match` with the template's `ETag`, or its `version` in the body.";
        Err(Problem::new(Code::PreconditionRequired, detail))
    }

    pub(crate) fn names(&self, version: i64) -> bool {
        let is_named = self.version == Some(version) || self.if_match.names(version);
        is_named && self.admits(version)
    }

    pub(crate) fn admits(&self, version: i64) -> bool {
        self.version.is_none_or(|expected| expected == version) && self.if_match.admits(version)
    }

    pub(crate) fn check(&self, version: i64) -> Result<(), Problem> {
        self.if_match.check(version)?;
        if self.admits(version) { Ok(()) } else { Err(changed_meanwhile(version)) }
    }
}

/// Requires the template's name or `If-Match`, for what cannot be undone: an end, a cut, and the end of a drain.
pub(crate) fn confirmed(
    name: &str,
    confirm: Option<&str>,
    if_match: &IfMatch,
) -> Result<(), Problem> {
    if confirm.map_or(if_match.is_given(), |confirm| confirm == name) {
        return Ok(());
    }
    let detail = if confirm.is_some() {
        "`confirm` is not the name of this template."
    } else {
        "Send `If-Match` with the template's `ETag`, or its name as `confirm` in the body."
    };
    Err(Problem::new(Code::ConfirmationRequired, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_of_accepted_claims_goes_with_a_pause_or_an_end() {
        let asks =
            |accepted: &str| StateRequest { confirm: None, accepted: Some(accepted.to_owned()) };
        for next in [TemplateState::Paused, TemplateState::Ended] {
            let said = asks("reject").accepted(next).unwrap();
            assert_eq!(said, Some(AcceptedClaims::Reject));
            assert!(asks("burn").accepted(next).is_err() && asks("").accepted(next).is_err());
        }
        assert!(asks("land").accepted(TemplateState::Published).is_err());
        assert!(asks("reject").rejects_accepted() && !asks("land").rejects_accepted());
        let silent = StateRequest { confirm: None, accepted: None };
        assert_eq!(silent.accepted(TemplateState::Published).unwrap(), None);
        assert_eq!(serde_json::to_string(&silent).unwrap(), r#"{"confirm":null}"#, "as before");
    }

    #[test]
    fn a_tag_or_the_very_name_confirms_and_another_name_never_does() {
        let tag = IfMatch::Versions(vec![2]);
        assert!(confirmed("A sale", None, &tag).is_ok());
        assert!(confirmed("A sale", None, &IfMatch::Any).is_ok());
        assert!(confirmed("A sale", Some("A sale"), &IfMatch::Absent).is_ok());
        assert!(confirmed("A sale", None, &IfMatch::Absent).is_err());
        for other in ["", "a sale", "A sale ", "Another"] {
            assert!(confirmed("A sale", Some(other), &IfMatch::Absent).is_err(), "{other:?}");
            assert!(confirmed("A sale", Some(other), &tag).is_err(), "{other:?}");
        }
    }
}
