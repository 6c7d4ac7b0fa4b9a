//! A park that ends on time. A condition variable's wait ends with a tick of Windows, up to 15.6 ms
//! late. That of a high-resolution timer does not, and no process has to shorten the tick, which
//! would cost the whole system power. Windows 10 has such timers since version 1803.

mod resumes;

use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr::null;
use std::time::Duration;

use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::System::Threading::{
    CREATE_WAITABLE_TIMER_HIGH_RESOLUTION, CreateEventW, CreateWaitableTimerExW, INFINITE,
    SetEvent, SetWaitableTimer, TIMER_ALL_ACCESS, WaitForMultipleObjects,
};

use resumes::OnResume;

use crate::sync::{Condvar, Mutex, MutexGuard, lock, wait_up_to};

/// Wakes the thread that waits for the token.
#[derive(Debug)]
pub(super) struct Signal {
    precise: Option<Precise>,
    /// Takes its place where the system has none.
    fallback: Condvar,
}

impl Default for Signal {
    fn default() -> Self {
        Self { precise: Precise::new(), fallback: Condvar::new() }
    }
}

impl Signal {
    /// Ends a wait. If none has begun, the next one may be ended, spuriously.
    pub(super) fn notify_one(&self) {
        match &self.precise {
            Some(precise) => precise.notify(),
            None => self.fallback.notify_one(),
        }
    }

    /// Waits with the guard of the token released, but no longer than `limit`.
    pub(super) fn wait_up_to<'a>(
        &self,
        token: &'a Mutex<bool>,
        is_left: MutexGuard<'a, bool>,
        limit: Option<Duration>,
    ) -> MutexGuard<'a, bool> {
        let Some(precise) = &self.precise else {
            return wait_up_to(&self.fallback, is_left, limit);
        };
        // A token that is left from here on signals the event, which stays so until it is waited
        // for.
        drop(is_left);
        precise.wait(limit);
        lock(token)
    }
}

/// An event and a timer. Each is reset as it ends a wait.
#[derive(Debug)]
struct Precise {
    event: OnResume,
    timer: OwnedHandle,
}

impl Precise {
    /// `None` if the system has no such timers, or refuses one.
    fn new() -> Option<Self> {
        let event = OnResume::new(event()?);
        let flags = CREATE_WAITABLE_TIMER_HIGH_RESOLUTION;
        // SAFETY: neither attributes nor a name are given; the rest are plain numbers.
        let timer =
            owned(unsafe { CreateWaitableTimerExW(null(), null(), flags, TIMER_ALL_ACCESS) })?;
        Some(Self { event, timer })
    }

    fn notify(&self) {
        // SAFETY: the handle is open, and an event's.
        unsafe { SetEvent(self.event.event().as_raw_handle()) };
    }

    fn wait(&self, limit: Option<Duration>) {
        let handles = [self.event.event().as_raw_handle(), self.timer.as_raw_handle()];
        let (count, milliseconds) = match limit {
            None => (1, INFINITE),
            Some(limit) if self.set_timer(limit) => (2, INFINITE),
            // Should the system refuse it, the driver looks at its clock again, and asks anew.
            Some(_) => (1, 1),
        };
        // SAFETY: there are at least `count` handles, and both are open.
        unsafe { WaitForMultipleObjects(count, handles.as_ptr(), 0, milliseconds) };
    }

    /// Signals the timer `after` from now, and not before. Returns whether that could be done.
    fn set_timer(&self, after: Duration) -> bool {
        // Negative for a span rather than a time of day, in units of 100 ns.
        let due = i64::try_from(after.as_nanos().div_ceil(100)).map_or(-i64::MAX, |units| -units);
        // SAFETY: the handle is open, and a timer's; `due` is valid, and no function is given.
        unsafe {
            SetWaitableTimer(self.timer.as_raw_handle(), &raw const due, 0, None, null(), 0) != 0
        }
    }
}

/// Makes an event that is reset as it ends a wait. `None` if the system refuses one.
fn event() -> Option<OwnedHandle> {
    // SAFETY: neither attributes nor a name are given; the rest are plain numbers.
    owned(unsafe { CreateEventW(null(), 0, 0, null()) })
}

/// The object that a function has just made, if it made one.
fn owned(handle: HANDLE) -> Option<OwnedHandle> {
    // SAFETY: it is open, and nobody else's.
    (!handle.is_null()).then(|| unsafe { OwnedHandle::from_raw_handle(handle) })
}

#[cfg(test)]
mod tests {
    use windows_sys::Win32::UI::WindowsAndMessaging::PBT_APMRESUMEAUTOMATIC;

    use super::*;
    use crate::engine::parker::token::Token;

    const SHORT: Duration = Duration::from_millis(1);

    #[test]
    fn the_timer_ends_a_wait_and_so_does_an_event_even_if_it_came_before() {
        let precise = Precise::new().expect("this system has such timers");
        precise.wait(Some(SHORT));
        precise.notify();
        precise.wait(None);
        precise.notify();
        precise.wait(Some(3_600_000 * SHORT));
    }

    #[test]
    fn a_resume_ends_a_wait() {
        let precise = Precise::new().expect("this system has such timers");
        resumes::power_changes(null(), PBT_APMRESUMEAUTOMATIC, null());
        precise.wait(None);
    }

    #[test]
    fn a_system_without_such_timers_parks_on_a_condition_variable() {
        let left = Signal { precise: None, fallback: Condvar::new() };
        let token = Token { is_left: Mutex::new(false), left };
        token.take(Some(SHORT));
        token.leave();
        token.take(Some(3_600_000 * SHORT));
    }
}
