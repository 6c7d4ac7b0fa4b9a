use std::io::Read as _;

use axum::body::Body;
use axum::http::Request;
use flate2::read::GzDecoder;
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::*;

#[tokio::main(flavor = "current_thread")]
async fn get_with(path: &str, tag: Option<&str>) -> (StatusCode, HeaderMap, String) {
    let mut request = Request::get(path);
    if let Some(tag) = tag {
        request = request.header(IF_NONE_MATCH, tag);
    }
    let request = request.body(Body::empty()).unwrap();
    let (head, body) = routes::<()>().oneshot(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head.status, head.headers, String::from_utf8(body.to_vec()).unwrap())
}

#[test]
fn each_file_is_served_as_what_it_is_under_the_policy() {
    for asset in ASSETS.iter() {
        let (status, headers, body) = get_with(&format!("/assets/{}", asset.name), None);
        assert_eq!(status, StatusCode::OK, "{}", asset.name);
        assert_eq!(headers[CONTENT_TYPE], asset.content_type);
        assert_eq!(headers[X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(body, asset.body);
        let policy = headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
    }
    assert_eq!(get_with("/", None).2, Asset::find("index.html").unwrap().body);
    assert_eq!(get_with("/assets/nothing.js", None).0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_file_is_compressed_for_a_client_that_takes_that() {
    let get = async |name: &str, encoding: &str| {
        let request = Request::get(format!("/assets/{name}")).header(ACCEPT_ENCODING, encoding);
        let answer = routes::<()>().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (head, body) = answer.into_parts();
        assert_eq!(head.headers[VARY], "accept-encoding");
        let coding = head.headers.get(CONTENT_ENCODING).cloned();
        (coding, body.collect().await.unwrap().to_bytes())
    };
    let (mut whole, mut compressed) = (0, 0);
    for asset in ASSETS.iter() {
        let (coding, body) = get(asset.name, "br, GZIP;q=0.5, *;q=0").await;
        assert_eq!(coding.unwrap(), "gzip");
        let mut text = String::new();
        GzDecoder::new(&body[..]).read_to_string(&mut text).unwrap();
        assert_eq!(text, asset.body);
        (whole, compressed) = (whole + text.len(), compressed + body.len());
    }
    assert!(2 * compressed < whole, "{compressed} of {whole}");
    for encoding in ["", "br", "identity", "gzip;q=0", "br, gzip; q=0.000"] {
        let (coding, body) = get("dom.js", encoding).await;
        assert_eq!((coding, &body[..]), (None, Asset::find("dom.js").unwrap().body.as_bytes()));
    }
}

#[test]
fn what_a_browser_has_is_not_sent_again() {
    let (_, headers, _) = get_with("/", None);
    let tag = headers[ETAG].to_str().unwrap();
    for known in [tag, &format!("W/{tag}"), &format!("\"old\", {tag}"), "*"] {
        let (status, headers, body) = get_with("/", Some(known));
        assert_eq!((status, body.as_str()), (StatusCode::NOT_MODIFIED, ""), "{known}");
        assert_eq!(headers[ETAG], tag);
        assert!(headers.contains_key(CONTENT_SECURITY_POLICY));
    }
    assert_eq!(get_with("/", Some("\"old\"")).0, StatusCode::OK);
}

#[test]
fn every_file_of_the_page_is_served() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/page");
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "policy.txt")
        .collect();
    names.sort();
    let mut served: Vec<_> = ASSETS.iter().map(|asset| asset.name).collect();
    served.sort_unstable();
    assert_eq!(names, served);
}

/// Addresses that stand in the page without being asked for.
const SPOKEN: [&str; 2] = ["http://www.w3.org/2000/svg", "https://…"];

#[test]
fn no_file_mentions_a_foreign_host_or_makes_markup_of_texts() {
    for asset in ASSETS.iter() {
        let body =
            SPOKEN.iter().fold(asset.body.to_owned(), |body, spoken| body.replace(spoken, ""));
        for word in ["http:", "https:", "\"//", "'//", "(//", "@import", "url("] {
            assert!(!body.contains(word), "{} has {word}", asset.name);
        }
        for word in
            ["innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "style="]
        {
            assert!(!body.contains(word), "{} has {word}", asset.name);
        }
    }
    let html = Asset::find("index.html").unwrap().body;
    assert!(!html.contains("<style"), "a style in the markup");
    assert_eq!(
        html.matches("<script").count(),
        html.matches("<script type=\"module\" src=").count()
    );
}
