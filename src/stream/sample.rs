//! [`Sample`]: the last item of each period.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;

use futures_core::Stream;
use pin_project_lite::pin_project;

use super::source::{PollBudget, Source};
use crate::sleep::Sleep;
use crate::tick::Tick;

pin_project! {
    /// The stream of [`StreamExt::sample`](super::StreamExt::sample).
    #[derive(Debug)]
    #[must_use = "streams do nothing unless polled"]
    pub struct Sample<S: Stream> {
        #[pin]
        source: Source<S>,
        held: Option<S::Item>,
        // Ends with the period of the held item; polled only while there is one.
        sleep: Sleep,
        period: Duration,
        // Since when each poll has spent its budget, without a delivery; NEVER if the last has not.
        behind_since: Tick,
    }
}

impl<S: Stream> Sample<S> {
    pub(super) fn new(stream: S, period: Duration, sleep: Sleep) -> Self {
        let source = Source::new(stream);
        Self { source, held: None, sleep, period, behind_since: Tick::NEVER }
    }

    source_methods!();
}

fn now(sleep: &Sleep) -> Tick {
    sleep.engine().clock().now()
}

/// Returns the first end of a period that is not before `earliest`, given that one ends at `end`.
fn period_end(end: Tick, earliest: Tick, period: Duration) -> Tick {
    if end >= earliest {
        return end;
    }
    let behind = earliest.since(end).as_nanos();
    match behind.checked_rem(period.as_nanos()) {
        None | Some(0) => earliest,
        Some(rest) => {
            // At most `behind`, so a tick can count it.
            let rest = Duration::from_nanos(u64::try_from(rest).unwrap_or(u64::MAX));
            earliest.saturating_add(period.saturating_sub(rest))
        }
    }
}

impl<S: Stream> Stream for Sample<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let mut this = self.project();
        let mut budget = PollBudget::new();
        while let Poll::Ready(item) = this.source.as_mut().poll_next_within(&mut budget, cx) {
            if item.is_none() {
                this.sleep.cancel();
                return Poll::Ready(this.held.take());
            }
            if this.held.is_none() {
                let now = now(this.sleep);
                *this.behind_since = now;
                this.sleep.reset_to(period_end(this.sleep.deadline_tick(), now, *this.period));
            }
            *this.held = item;
        }
        if this.held.is_none() {
            return Poll::Pending;
        }
        if budget.is_spent() {
            // The rest came before the end of the period too, unless the source never lets up.
            let now = now(this.sleep);
            *this.behind_since = now.min(*this.behind_since);
            if now < this.behind_since.saturating_add(*this.period) {
                return Poll::Pending;
            }
        } else {
            *this.behind_since = Tick::NEVER;
        }
        ready!(Pin::new(&mut *this.sleep).poll(cx));
        // After the present, where there is a period at all: this item may be late for more than
        // one, and is the only one for all of those.
        let later = now(this.sleep).saturating_add(Duration::from_nanos(1).min(*this.period));
        this.sleep.reset_to(period_end(this.sleep.deadline_tick(), later, *this.period));
        Poll::Ready(this.held.take())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.source.size_hint_of_some(self.held.is_some())
    }
}

ends_with_its_source!(Sample);
