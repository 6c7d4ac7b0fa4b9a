//! Reads for observers: the newest records of names, names by a text, and counts by time.

use std::time::Duration;

use super::{Bench, LONG, MOMENT, Rig, done};
use crate::id::TimerId;
use crate::record::{Outcome, Reason};
use crate::store::{End, Hits, How, NameState, NewTimer, Search, TallyOf};
use crate::time::Time;

fn dead(detail: &str) -> How {
    How::Done(Outcome::Dead, Some(Reason::Failed), detail.to_owned())
}

pub(super) fn the_newest_records_of_each_name_are_read_together(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let mut of = Vec::new();
    for (number, name) in ["one", "two", "one", "one", "other"].into_iter().enumerate() {
        let how = if number == 2 { dead("rain") } else { done() };
        of.push(bench.ended("mail", Some(name), how));
    }
    let names = ["two", "none", "one"];
    let found = bench.store.latest_records(&names, 2).unwrap();
    let ids: Vec<Vec<TimerId>> =
        found.iter().map(|of| of.iter().map(|record| record.timer).collect()).collect();
    assert_eq!(ids, [vec![of[1].1], vec![], vec![of[3].1, of[2].1]]);
    let all = bench.store.latest_records(&["one"], 20).unwrap();
    assert_eq!(
        all[0].iter().map(|record| record.timer).collect::<Vec<_>>(),
        [3, 2, 0].map(|n| of[n].1)
    );
    let (failed, record) = (&all[0][1], bench.records().swap_remove(2));
    assert_eq!((failed.timer, failed.outcome), (record.timer, Outcome::Dead));
    assert_eq!((failed.reason, &*failed.detail), (Some(Reason::Failed), "rain"));
    assert_eq!((failed.scheduled_for, failed.recorded), (record.scheduled_for, of[2].0));
    assert_eq!(bench.store.latest_records(&["one"], 0).unwrap(), [vec![]]);
    assert_eq!(bench.store.latest_records(&[], 20).unwrap(), [[]; 0]);
}

/// Three schedules, and a timer in each of its states.
fn fill(bench: &mut Bench<'_>) {
    for (name, enabled) in [("a/Mail-1", true), ("a/bill", true), ("a/mail-3", false)] {
        bench.switched(name, enabled);
    }
    bench.switched("b/mail", true);
    let timer = |bench: &mut Bench<'_>, name: &str, ahead| NewTimer {
        name: Some(name.to_owned()),
        ..bench.timer(ahead)
    };
    let runs = timer(bench, "a/eMAIL", Duration::ZERO);
    let waits = timer(bench, "a/mail-2", LONG);
    let held = timer(bench, "a/mail-0", LONG);
    let held = NewTimer { scheduled_for: Time::NEVER, due: Time::NEVER, ..held };
    bench.store.insert(&[runs.clone(), waits, held]).unwrap();
    bench.pass(MOMENT);
    bench.claim(runs.id).unwrap();
}

fn found(bench: &mut Bench<'_>, search: &Search) -> Vec<String> {
    let Hits { names, count, rest } = bench.store.search(search).unwrap();
    assert_eq!((count.count, count.is_cut, rest), (names.len() as u64, false, None));
    names
}

pub(super) fn names_are_found_by_a_text_and_a_state(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    fill(&mut bench);
    let all = Search::new("a/");
    let names = ["a/Mail-1", "a/bill", "a/eMAIL", "a/mail-0", "a/mail-2", "a/mail-3"];
    assert_eq!(found(&mut bench, &all), names);
    let mail = all.clone().contains(2, "MaIl");
    assert_eq!(found(&mut bench, &mail), [0, 2, 3, 4, 5].map(|n| names[n]));
    // The prefix is not searched, and a text has no wildcards.
    for text in ["a/", "mail_1", "mail%", "mail-11"] {
        assert_eq!(found(&mut bench, &all.clone().contains(2, text)), [""; 0], "{text}");
    }
    assert_eq!(found(&mut bench, &all.clone().contains(0, "a/m")), [0, 3, 4, 5].map(|n| names[n]));
    assert_eq!(found(&mut bench, &mail.clone().after("a/eMAIL")), names[3..]);
    assert_eq!(found(&mut bench, &Search::new("a/mail").contains(2, "3")), names[5..]);
    for (state, expected) in NameState::ALL.into_iter().zip([
        &names[..2],
        &names[5..],
        &names[4..5],
        &names[3..4],
        &names[2..3],
    ]) {
        assert_eq!(found(&mut bench, &all.clone().states(&[state])), expected, "{state:?}");
    }
    assert_eq!(found(&mut bench, &all.states(&[])), [""; 0]);
}

