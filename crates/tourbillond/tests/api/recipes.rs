//! The service takes all that `docs/RECIPES.md` has.

use std::path::PathBuf;

use serde_json::Value;
use tourbillond::config::{Flags, load};
use tourbillond::dispatch;

use super::{Api, SCHEDULES};

/// The blocks of the document in a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let document = include_str!("../../docs/RECIPES.md");
    let blocks = document.split("```").skip(1).step_by(2);
    blocks.filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n')).collect()
}

#[tokio::test]
async fn configurations_and_schedules_of_the_recipes_are_taken() {
    let folder = tempfile::tempdir().unwrap();
    let load = |text: &str| {
        let file: PathBuf = folder.path().join("config.toml");
        std::fs::write(&file, text).unwrap();
        let flags = Flags { config: Some(file), ..Flags::default() };
        let (_, config) = load(&flags).unwrap_or_else(|why| panic!("{text}: {why}"));
        dispatch::check_all(&config).unwrap_or_else(|why| panic!("{text}: {why}"));
        config
    };
    let configurations = blocks("toml");
    for text in &configurations {
        let config = load(text);
        // Its names are replaced within strings.
        if let Some(body) = config.apps["default"].notify.as_ref().and_then(|it| it.body.clone()) {
            serde_json::from_str::<Value>(&body).unwrap_or_else(|why| panic!("{body}: {why}"));
        }
    }
    let github = configurations.iter().find(|text| text.contains("github")).unwrap();
    let api = Api::of(load(github));
    let schedules = blocks("json");
    assert_eq!((configurations.len(), schedules.len()), (7, 1));
    for schedule in schedules {
        let schedule = serde_json::from_str::<Value>(schedule).unwrap();
        let body = schedule["callback"]["body"].as_str().unwrap();
        serde_json::from_str::<Value>(body).unwrap();
        api.post(SCHEDULES, schedule).await.expect(201);
    }
}
