//! Schedules whose keys contain a text, their number, and their last runs.

use std::collections::VecDeque;

use futures_util::future::try_join_all;
use tourbillon_durable::store::{NameState, Search};

use super::Catalog;
use super::error::Result;
use super::found::Found;
use super::pages::{PageBudget, Query, without_body};
use super::runs::of_summary;
use crate::model::{self, Page, Schedule, ScheduleKind, ScheduleState, Total};

/// Most schedules, and most one-shots, that are looked at for a page or a total.
const LOOKED: u32 = 20_000;

/// Most names that are found for a page with a label.
const LABELLED: u32 = 1_000;

/// Most runs that are read at a time.
const RUNS: usize = 256;

/// Bytes of runs that end a page, beside its last part.
const READ: usize = 2 << 20;

impl Catalog {
    /// Lists the schedules whose keys contain a text.
    ///
    /// It reads names until there are as many as the page may have, and of [`LOOKED`] at most;
    /// then the schedules of these names. With a label, it reads more of them, as few may have it.
    pub(super) async fn searched(&self, app: &str, query: &Query) -> Result<Page<Schedule>> {
        let mut search = search(app, query).limit(match query.label {
            Some(_) => query.limit.max(LABELLED),
            None => query.limit,
        });
        search.after = query.cursor.as_ref().map(|key| model::name(app, key));
        let hits = self.reader.search(search).await?;
        let mut names = VecDeque::from(hits.names);
        let mut left = PageBudget::new(query.limit as usize);
        let (mut items, mut last) = (Vec::new(), None);
        while !names.is_empty() && !left.is_none() {
            let part = names.len().min(left.rows() as usize);
            let part: Vec<String> = names.drain(..part).collect();
            // One statement finds all names that are asked for together.
            let found = try_join_all(part.iter().map(|name| self.reader.named(name))).await?;
            for (place, (now, named)) in found.into_iter().enumerate() {
                if left.is_none() {
                    part.iter().skip(place).rev().for_each(|name| names.push_front(name.clone()));
                    break;
                }
                let Some((_, key)) = model::app_and_key(&part[place]) else { continue };
                last = Some(key.to_owned());
                // A schedule that was changed since its name was found may no longer match.
                let found = named.schedule.map(Found::Repeated).or(named.timer.map(Found::Once));
                let size = found.as_ref().map_or(0, Found::size);
                let found = found.filter(|found| query.takes(found));
                match found.and_then(|found| found.view(app, key, now)) {
                    Some(view) => {
                        left.take(size + query.bytes());
                        items.push(without_body(view));
                    }
                    None => left.pass(size),
                }
            }
        }
        let rest = hits.rest.as_deref().and_then(model::app_and_key);
        let next = match names.is_empty() {
            true => rest.map(|(_, key)| key.to_owned()),
            false => last,
        };
        Ok(Page::new(items, next))
    }

    /// Counts the schedules of all pages of a list, among the first [`LOOKED`] schedules and as
    /// many one-shots; with a label, among fewer.
    pub(super) async fn total(&self, app: &str, query: &Query) -> Result<Total> {
        if query.label.is_some() {
            return self.total_of_label(app, query).await;
        }
        let count = self.reader.search(search(app, query).limit(0)).await?.count;
        Ok(Total { count: count.count, at_least: count.is_cut })
    }

    /// Shows the last finished runs of the page's schedules. Runs keep the text of answers, and a
    /// list does not show it: if this is much, the page ends sooner.
    pub(super) async fn show_last_runs(
        &self,
        app: &str,
        page: &mut Page<Schedule>,
        each: u32,
    ) -> Result<()> {
        let (mut shown, mut bytes) = (0, 0);
        for part in page.items.chunks_mut((RUNS / each as usize).max(1)) {
            if bytes >= READ {
                break;
            }
            let names = part.iter().map(|schedule| model::name(app, &schedule.key)).collect();
            let latest = self.reader.latest_records(names, each).await?;
            for (schedule, records) in part.iter_mut().zip(latest) {
                bytes += records.iter().map(|record| record.detail.len()).sum::<usize>();
                schedule.last_runs = Some(records.iter().map(of_summary).collect());
            }
            shown += part.len();
        }
        if shown < page.items.len() {
            page.items.truncate(shown);
            page.next = page.items.last().map(|schedule| schedule.key.clone());
        }
        Ok(())
    }
}

impl Query {
    fn states(&self) -> Vec<NameState> {
        let is_of_kind = |state: &NameState| match state {
            NameState::Enabled | NameState::Disabled => self.kind != Some(ScheduleKind::Once),
            _ => self.kind != Some(ScheduleKind::Repeated),
        };
        let is_wanted = |state: &NameState| {
            self.state.is_none_or(|wanted| match state {
                NameState::Enabled => wanted == ScheduleState::Enabled,
                NameState::Disabled | NameState::Held => wanted == ScheduleState::Disabled,
                NameState::Pending => wanted == ScheduleState::Pending,
                NameState::Running => wanted == ScheduleState::Running,
            })
        };
        NameState::ALL.into_iter().filter(is_of_kind).filter(is_wanted).collect()
    }
}

/// Returns the search for all schedules of a list.
fn search(app: &str, query: &Query) -> Search {
    let behind = u32::try_from(model::name(app, "").chars().count()).unwrap_or(u32::MAX);
    Search::new(model::name(app, query.prefix.as_deref().unwrap_or("")))
        .contains(behind, query.search.as_deref().unwrap_or(""))
        .states(&query.states())
        .most(LOOKED)
}
