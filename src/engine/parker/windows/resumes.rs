//! Ends parks when the system resumes from suspend, at once where it says so.
//!
//! A high-resolution timer stands still in suspend, and the clock of instants runs on. The driver
//! parks for no longer than [`RECHECK`](crate::clock::RECHECK) for that. A notice of the resume
//! makes it look sooner. None comes where the system has no power service (some containers), or if
//! it hibernates right after a resume, so the limit stays.

use std::ffi::c_void;
use std::os::windows::io::{AsRawHandle, OwnedHandle};
use std::ptr::{null_mut, without_provenance_mut};

use windows_sys::Win32::Foundation::ERROR_SUCCESS;
use windows_sys::Win32::System::Power::{
    DEVICE_NOTIFY_SUBSCRIBE_PARAMETERS, HPOWERNOTIFY, PowerRegisterSuspendResumeNotification,
    PowerUnregisterSuspendResumeNotification,
};
use windows_sys::Win32::System::Threading::SetEvent;
use windows_sys::Win32::UI::WindowsAndMessaging::DEVICE_NOTIFY_CALLBACK;

use crate::sync::{Mutex, lock};

/// Events of all drivers of the process. A handle leaves the list under the lock, and is closed
/// after; so none that is closed is signalled.
static LISTENERS: Mutex<Listeners> = Mutex::new(Listeners::NONE);

#[derive(Debug)]
struct Listeners {
    /// Numbers of their handles.
    events: Vec<usize>,
    /// Registration for notices. `None` while there are no events, while the thread that added the
    /// first one asks for it, or if the system refused it.
    registration: Option<HPOWERNOTIFY>,
}

impl Listeners {
    const NONE: Self = Self { events: Vec::new(), registration: None };

    /// Returns whether it is the first: then a registration is to be asked for, and stored before
    /// the event is removed.
    fn add(&mut self, event: usize) -> bool {
        self.events.push(event);
        self.events.len() == 1
    }

    /// Returns a registration that is to be revoked, if that was the last event.
    fn remove(&mut self, event: usize) -> Option<HPOWERNOTIFY> {
        self.events.retain(|other| *other != event);
        if self.events.is_empty() { self.registration.take() } else { None }
    }
}

/// An event that is signalled at each resume, and each suspend, until this is dropped.
#[derive(Debug)]
pub(super) struct OnResume(OwnedHandle);

impl OnResume {
    /// Takes an event.
    pub(super) fn new(event: OwnedHandle) -> Self {
        let is_first = lock(&LISTENERS).add(event.as_raw_handle().addr());
        if is_first {
            let registration = subscribe();
            lock(&LISTENERS).registration = registration;
        }
        Self(event)
    }

    pub(super) fn event(&self) -> &OwnedHandle {
        &self.0
    }
}

impl Drop for OnResume {
    fn drop(&mut self) {
        let event = self.0.as_raw_handle().addr();
        let registration = lock(&LISTENERS).remove(event);
        // Under no lock: it may wait for a call that is under way, which takes that one.
        if let Some(registration) = registration {
            // SAFETY: it is registered, and nobody else has the handle.
            unsafe { PowerUnregisterSuspendResumeNotification(registration) };
        }
    }
}

/// Stays while it is registered: it is not stated whether the system copies it.
static SUBSCRIPTION: Subscription = Subscription(DEVICE_NOTIFY_SUBSCRIBE_PARAMETERS {
    Callback: Some(power_changes),
    Context: null_mut(),
});

struct Subscription(DEVICE_NOTIFY_SUBSCRIBE_PARAMETERS);

// SAFETY: it is only read, and its pointer is null.
unsafe impl Sync for Subscription {}

/// Registers [`power_changes`] with the system until the result is unregistered. `None` if it
/// refuses. A library without timers has no registration left, so it may be unloaded.
fn subscribe() -> Option<HPOWERNOTIFY> {
    let mut registration = null_mut();
    // SAFETY: the flag says that the recipient is such parameters, which stay, and which name a
    // function that does. `registration` is a valid place for a handle.
    let error = unsafe {
        PowerRegisterSuspendResumeNotification(
            DEVICE_NOTIFY_CALLBACK,
            (&raw const SUBSCRIPTION.0).cast_mut().cast(),
            &raw mut registration,
        )
    };
    (error == ERROR_SUCCESS).then_some(registration as HPOWERNOTIFY)
}

/// Called by a thread of the system's, before a suspend and after a resume.
pub(super) extern "system" fn power_changes(_: *const c_void, _: u32, _: *const c_void) -> u32 {
    for event in &lock(&LISTENERS).events {
        // SAFETY: the handle is open, and an event's: it is closed once it is out of the list.
        unsafe { SetEvent(without_provenance_mut(*event)) };
    }
    ERROR_SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registration_is_revoked_with_the_last_event_and_asked_for_with_the_next() {
        let mut listeners = Listeners::NONE;
        assert!(listeners.add(1));
        listeners.registration = Some(7);
        assert!(!listeners.add(2));
        assert_eq!((listeners.remove(1), listeners.remove(2)), (None, Some(7)));
        assert!(listeners.add(3), "another is asked for, and refused");
        assert_eq!(listeners.remove(3), None);
    }
}