pub(super) fn a_search_stops_and_continues(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    fill(&mut bench);
    let mail = Search::new("a/").contains(2, "mail");
    let expected = ["a/Mail-1", "a/eMAIL", "a/mail-0", "a/mail-2", "a/mail-3"];
    for most in 1..6 {
        for limit in 1..4 {
            let mut search = mail.clone().most(most).limit(limit);
            let mut names = Vec::new();
            for round in 0.. {
                assert!(round < 20, "{most} {limit}");
                let hits = bench.store.search(&search).unwrap();
                assert!(hits.names.len() <= limit as usize);
                names.extend(hits.names);
                let Some(rest) = hits.rest else { break };
                assert!(search.after.as_ref() < Some(&rest));
                search = search.after(rest);
            }
            assert_eq!(names, expected, "{most} {limit}");
        }
    }
    // A search that returns nothing has said where all that fits begins.
    for nothing in [mail.clone().limit(0), mail.clone().most(0)] {
        for after in [None, Some("a/eMAIL")] {
            let search = Search { after: after.map(str::to_owned), ..nothing.clone() };
            let hits = bench.store.search(&search).unwrap();
            assert_eq!(hits.names, [""; 0]);
            let rest = hits.rest.expect("names fit");
            let left = bench.store.search(&mail.clone().after(rest)).unwrap().names;
            assert_eq!(left, expected[if after.is_some() { 2 } else { 0 }..]);
        }
    }
    // All rows that may be read are counted, however few names are returned.
    let hits = bench.store.search(&mail.clone().limit(0)).unwrap();
    assert_eq!((hits.names, hits.count.count, hits.count.is_cut), (vec![], 5, false));
    let hits = bench.store.search(&mail.most(2)).unwrap();
    assert_eq!((hits.count.count, hits.count.is_cut), (3, true));
}

pub(super) fn records_are_counted_in_parts_of_time(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let mut of = Vec::new();
    for (kind, name, how) in [
        ("mail", "one", done()),
        ("mail", "two", dead("")),
        ("bill", "two", done()),
        ("mail", "one", dead("")),
        ("mail", "one", done()),
        ("mail", "one", done()),
    ] {
        of.push(bench.ended(kind, Some(name), how).0);
    }
    let micro = Duration::from_micros(1);
    // From the first to before the last, in two parts: the second begins with the fourth.
    let (since, until) = (of[0], of[3] + of[3].since(of[0]));
    let all = TallyOf::new("mail", since, until).parts(2);
    let ends = of.iter().filter(|at| **at < until).count();
    assert!(ends >= 4);
    let succeeded = (Outcome::Succeeded, ends as u64 - 4);
    let second = match succeeded.1 {
        0 => vec![(Outcome::Dead, 1)],
        _ => vec![succeeded, (Outcome::Dead, 1)],
    };
    let first = vec![(Outcome::Succeeded, 1), (Outcome::Dead, 1)];
    let tally = bench.store.tally(&all).unwrap();
    assert_eq!((tally.parts, tally.cut), (vec![(since, first), (of[3], second)], None));

    let one = TallyOf::new("mail", since, of[5] + micro).name("one");
    let tally = bench.store.tally(&one).unwrap();
    let outcomes = vec![(Outcome::Succeeded, 3), (Outcome::Dead, 1)];
    assert_eq!((tally.parts, tally.cut), (vec![(since, outcomes)], None));
    let bill = TallyOf::new("bill", since, of[5] + micro).name("one");
    assert_eq!(bench.store.tally(&bill).unwrap().parts, [(since, vec![])]);

    // The newest are counted.
    for of_two in [one.clone().most(2), TallyOf { name: None, ..one }.most(2)] {
        let tally = bench.store.tally(&of_two).unwrap();
        assert_eq!(tally.parts, [(since, vec![(Outcome::Succeeded, 2)])]);
        assert_eq!(tally.cut, Some(of[3] + micro));
    }
    let ever = TallyOf::new("mail", Time::from_micros(i64::MIN), of[5] + micro);
    for (ever, count) in [(ever.clone(), 5), (ever.name("one"), 4)] {
        let tally = bench.store.tally(&ever.parts(2)).unwrap();
        let counts = tally.parts.iter().map(|(_, ends)| ends.iter().map(|(_, n)| n).sum());
        assert_eq!(counts.collect::<Vec<u64>>(), [0, count]);
    }
    let none = TallyOf::new("mail", since - micro * 3, since).parts(3);
    let starts = [3, 2, 1].map(|n| (since - micro * n, vec![]));
    let tally = bench.store.tally(&none).unwrap();
    assert_eq!((tally.parts, tally.cut), (starts.to_vec(), None));
}

pub(super) fn a_tally_says_since_when_all_are_counted(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let (first, _) = bench.ended("mail", Some("one"), done());
    // Three that end in one call are recorded at one time.
    let timers = [(); 3].map(|()| {
        let timer = bench.timer(Duration::ZERO);
        bench.store.insert(std::slice::from_ref(&timer)).unwrap();
        timer.id
    });
    bench.pass(MOMENT);
    assert_eq!(bench.store.claim(bench.lease, &timers).unwrap().timers.len(), 3);
    let ends = timers.map(|timer| End { timer, attempt: 1, how: done() });
    bench.store.finish(bench.lease, &ends).unwrap();
    let last = bench.records().pop().unwrap().recorded;
    assert_eq!(bench.records().iter().filter(|record| record.recorded == last).count(), 3);
    let micro = Duration::from_micros(1);
    let all = TallyOf::new("mail", first, last + micro);
    for (most, cut) in [
        (5, None),
        (4, None),
        (3, Some(first + micro)),
        (2, Some(last + micro)),
        (1, Some(last + micro)),
        (0, Some(last + micro)),
    ] {
        let tally = bench.store.tally(&all.clone().most(most)).unwrap();
        let counted: u64 = tally.parts[0].1.iter().map(|(_, count)| count).sum();
        assert_eq!((counted, tally.cut), (u64::from(most.min(4)), cut), "{most}");
    }
    let one = all.name("one");
    assert_eq!(bench.store.tally(&one.clone().most(1)).unwrap().cut, None);
    assert_eq!(bench.store.tally(&one.most(0)).unwrap().cut, Some(first + micro));
}
