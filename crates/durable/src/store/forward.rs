//! [`forward!`](crate::forward): calls of a store that go to another one as they are.

/// Writes those methods of a [`Store`](crate::Store) which pass their call on, for a store around
/// another one.
///
/// `forward!(self.method; names)` stands in an `impl Store` block. Each method that is named calls
/// `self.method(name, work)`: `name` is its name, and `work` makes the call on the store that it is
/// given.
#[doc(hidden)]
#[macro_export]
macro_rules! forward {
    ($self:ident.$pass:ident; $($name:ident)*) => {
        $($crate::forward!(@ $name $self $pass);)*
    };
    (@ notify $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass notify(shards: $crate::Shards) -> bool);
    };
    (@ now $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass now() -> $crate::Time);
    };
    (@ join $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass join(lease: $crate::Lease, span: ::std::time::Duration)
            -> ::std::option::Option<$crate::store::calls::Beat>);
    };
    (@ beat $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass beat(lease: $crate::Lease, span: ::std::time::Duration)
            -> ::std::option::Option<$crate::store::calls::Beat>);
    };
    (@ leave $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass leave(lease: $crate::Lease) -> ());
    };
    (@ maintain $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass maintain() -> $crate::store::calls::Maintained);
    };
    (@ promote $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass promote(lanes: &[::std::string::String])
            -> ::std::vec::Vec<$crate::store::calls::Promoted>);
    };
    (@ nodes $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass nodes() -> ::std::vec::Vec<$crate::store::NodeInfo>);
    };
    (@ insert $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass insert(timers: &[$crate::store::NewTimer])
            -> ::std::vec::Vec<$crate::store::Inserted>);
    };
    (@ insert_and_look $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass
            insert_and_look(timers: &[$crate::store::NewTimer], names: &[&str])
            -> $crate::store::calls::Looked);
    };
    (@ scan $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass scan(scan: &$crate::store::calls::Scan<'_>)
            -> $crate::store::calls::Window);
    };
    (@ held $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass held(
            lease: $crate::Lease, after: ::std::option::Option<($crate::Time, $crate::TimerId)>)
            -> $crate::store::calls::Held);
    };
    (@ claim $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass claim(lease: $crate::Lease, timers: &[$crate::TimerId])
            -> $crate::store::calls::Claimed);
    };
    (@ finish $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass finish(lease: $crate::Lease, ends: &[$crate::store::End])
            -> ::std::vec::Vec<$crate::store::Finished>);
    };
    (@ finish_and_claim $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass finish_and_claim(batch: &$crate::store::calls::Batch<'_>)
            -> (::std::vec::Vec<$crate::store::Finished>, $crate::store::calls::Claimed));
    };
    (@ cancel $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass cancel(timer: $crate::TimerId)
            -> $crate::store::TimerUpdate);
    };
    (@ reschedule $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass
            reschedule(reschedule: &$crate::store::calls::Reschedule<'_>)
            -> $crate::store::TimerUpdate);
    };
    (@ amend $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass amend(amendment: &$crate::store::calls::Amendment<'_>)
            -> $crate::store::TimerUpdate);
    };
    (@ confirm $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass confirm() -> ());
    };
    (@ find $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass find(name: &str)
            -> ::std::option::Option<$crate::store::Timer>);
    };
    (@ named $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass named(names: &[&str])
            -> ($crate::Time, ::std::vec::Vec<$crate::store::Named>));
    };
    (@ timers $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass timers(query: &$crate::store::TimerQuery)
            -> ::std::vec::Vec<$crate::store::Timer>);
    };
    (@ schedule $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass schedule(name: &str)
            -> ($crate::Time, ::std::option::Option<$crate::store::ScheduleRow>));
    };
    (@ schedules $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass schedules(query: &$crate::store::ScheduleQuery)
            -> ::std::vec::Vec<$crate::store::ScheduleRow>);
    };
    (@ upcoming $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass upcoming(query: &$crate::store::calls::UpcomingQuery)
            -> $crate::store::calls::Upcoming);
    };
    (@ zoned $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass zoned(query: &$crate::store::calls::ZonedQuery)
            -> ::std::vec::Vec<$crate::store::ScheduleRow>);
    };
    (@ rezone $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass rezone(row: &$crate::store::ScheduleRow)
            -> $crate::store::calls::Advanced);
    };
    (@ change $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass change(change: &$crate::store::calls::Change<'_>)
            -> $crate::store::calls::Changed);
    };
    (@ create_schedules $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass create_schedules(rows: &[$crate::store::ScheduleRow])
            -> ::std::vec::Vec<bool>);
    };
    (@ advance $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass advance(advance: &$crate::store::calls::Advance<'_>)
            -> $crate::store::calls::Advanced);
    };
    (@ advance_batch $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass
            advance_batch(advances: &[$crate::store::calls::Advance<'_>])
            -> ::std::vec::Vec<$crate::store::calls::Advanced>);
    };
    (@ backfill $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass backfill(past: &$crate::store::calls::Past<'_>)
            -> $crate::store::calls::Filled);
    };
    (@ insert_occurrence $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass
            insert_occurrence(occurrence: &$crate::store::calls::NewOccurrence<'_>)
            -> $crate::store::calls::ManualRun);
    };
    (@ records $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass records(query: &$crate::store::RecordQuery)
            -> ::std::vec::Vec<$crate::Record>);
    };
    (@ latest_records $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass latest_records(names: &[&str], each: u32)
            -> ::std::vec::Vec<::std::vec::Vec<$crate::RecordSummary>>);
    };
    (@ search $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass search(search: &$crate::store::Search)
            -> $crate::store::Hits);
    };
    (@ tally $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass tally(of: &$crate::store::TallyOf)
            -> $crate::store::Tally);
    };
    (@ overview $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass overview(of: &$crate::store::OverviewOf)
            -> $crate::store::Overview);
    };
    (@ prune $self:ident $pass:ident) => {
        $crate::forward!(@@ $self $pass prune(before: $crate::Time, limit: u32) -> u64);
    };
    (@@ $self:ident $pass:ident $name:ident($($argument:ident: $type:ty),*) -> $answer:ty) => {
        fn $name(&mut $self $(, $argument: $type)*) -> $crate::store::Result<$answer> {
            $self.$pass(::std::stringify!($name), |store| store.$name($($argument),*))
        }
    };
}

pub(crate) use forward;
