use super::*;
use crate::model::Page;

fn entry(app: &str, key: &str, token: &str) -> AuditEntry {
    AuditEntry {
        at: "2030-01-01T00:00:00Z".to_owned(),
        node: "n".to_owned(),
        token: Some(token.to_owned()),
        app: app.to_owned(),
        key: Some(key.to_owned()),
        run: None,
        action: "put_schedule".to_owned(),
        status: Some(200),
    }
}

fn query(limit: usize) -> AuditQuery {
    AuditQuery { apps: vec!["a".to_owned()], limit, ..AuditQuery::default() }
}

fn keys(page: &Page<AuditEntry>) -> Vec<&str> {
    page.items.iter().filter_map(|entry| entry.key.as_deref()).collect()
}

#[tokio::test]
async fn entries_are_listed_newest_first_in_pages_and_by_what_they_have() {
    let folder = tempfile::tempdir().unwrap();
    let audit = Audit::open(&folder.path().join("audit.jsonl")).unwrap();
    // More than one block.
    for number in 0..1_000 {
        let (key, token) = (format!("k{number}"), if number % 2 == 0 { "even" } else { "odd" });
        drop(audit.append_later(&entry("a", &key, token)));
        drop(audit.append_later(&entry("b", &key, token)));
    }
    audit.flush().await.unwrap();
    assert!(std::fs::metadata(&audit.path).unwrap().len() > 3 * 65_536);
    let (mut all, mut asked) = (Vec::new(), query(300));
    loop {
        let page = audit.read(&asked).unwrap().unwrap();
        all.extend(page.items);
        asked.cursor = page.next;
        if asked.cursor.is_none() {
            break;
        }
    }
    let wanted: Vec<_> = (0..1_000).rev().map(|number| Some(format!("k{number}"))).collect();
    assert_eq!(all.iter().map(|entry| entry.key.clone()).collect::<Vec<_>>(), wanted);
    assert!(all.iter().all(|entry| entry.app == "a"));
    let one = AuditQuery { key: Some("k7".to_owned()), ..query(10) };
    assert_eq!(keys(&audit.read(&one).unwrap().unwrap()), ["k7"]);
    let odd = AuditQuery { token: Some("odd".to_owned()), ..query(2) };
    assert_eq!(keys(&audit.read(&odd).unwrap().unwrap()), ["k999", "k997"]);
    let none = AuditQuery { apps: Vec::new(), ..query(2) };
    assert_eq!(keys(&audit.read(&none).unwrap().unwrap()), [""; 0]);
}

#[tokio::test]
async fn a_file_that_is_moved_away_is_followed_by_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let audit = Audit::open(&path).unwrap();
    audit.append(&entry("a", "old", "t")).await.unwrap();
    audit.append(&entry("a", "older", "t")).await.unwrap();
    let cursor = audit.read(&query(1)).unwrap().unwrap().next;
    assert!(cursor.is_some());
    std::fs::rename(&path, folder.path().join("audit.1")).unwrap();
    assert_eq!(keys(&audit.read(&query(9)).unwrap().unwrap()), [""; 0]);
    audit.append(&entry("a", "new", "t")).await.unwrap();
    assert_eq!(keys(&audit.read(&query(9)).unwrap().unwrap()), ["new"]);
    assert_eq!(audit.read(&AuditQuery { cursor, ..query(1) }).unwrap(), None);
}

#[tokio::test]
async fn what_cannot_be_written_stops_changes_and_is_written_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sub").join("audit.jsonl");
    assert!(Audit::open(&path).is_err(), "there is no folder");
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    let audit = Audit::open(&path).unwrap();
    audit.check().await.unwrap();
    std::fs::remove_dir_all(folder.path().join("sub")).unwrap();
    audit.append(&entry("a", "first", "t")).await.unwrap_err();
    audit.check().await.unwrap_err();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    audit.check().await.unwrap();
    audit.append(&entry("a", "second", "t")).await.unwrap();
    assert_eq!(keys(&audit.read(&query(9)).unwrap().unwrap()), ["second", "first"]);
}

#[tokio::test]
async fn lines_that_are_no_entry_are_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let audit = Audit::open(&path).unwrap();
    audit.append(&entry("a", "first", "t")).await.unwrap();
    append(&path, b"{\"at\":\"2030\n\n").unwrap();
    audit.append(&entry("a", "second", "t")).await.unwrap();
    append(&path, b"{\"at\":").unwrap();
    assert_eq!(keys(&audit.read(&query(9)).unwrap().unwrap()), ["second", "first"]);
    // Longer than what a page reads.
    append(&path, &vec![b'x'; 5 << 20]).unwrap();
    let mut asked = query(9);
    let mut found = Vec::new();
    loop {
        let page = audit.read(&asked).unwrap().unwrap();
        found.extend(page.items);
        asked.cursor = page.next;
        if asked.cursor.is_none() {
            break;
        }
    }
    assert_eq!(found.len(), 2);
}
