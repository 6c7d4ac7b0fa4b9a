//! JSON of XTimer: its timers, tasks, answers and queries.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use tourbillon_durable::TimerId;
use utoipa::{IntoParams, ToSchema};

use crate::api::{Problem, Refused};
use crate::catalog::Error;
use crate::model::{Run, RunState};

/// A timer, as XTimer has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub(crate) struct TimerDef {
    /// Number of the timer; missing in a new one.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) id: u64,
    /// App of the timer.
    pub(super) app: String,
    /// Name of the timer.
    pub(super) name: String,
    /// Creator of the timer.
    pub(super) creator: String,
    /// State of the timer: 1 if disabled, 2 if enabled.
    pub(super) status: u8,
    /// Cron expression of five fields; or six, the last being the year; or seven, the first being
    /// the second.
    pub(super) cron: String,
    /// Callback of the timer.
    #[serde(rename = "notifyHTTPParam")]
    pub(super) notify_http_param: Option<NotifyHttpParam>,
}

fn is_zero(id: &u64) -> bool {
    *id == 0
}

/// Callback, as XTimer has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub(crate) struct NotifyHttpParam {
    /// HTTP method of the callback.
    pub(super) method: String,
    /// URL to call back.
    pub(super) url: String,
    /// Headers of the callback, each with its lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) header: Option<BTreeMap<String, Vec<String>>>,
    /// Body of the callback.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) body: String,
}

/// Run, as XTimer has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Task {
    /// Number of the run.
    pub(super) id: u64,
    /// App of the timer.
    pub(super) app: String,
    /// Number of the timer.
    #[serde(rename = "timerID")]
    pub(super) timer_id: u64,
    /// Answer of the last attempt, or the reason of its failure.
    pub(super) output: String,
    /// Scheduled time, RFC 3339.
    #[serde(rename = "runTimer")]
    pub(super) run_timer: String,
    /// Time that the last attempt took, in milliseconds.
    #[serde(rename = "costTime")]
    pub(super) cost_time: u64,
    /// State of the run: 0 before, 1 while running, 2 after success, 3 after failure.
    pub(super) status: u8,
}

/// Any of XTimer's answers.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(crate) struct Answer<T> {
    /// Code of the answer: 0, or -1 for an error.
    pub(super) code: i32,
    /// Explanation of the error.
    pub(super) msg: String,
    /// An empty object for an error, and otherwise `null`.
    pub(super) err: Option<BTreeMap<String, String>>,
    /// Number of the timer that was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<u64>,
    /// Timer or items that were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<T>,
    /// Number of items on all pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) total: Option<u64>,
}

/// The number of a timer.
#[derive(Debug, Deserialize, IntoParams, ToSchema)]
#[into_params(parameter_in = Query)]
pub(crate) struct ById {
    /// Number of the timer.
    #[serde(deserialize_with = "number")]
    pub(super) id: u64,
}

/// Reads the number of a timer; none has zero.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    match u64::deserialize(deserializer)? {
        0 => Err(D::Error::custom("it is missing")),
        id => Ok(id),
    }
}

/// A page of an app's timers.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ByApp {
    /// Name of the app.
    pub(super) app: String,
    /// Number of the page, from 1.
    #[serde(rename = "pageIndex", default)]
    pub(super) page_index: i64,
    /// Length of the page: 10 by default, 100 at most.
    #[serde(rename = "pageSize", default)]
    pub(super) page_size: i64,
}

/// A page of a timer's records.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ByTimer {
    /// Number of the timer.
    #[serde(rename = "timerID", deserialize_with = "number")]
    pub(super) timer_id: u64,
    /// Number of the page, from 1.
    #[serde(rename = "pageIndex", default)]
    pub(super) page_index: i64,
    /// Length of the page: 10 by default, 100 at most.
    #[serde(rename = "pageSize", default)]
    pub(super) page_size: i64,
}

impl Task {
    /// Returns a run as XTimer shows it.
    pub(super) fn of(timer_id: u64, run: Run, app: &Option<String>) -> Self {
        let last = run.ended_attempts.last();
        let output = last.map(|last| match (&last.error, last.status) {
            (Some(error), _) => error.clone(),
            (None, Some(status)) => format!("{status} {}", last.answer),
            (None, None) => last.answer.clone(),
        });
        let bits = run.id.parse().map_or(0, |id: TimerId| id.bits());
        Self {
            // The range of JSON's numbers.
            id: bits as u64 >> 11,
            app: app.clone().unwrap_or(run.app),
            timer_id,
            output: output.or(run.reason).unwrap_or_default(),
            run_timer: run.scheduled_for,
            cost_time: last.map_or(0, |last| last.ms),
            status: match run.state {
                RunState::Running | RunState::Waiting => 1,
                RunState::Succeeded => 2,
                RunState::Dead => 3,
                RunState::Pending | RunState::Skipped | RunState::Cancelled => 0,
            },
        }
    }
}

/// An error, in XTimer's JSON.
pub(crate) struct Failure(Problem);

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Failure {
    /// With XTimer's status: 200 if it found a fault in the request; its clients read the code.
    fn into_response(self) -> Response {
        let Self(problem) = self;
        let msg = match &problem.errors[..] {
            [] => problem.detail.clone(),
            all => {
                let all = all.iter().map(|error| format!("{}: {}", error.field, error.detail));
                all.collect::<Vec<_>>().join("; ")
            }
        };
        let answer =
            Answer::<u64> { code: -1, msg, err: Some(BTreeMap::new()), ..Answer::default() };
        let status = match StatusCode::from_u16(problem.status) {
            Ok(StatusCode::NOT_FOUND | StatusCode::CONFLICT) => {
                let mut response = axum::Json(answer).into_response();
                response.extensions_mut().insert(Refused);
                return response;
            }
            Ok(StatusCode::UNPROCESSABLE_ENTITY) => StatusCode::BAD_REQUEST,
            _ => {
                let (parts, _) = problem.into_response().into_parts();
                let mut response = (parts.status, axum::Json(answer)).into_response();
                for (name, value) in &parts.headers {
                    if name != axum::http::header::CONTENT_TYPE {
                        response.headers_mut().insert(name, value.clone());
                    }
                }
                return response;
            }
        };
        (status, axum::Json(answer)).into_response()
    }
}
