//! Looks whether the database's clock was set back.

use std::time::Duration;

use tourbillon_durable::store::RecordQuery;
use tourbillon_durable::{StoreError, Time};

use super::Service;
use crate::{metrics, model};

/// Period at which the clock is looked at.
const LOOK: Duration = Duration::from_secs(60);

/// A clock that is behind by less is not remarked upon: clocks are adjusted.
const ADJUSTED: Duration = Duration::from_secs(1);

impl Service {
    /// Compares the database's clock with the newest records, again and again, and logs when it is
    /// behind them, and when it has caught up.
    ///
    /// Schedules whose times were reached before the clock was set back are silent until they are
    /// reached again, and nothing is overdue meanwhile.
    pub async fn mind_clock(&self) {
        let mut was_behind = false;
        loop {
            match self.clock_behind().await {
                Ok(behind) => {
                    metrics::clock_is_behind(behind);
                    let is_behind = !behind.is_zero();
                    if is_behind && !was_behind {
                        let behind_s = behind.as_secs();
                        tracing::warn!(
                            behind_s,
                            "the database's clock is behind the newest record: it was set back, \
                             and schedules are silent until it has caught up"
                        );
                    } else if was_behind && !is_behind {
                        tracing::info!("the database's clock has caught up");
                    }
                    was_behind = is_behind;
                }
                Err(error) => tracing::debug!(%error, "the database's clock was not looked at"),
            }
            self.timer.sleep(LOOK).await;
        }
    }

    /// Returns how far the database's clock is behind the newest record of any app.
    async fn clock_behind(&self) -> Result<Duration, StoreError> {
        let now = self.reader.now().await?;
        let mut newest = now;
        for app in self.config().apps.keys() {
            let later = RecordQuery::new().kind(model::kind(app)).since(now + ADJUSTED);
            let later = self.reader.records(later.newest_first().limit(1)).await?;
            newest = later.iter().map(|record| record.recorded).fold(newest, Time::max);
        }
        Ok(newest.since(now))
    }
}

#[cfg(test)]
mod tests {
    use tourbillon_durable::Created;
    use tourbillon_durable::store::Memory;

    use super::*;
    use crate::config::{App, Config};

    #[tokio::test]
    async fn a_clock_that_was_set_back_is_behind_the_newest_record() {
        let (clock, timer) = crate::watched::clocked();
        let config =
            Config { apps: [("a".to_owned(), App::default())].into(), ..Config::default() };
        let store = Box::new(Memory::new(&timer));
        let service = Service::start(store, config, &timer).unwrap();
        let hour = Duration::from_secs(3_600);
        let start = timer.wall_now();
        clock.set_wall(start + hour);
        let once = service.client.once(&model::kind("a"), start + 2 * hour);
        let Created::Created(id) = once.create().await.unwrap() else { panic!("it is new") };
        service.client.cancel(id).await.unwrap();
        assert_eq!(service.clock_behind().await.unwrap(), Duration::ZERO);
        clock.set_wall(start);
        assert_eq!(service.clock_behind().await.unwrap(), hour);
        clock.set_wall(start + hour - Duration::from_millis(500));
        assert_eq!(service.clock_behind().await.unwrap(), Duration::ZERO);
        service.stop().await;
    }
}
