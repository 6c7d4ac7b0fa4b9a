//! Timers for C. `examples/c_library.c` has the declarations, and uses them.

use std::ffi::c_void;
use std::time::Duration;

use tourbillon::Timer;
use tourbillon::callback::Callback;

/// What C gives for its function. May go to another thread: C has promised that.
struct Data(*mut c_void);

// SAFETY: the pointer is given to that function alone, which may be called on any thread.
unsafe impl Send for Data {}

/// Calls `function` with `data` on a thread of the library's, after so many milliseconds.
#[unsafe(no_mangle)]
extern "C" fn timer_start(
    milliseconds: u64,
    function: extern "C" fn(*mut c_void),
    data: *mut c_void,
) -> *mut Callback {
    let data = Data(data);
    let sleep = tourbillon::sleep(Duration::from_millis(milliseconds));
    Box::into_raw(Box::new(sleep.call(move || {
        let data = data;
        function(data.0);
    })))
}

/// Ends a timer: once for each. Returns whether its function has not been called. Waits for a call
/// that is being made, so the data may be freed afterwards.
///
/// # Safety
///
/// `timer` is from `timer_start`, and was not ended.
#[unsafe(no_mangle)]
unsafe extern "C" fn timer_end(timer: *mut Callback) -> bool {
    // SAFETY: from `Box::into_raw` there, and given back once, as the caller promises.
    unsafe { Box::from_raw(timer) }.cancel_and_wait()
}

/// Ends the library's thread, before a `dlclose` or an `unshare`. False while a timer is armed.
#[unsafe(no_mangle)]
extern "C" fn timers_shut_down() -> bool {
    Timer::global().end_driver().is_ok()
}
