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
    DEVICE_NOTIFY_SUBSCRIBE_PARAMETERS, PowerRegisterSuspendResumeNotification,
};
use windows_sys::Win32::System::Threading::SetEvent;
use windows_sys::Win32::UI::WindowsAndMessaging::DEVICE_NOTIFY_CALLBACK;

use crate::sync::{Mutex, lock};

/// Events of all parked drivers of the process. A handle is in it until it is closed, under the
/// lock; so none is signalled later.
static LISTENERS: Mutex<Listeners> =
    Mutex::new(Listeners { events: Vec::new(), subscribed: false });

#[derive(Debug)]
struct Listeners {
    /// Numbers of their handles.
    events: Vec<usize>,
    /// True once the system has been asked for notices.
    subscribed: bool,
}

/// An event that is signalled at each resume, and each suspend, until this is dropped.
#[derive(Debug)]
pub(super) struct OnResume(OwnedHandle);

impl OnResume {
    /// Takes an event.
    pub(super) fn new(event: OwnedHandle) -> Self {
        let mut listeners = lock(&LISTENERS);
        listeners.events.push(event.as_raw_handle().addr());
        let subscribed = std::mem::replace(&mut listeners.subscribed, true);
        drop(listeners);
        if !subscribed {
            subscribe();
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
        lock(&LISTENERS).events.retain(|other| *other != event);
    }
}

/// Has the system call [`power_changes`] for the rest of the process. It may refuse.
fn subscribe() {
    let subscription =
        DEVICE_NOTIFY_SUBSCRIBE_PARAMETERS { Callback: Some(power_changes), Context: null_mut() };
    // Leaked, as it is not stated whether the system copies it.
    let subscription = Box::into_raw(Box::new(subscription));
    let mut registration = null_mut();
    // SAFETY: the flag says that the recipient is such parameters, which stay, and which name a
    // function that does. `registration` is a valid place for a handle.
    unsafe {
        PowerRegisterSuspendResumeNotification(
            DEVICE_NOTIFY_CALLBACK,
            subscription.cast(),
            &raw mut registration,
        );
    }
}

/// Called by a thread of the system's, before a suspend and after a resume.
pub(super) extern "system" fn power_changes(_: *const c_void, _: u32, _: *const c_void) -> u32 {
    for event in &lock(&LISTENERS).events {
        // SAFETY: the handle is open, and an event's: it is closed once it is out of the list.
        unsafe { SetEvent(without_provenance_mut(*event)) };
    }
    ERROR_SUCCESS
}
