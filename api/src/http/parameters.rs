//! The query parameters that each route takes, from the document. Any other is refused: a misspelt filter would select
//! everything.

use std::collections::HashMap;

use axum::{
    extract::{MatchedPath, Query},
    http::{Method, Request},
};
use utoipa::openapi::{
    OpenApi, RefOr,
    path::{Operation, ParameterIn},
};

use crate::{code::Code, problem::Problem};

/// Most characters of an unknown name that are repeated to the client.
const NAME_CHARS_SHOWN: usize = 40;

/// The names of the query parameters of every operation, by path.
#[derive(Default)]
pub(crate) struct KnownParameters(HashMap<String, Vec<(Method, Vec<String>)>>);

impl KnownParameters {
    /// Reads the names from the descriptions of the operations.
    pub(crate) fn of(document: &OpenApi) -> Self {
        let routes = document.paths.paths.iter().map(|(path, item)| {
            let operations = [
                (Method::GET, &item.get),
                (Method::POST, &item.post),
                (Method::PUT, &item.put),
                (Method::PATCH, &item.patch),
                (Method::DELETE, &item.delete),
            ];
            let known = operations
                .into_iter()
                .filter_map(|(method, operation)| Some((method, names(operation.as_ref()?))));
            (path.clone(), known.collect())
        });
        Self(routes.collect())
    }

    /// Rejects a request with a query parameter that its route does not take. Requests that match no operation pass.
    pub(crate) fn check<B>(&self, request: &Request<B>) -> Result<(), Problem> {
        let uri = request.uri();
        if uri.query().is_none_or(str::is_empty) {
            return Ok(());
        }
        let path = request.extensions().get::<MatchedPath>();
        let Some(operations) = path.and_then(|path| self.0.get(path.as_str())) else {
            return Ok(());
        };
        let sent_by = request.method();
        let is = |own: &Method| own == sent_by || (*own == Method::GET && *sent_by == Method::HEAD);
        let Some((_, known)) = operations.iter().find(|(own, _)| is(own)) else {
            return Ok(());
        };
        // A query that cannot be parsed is refused by the handler's extractor.
        let Ok(Query(sent)) = Query::<Vec<(String, String)>>::try_from_uri(uri) else {
            return Ok(());
        };
        let unknown = sent.into_iter().find(|(name, _)| !known.contains(name));
        unknown.map_or(Ok(()), |(name, _)| Err(refused(&name, known)))
    }
}

/// Returns the names of an operation's query parameters, in the order of its description.
fn names(operation: &Operation) -> Vec<String> {
    let parameters = operation.parameters.iter().flatten();
    let of_query = parameters.filter_map(|parameter| match parameter {
        RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query => {
            Some(parameter.name.clone())
        }
        RefOr::T(_) | RefOr::Ref(_) => None,
    });
    of_query.collect()
}

fn refused(name: &str, known: &[String]) -> Problem {
    let name: String = name.chars().take(NAME_CHARS_SHOWN).collect();
    let there_are = if known.is_empty() {
        "this route takes none".to_owned()
    } else {
        format!("this route takes {}", known.join(", "))
    };
    let detail = format!("The query string: there is no parameter `{name}`; {there_are}.");
    Problem::new(Code::MalformedQuery, detail).with("parameter", name).with("known", known.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::operations;

    fn known(path: &str, method: &Method) -> Vec<String> {
        let all = KnownParameters::of(&operations().into_openapi());
        let operations = all.0.get(path).unwrap_or_else(|| panic!("{path} is no route"));
        operations.iter().find(|(own, _)| own == method).unwrap().1.clone()
    }

    #[test]
    fn each_operation_knows_the_parameters_of_its_description_and_no_others() {
        assert_eq!(known("/v1/me/coupons", &Method::GET), ["status", "limit", "cursor", "after"]);
        assert!(known("/v1/audit", &Method::GET).contains(&"target".to_owned()));
        assert!(known("/v1/templates", &Method::POST).is_empty());
        assert!(known("/v1/templates", &Method::GET).contains(&"state".to_owned()));
    }
}
