//! Tests of pages: their ends, and their reads.

use std::sync::{Arc, Mutex};

use tourbillon_durable::Store;
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

/// A store that notes the queries of schedules.
struct Noted(Memory, Arc<Mutex<Vec<ScheduleQuery>>>);

type Answer<T> = tourbillon_durable::store::Result<T>;

impl Noted {
    fn pass<T>(
        &mut self,
        _name: &'static str,
        work: impl FnOnce(&mut dyn Store) -> Answer<T>,
    ) -> Answer<T> {
        work(&mut self.0)
    }
}

impl tourbillon_durable::store::calls::Sealed for Noted {}

impl Store for Noted {
    fn connect(&self) -> Answer<Box<dyn Store>> {
        Ok(Box::new(Self(self.0.clone(), self.1.clone())))
    }

    fn schedules(&mut self, query: &ScheduleQuery) -> Answer<Vec<ScheduleRow>> {
        self.1.lock().unwrap().push(query.clone());
        self.0.schedules(query)
    }

    tourbillon_durable::forward! { self.pass;
        now join beat leave maintain nodes insert scan held claim finish cancel reschedule
        amend confirm find timers schedule upcoming zoned rezone change advance insert_occurrence
        records backfill overview prune named promote
    }
}

/// The stores' tests of plans have these queries.
#[tokio::test]
async fn those_of_a_state_are_asked_for_by_their_kind_and_all_by_their_names() {
    let (timer, seen) = (tourbillon::Timer::global(), Arc::default());
    let store = Box::new(Noted(Memory::new(&timer), Arc::clone(&seen)));
    let service = Service::start(store, Config::default(), &timer).unwrap();
    let named = ScheduleQuery::new().prefix("a/row-").after("a/row-7");
    let of_kind = named.clone().kind("http.a");
    for (state, expected) in [
        (None, vec![named]),
        (Some(ScheduleState::Enabled), vec![of_kind.clone().enabled(true)]),
        (Some(ScheduleState::Disabled), vec![of_kind.enabled(false)]),
        (Some(ScheduleState::Pending), vec![]),
    ] {
        let query = Query {
            prefix: Some("row-".to_owned()),
            state,
            kind: None,
            search: None,
            label: None,
            last_runs: 0,
            count: false,
            limit: 100,
            cursor: Some("row-7".to_owned()),
        };
        service.catalog.list("a", query).await.unwrap();
        let mut asked = std::mem::take(&mut *seen.lock().unwrap());
        // How many rows are read at a time is no matter here.
        asked.iter_mut().for_each(|query| query.limit = ScheduleQuery::new().limit);
        assert_eq!(asked, expected, "{state:?}");
    }
    service.stop().await;
}
