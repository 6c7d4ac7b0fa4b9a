//! Access: tokens, and what they permit.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};

use super::problem::Problem;
use crate::config::{App, Config, Scope, Token, hash};
use crate::service::Service;

/// Permissions of a request's token.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    config: Arc<Config>,
    /// In all apps.
    admin: Option<Scope>,
    /// In some apps.
    apps: Vec<(String, Scope)>,
}

impl Access {
    /// Compares a token with all that are configured, in a time that does not depend on which it
    /// is.
    fn of(config: Arc<Config>, headers: &HeaderMap) -> Result<Self, Problem> {
        if config.is_open() {
            return Ok(Self { config, admin: Some(Scope::Write), apps: Vec::new() });
        }
        let unauthorized = |why: &str| Problem::new(StatusCode::UNAUTHORIZED, why);
        let sent = headers.get(header::AUTHORIZATION);
        let sent = sent.ok_or_else(|| {
            unauthorized("the request has no token; send `Authorization: Bearer TOKEN`")
        })?;
        let token = sent.to_str().ok().and_then(|sent| sent.split_once(' '));
        let (_, token) =
            token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).ok_or_else(|| {
                unauthorized(
                    "the header `Authorization` is malformed; send `Authorization: Bearer TOKEN`",
                )
            })?;
        let hash = hash(token.trim());
        let best = |tokens: &[Token]| {
            let fit = |token: &Token| token.is(&hash).then_some(token.scope);
            tokens.iter().map(fit).fold(None, Option::max)
        };
        let admin = best(&config.admin);
        let apps = config.apps.iter().map(|(name, app)| (name.clone(), best(&app.tokens)));
        let apps: Vec<_> = apps.collect();
        let apps: Vec<_> =
            apps.into_iter().filter_map(|(name, scope)| Some((name, scope?))).collect();
        if admin.is_none() && apps.is_empty() {
            return Err(unauthorized("the token is not valid; ask the operator for one"));
        }
        Ok(Self { config, admin, apps })
    }

    fn scope(&self, app: &str) -> Option<Scope> {
        let own = self.apps.iter().find(|(name, _)| name == app);
        self.admin.max(own.map(|(_, scope)| *scope))
    }

    /// The app, if the token lets do this in it.
    pub(crate) fn to(&self, app: &str, scope: Scope) -> Result<&App, Problem> {
        let forbidden = |why: &str| Err(Problem::new(StatusCode::FORBIDDEN, why));
        match self.scope(app) {
            None => forbidden("the token does not permit access to this app"),
            Some(own) if own < scope => {
                forbidden("the token permits reads only; use one with scope `write`")
            }
            Some(_) => self.config.apps.get(app).ok_or_else(|| Problem::not_found("app")),
        }
    }

    /// Fails unless the token lets see all apps.
    pub(crate) fn to_all(&self) -> Result<(), Problem> {
        match self.admin {
            Some(_) => Ok(()),
            None => Err(Problem::new(
                StatusCode::FORBIDDEN,
                "the token does not permit access to all apps; use one of `admin.tokens`",
            )),
        }
    }

    /// The apps that the token lets see.
    pub(crate) fn seen(&self) -> impl Iterator<Item = (&String, &App)> {
        self.config.apps.iter().filter(|(name, _)| self.scope(name).is_some())
    }

    /// The configuration that the token was judged by.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }
}

impl FromRequestParts<Arc<Service>> for Access {
    type Rejection = Problem;

    async fn from_request_parts(
        parts: &mut Parts,
        service: &Arc<Service>,
    ) -> Result<Self, Self::Rejection> {
        Self::of(service.config(), &parts.headers)
    }
}
