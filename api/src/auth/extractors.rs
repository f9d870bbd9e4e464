//! Who calls: the extractors of handlers.

use std::sync::Arc;

use axum::{
    extract::{FromRef, FromRequestParts},
    http::{header, request::Parts},
};
use coupon::Scope;

use crate::{
    auth::{
        API_KEY, AnyOperator, Auth, KeyHolder, OnCall, Operator, RecentOperator, Redeemer,
        SignedIn, User, UserOrShop, cookie, key_cache::KeyAge,
    },
    code::Code,
    problem::Problem,
};

impl<S: Send + Sync> FromRequestParts<S> for User
where
    Arc<Auth>: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        Arc::<Auth>::from_ref(state).user(parts).await
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AnyOperator
where
    Arc<Auth>: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        Arc::<Auth>::from_ref(state).operator(parts, KeyAge::Fresh).await.map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for OnCall
where
    Arc<Auth>: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let operator = Arc::<Auth>::from_ref(state).operator(parts, KeyAge::Recent).await?;
        operator.needs_on_call()?;
        Ok(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for RecentOperator
where
    Arc<Auth>: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let auth = Arc::<Auth>::from_ref(state);
        match auth.operator(parts, KeyAge::Fresh).await {
            Ok(operator) => Ok(Self { operator, unread: None }),
            Err(unread) if unread.code() == Code::StoreUnavailable => {
                match auth.operator(parts, KeyAge::Remembered).await {
                    Ok(operator) => Ok(Self { operator, unread: Some(unread) }),
                    Err(_) => Err(unread),
                }
            }
            Err(refused) => Err(refused),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for KeyHolder
where
    Arc<Auth>: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        Arc::<Auth>::from_ref(state).key_holder(parts).await.map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for SignedIn
where
    Arc<Auth>: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        Arc::<Auth>::from_ref(state).signed_in(parts).await
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Redeemer
where
    Arc<Auth>: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let operator = Arc::<Auth>::from_ref(state).operator(parts, KeyAge::Fresh).await?;
        operator.needs(Scope::Redeem)?;
        Ok(Self(operator))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for UserOrShop
where
    Arc<Auth>: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let by_session = !parts.headers.contains_key(header::AUTHORIZATION)
            && cookie::session(&parts.headers).is_some();
        if by_session || parts.headers.contains_key(&API_KEY) {
            let Redeemer(shop) = Redeemer::from_request_parts(parts, state).await?;
            return Ok(Self::Shop(shop));
        }
        let User(user) = User::from_request_parts(parts, state).await?;
        Ok(Self::User(user))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Operator
where
    Arc<Auth>: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let operator = Arc::<Auth>::from_ref(state).operator(parts, KeyAge::Fresh).await?;
        let looks = parts.method.is_safe();
        operator.needs(if looks { Scope::Read } else { Scope::Operate })?;
        Ok(operator)
    }
}
