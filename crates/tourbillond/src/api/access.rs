//! Access: tokens and their permissions.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use tourbillon_durable::Time;

use super::problem::Problem;
use super::trail::Trail;
use crate::config::{App, Config, Scope, Token, hash};
use crate::metrics::used;
use crate::service::Service;

/// Permissions of a request's token.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    config: Arc<Config>,
    /// In all apps.
    admin: Option<Grant>,
    /// In some apps.
    apps: Vec<(String, Grant)>,
    /// Log in which changes that it permits are noted, if there is an audit log.
    trail: Option<Trail>,
}

/// Permission by a configured token. The greater of two has the wider scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Grant {
    scope: Scope,
    /// Name of the token; `None` in a service without tokens.
    name: Option<String>,
}

impl Access {
    /// Compares a token with all configured ones, in a time that does not depend on the match.
    fn of(config: Arc<Config>, headers: &HeaderMap) -> Result<Self, Problem> {
        if config.is_open() {
            let admin = Some(Grant { scope: Scope::Write, name: None });
            return Ok(Self { config, admin, apps: Vec::new(), trail: None });
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
            let grant = |token: &Token| Grant { scope: token.scope, name: Some(token.name()) };
            let fit = |token: &Token| token.is(&hash).then(|| grant(token));
            tokens.iter().map(fit).fold(None, Option::max)
        };
        let admin = best(&config.admin);
        let apps = config.apps.iter().map(|(name, app)| (name.clone(), best(&app.tokens)));
        let apps: Vec<_> = apps.collect();
        let apps: Vec<_> =
            apps.into_iter().filter_map(|(name, grant)| Some((name, grant?))).collect();
        if admin.is_none() && apps.is_empty() {
            return Err(unauthorized("the token is not valid; ask the operator for one"));
        }
        Ok(Self { config, admin, apps, trail: None })
    }

    fn grant(&self, app: &str) -> Option<&Grant> {
        let own = self.apps.iter().find(|(name, _)| name == app);
        self.admin.as_ref().max(own.map(|(_, grant)| grant))
    }

    /// The app, if the token lets do this in it.
    pub(crate) fn to(&self, app: &str, scope: Scope) -> Result<&App, Problem> {
        let forbidden = |why: &str| Err(Problem::new(StatusCode::FORBIDDEN, why));
        let Some(grant) = self.grant(app) else {
            return forbidden("the token does not permit access to this app");
        };
        if grant.scope < scope {
            return forbidden("the token permits reads only; use one with scope `write`");
        }
        let limits = self.config.apps.get(app).ok_or_else(|| Problem::not_found("app"))?;
        if let Some(trail) = self.trail.as_ref().filter(|_| scope == Scope::Write) {
            trail.permit(app, grant.name.as_deref()).map_err(|error| {
                let why = format!("{error}; nothing was changed");
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, why)
            })?;
        }
        Ok(limits)
    }

    /// Notes the key that the request changes, if its path does not name it.
    pub(crate) fn concern(&self, key: &str) {
        if let Some(trail) = &self.trail {
            trail.concern(key);
        }
    }

    /// Returns whether the token lets change the app.
    pub(crate) fn may_change(&self, app: &str) -> bool {
        self.grant(app).is_some_and(|grant| grant.scope == Scope::Write)
    }

    /// Fails unless the token lets see all apps.
    pub(crate) fn to_all(&self) -> Result<(), Problem> {
        match &self.admin {
            Some(_) => Ok(()),
            None => Err(Problem::new(
                StatusCode::FORBIDDEN,
                "the token does not permit access to all apps; use one of `admin.tokens`",
            )),
        }
    }

    /// The names of the tokens that permit it: one, unless the service has no tokens.
    fn names(&self) -> impl Iterator<Item = &str> {
        let grants = self.apps.iter().map(|(_, grant)| grant).chain(&self.admin);
        grants.filter_map(|grant| grant.name.as_deref())
    }

    /// The apps that the token lets see.
    pub(crate) fn seen(&self) -> impl Iterator<Item = (&String, &App)> {
        self.config.apps.iter().filter(|(name, _)| self.grant(name).is_some())
    }

    /// The configuration that the token was judged by.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// The same, to be kept.
    pub(super) fn into_config(self) -> Arc<Config> {
        self.config
    }
}

impl FromRequestParts<Arc<Service>> for Access {
    type Rejection = Problem;

    async fn from_request_parts(
        parts: &mut Parts,
        service: &Arc<Service>,
    ) -> Result<Self, Self::Rejection> {
        let access = Self::of(service.config(), &parts.headers)?;
        let now = Time::from(service.timer.wall_now()).as_micros();
        access.names().for_each(|name| used(name, now));
        Ok(Self { trail: parts.extensions.get().cloned(), ..access })
    }
}
