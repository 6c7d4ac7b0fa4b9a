use std::collections::BTreeSet;

use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::Value;

use super::Api;

const METHODS: [Method; 5] =
    [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

/// Every path of the document, and its methods.
fn described(document: &Value) -> BTreeSet<(String, Method)> {
    let paths = document["paths"].as_object().unwrap();
    let methods = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().keys();
        methods.map(|method| (path.clone(), method.to_uppercase().parse().unwrap()))
    });
    methods.collect()
}

#[tokio::test]
async fn every_route_is_described_and_everything_described_is_routed() {
    let api = Api::new();
    let document = api.get("/v1/openapi.json").await.expect(200);
    let described = described(&document);
    let paths: BTreeSet<_> = described.iter().map(|(path, _)| path.clone()).collect();
    assert!(paths.len() > 20, "{paths:?}");
    for path in &paths {
        for method in METHODS {
            let uri = path.replace("{app}", "default").replace("{key}", "k").replace("{id}", "7");
            let uri = uri.replace("{attempt}", "1");
            // Live never ends, and is not waited for.
            let request = Request::builder().method(&method).uri(uri).body(Body::empty()).unwrap();
            let answer = tower::ServiceExt::oneshot(api.router.clone(), request).await.unwrap();
            let is_routed = answer.status() != 405;
            let is_described = described.contains(&(path.clone(), method.clone()));
            assert_eq!(is_routed, is_described, "{method} {path}");
        }
    }
}

/// The routes that the project promises. By the test above, routes missing in the document do not
/// exist, so that this is the list of both.
#[tokio::test]
async fn the_document_has_what_was_promised() {
    let document = Api::new().get("/v1/openapi.json").await.expect(200);
    let described = described(&document);
    let promised = [
        "GET /v1/apps",
        "POST /v1/apps/{app}/schedules",
        "GET /v1/apps/{app}/schedules",
        "GET /v1/apps/{app}/schedules/{key}",
        "PUT /v1/apps/{app}/schedules/{key}",
        "DELETE /v1/apps/{app}/schedules/{key}",
        "POST /v1/apps/{app}/schedules/{key}/enable",
        "POST /v1/apps/{app}/schedules/{key}/disable",
        "POST /v1/apps/{app}/schedules/{key}/run-now",
        "POST /v1/apps/{app}/schedules/{key}/pause",
        "POST /v1/apps/{app}/schedules/{key}/backfill",
        "GET /v1/apps/{app}/schedules/{key}/preview",
        "POST /v1/preview",
        "GET /v1/apps/{app}/runs",
        "GET /v1/apps/{app}/runs/{id}",
        "POST /v1/apps/{app}/runs/{id}/retry",
        "POST /v1/apps/{app}/runs/{id}/attempts/{attempt}/completion",
        "GET /v1/apps/{app}/history",
        "POST /v1/apps/{app}/test",
        "GET /v1/overview",
        "GET /v1/live",
        "GET /v1/openapi.json",
        "GET /metrics",
        "GET /healthz",
        "GET /readyz",
        "GET /api/timer/v1/def",
        "POST /api/timer/v1/def",
        "PATCH /api/timer/v1/def",
        "DELETE /api/timer/v1/def",
        "GET /api/timer/v1/defs",
        "POST /api/timer/v1/enable",
        "POST /api/timer/v1/unable",
        "GET /api/task/v1/records",
    ];
    let promised = promised.iter().map(|line| {
        let (method, path) = line.split_once(' ').unwrap();
        (path.to_owned(), method.parse().unwrap())
    });
    assert_eq!(described, promised.collect());
}

#[test]
fn every_reference_of_the_document_leads_somewhere() {
    let document = serde_json::to_value(tourbillond::routes::document()).unwrap();
    let text = document.to_string();
    let references = text.split("\"$ref\":\"#").skip(1);
    let mut count = 0;
    for reference in references.map(|rest| rest.split('"').next().unwrap()) {
        assert!(document.pointer(reference).is_some(), "{reference}");
        count += 1;
    }
    assert!(count > 30);
}

#[test]
fn every_operation_has_a_name_of_its_own_and_errors_are_problems() {
    let document = serde_json::to_value(tourbillond::routes::document()).unwrap();
    assert_eq!(document["servers"][0]["url"], "/");
    let mut names = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name), "{method} {path}: {name}");
            for (status, response) in operation["responses"].as_object().unwrap() {
                let text = response["content"].to_string();
                let is_problem = text.contains("#/components/schemas/Problem\"");
                let says = !response["content"]["application/problem+json"].is_null();
                assert_eq!(is_problem, says, "{method} {path} {status}: {text}");
            }
        }
    }
    assert!(names.len() > 25, "{names:?}");
}
