//! Tests of pages: their ends, and their reads.

use tourbillon_durable::store::Memory;

use super::*;
use crate::config::Config;
use crate::service::Service;

#[test]
fn a_page_ends_by_its_items_or_its_bytes() {
    let mut few = PageBudget::new(2);
    assert_eq!(few.rows(), 3);
    few.take(1);
    assert!(!few.is_none());
    assert_eq!(few.rows(), 2);
    few.take(1);
    assert!(few.is_none());
    let mut large = PageBudget::new(1_000);
    (0..22).for_each(|_| large.take(47_000));
    assert!(!large.is_none());
    assert_eq!(large.rows(), 1);
    large.take(47_000);
    assert!(large.is_none());
    // Small ones are as many as were asked for.
    let mut small = PageBudget::new(1_000);
    assert_eq!(small.rows(), 17, "they may be large");
    small.take(500);
    assert_eq!(small.rows(), ROWS);
    (0..998).for_each(|_| small.take(500));
    assert!(!small.is_none());
    // Few of the next rows may be listed.
    small.pass(0);
    assert_eq!(small.rows(), ROWS);
    let mut none = PageBudget::new(1);
    (0..PAGE / PASSED).for_each(|_| none.pass(0));
    assert!(none.is_none());
    let mut passed = PageBudget::new(1);
    (0..170).for_each(|_| passed.pass(48 << 10));
    assert!(!passed.is_none());
    passed.pass(48 << 10);
    assert!(passed.is_none());
}

/// The stores' tests of plans have these queries.
#[tokio::test]
async fn those_of_a_state_are_asked_for_by_their_kind_and_all_by_their_names() {
    let timer = tourbillon::Timer::global();
    let store = Box::new(Memory::new(&timer));
    let service = Service::start(store, Config::default(), &timer).unwrap();
    let named = ScheduleQuery::new().prefix("a/row-").after("a/row-7");
    let of_kind = named.clone().kind("http.a");
    for (state, expected) in [
        (None, Some(named)),
        (Some(ScheduleState::Enabled), Some(of_kind.clone().enabled(true))),
        (Some(ScheduleState::Disabled), Some(of_kind.enabled(false))),
        (Some(ScheduleState::Pending), None),
    ] {
        let query = Query { prefix: Some("row-".to_owned()), state, ..Query::default() };
        let live = service.catalog.live("a", &query, Some("a/row-7".to_owned()));
        assert_eq!(live.schedules.and_then(|part| part.next), expected, "{state:?}");
    }
    service.stop().await;
}
