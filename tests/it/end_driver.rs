//! Drivers that are asked to end.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::Waker;
#[cfg(target_os = "linux")]
use std::time::SystemTime;

use tourbillon::Timer;

use crate::support::*;

fn named(name: &str) -> Timer {
    Timer::builder().thread_name(name).build().expect("the options are valid")
}

/// The kernel lists the thread a moment longer than it lets others wait for its end.
#[cfg(target_os = "linux")]
#[test]
fn a_driver_ends_when_it_is_asked_to_and_the_next_sleep_starts_another() {
    let timer = named("asked-to-end");
    assert_eq!(timer.end_driver(), Ok(()), "there is none");
    let mut unarmed = timer.sleep(3600 * SECOND);
    for _ in 0..3 {
        pollster::block_on(pending_for(ms(1), Waker::noop(), |span| timer.sleep(span)));
        eventually("it has its name", || has_thread("asked-to-end"));
        timer.end_driver().expect("nothing is armed");
        eventually("it is gone", || !has_thread("asked-to-end"));
    }
    assert!(poll(&mut unarmed).is_pending());
    eventually("what was there before may be armed", || has_thread("asked-to-end"));
}

/// Neither starts a driver nor keeps one.
#[cfg(target_os = "linux")]
#[test]
fn a_polled_sleep_that_never_ends_needs_no_driver() {
    let timer = named("never-asked-for");
    let counter = Counter::new();
    let mut never = timer.never();
    assert!(poll_with(&mut never, &counter.clone().into()).is_pending());
    assert!(poll_with(&mut never, &counter.clone().into()).is_pending());
    assert!(!has_thread("never-asked-for"));
    pollster::block_on(timer.sleep(ms(1)));
    assert_eq!(timer.end_driver(), Ok(()));
    eventually("it is gone", || !has_thread("never-asked-for"));
    never.reset_after(ms(1));
    eventually("it is woken", || counter.wakes() == 1);
}

#[test]
fn a_driver_with_armed_timers_runs_on_and_says_how_many_there_are() {
    let timer = named("busy");
    let counter = Counter::new();
    let mut sleeps = [ms(20), 3600 * SECOND, 7200 * SECOND].map(|span| timer.sleep(span));
    for sleep in &mut sleeps {
        assert!(poll_with(sleep, &counter.clone().into()).is_pending());
    }
    let error = timer.end_driver().expect_err("three are armed");
    // The first may have fired.
    assert!(matches!(error.armed(), Some(2 | 3)), "{error}");
    let [first, second, third] = &mut sleeps;
    pollster::block_on(first);
    assert_eq!(timer.end_driver().map_err(|error| error.armed()), Err(Some(2)));
    second.reset_after(ms(1));
    pollster::block_on(second);
    third.reset_after(std::time::Duration::MAX);
    drop(sleeps);
    assert_eq!(timer.end_driver(), Ok(()));
}

#[test]
fn a_timer_without_a_thread_has_nothing_to_end() {
    let (virtual_timer, _clock) = virtual_timer();
    let (by_hand, _driver) = Timer::builder().build_manual(|| {}).expect("the options are valid");
    for timer in [virtual_timer, by_hand] {
        let _sleep = polled(timer.sleep(SECOND));
        assert_eq!(timer.end_driver(), Ok(()));
    }
}

#[test]
fn no_driver_is_ended_from_a_callback_nor_from_a_thread_local_s_destructor() {
    struct AtEnd(Timer, mpsc::Sender<Option<usize>>);

    impl Drop for AtEnd {
        fn drop(&mut self) {
            let error = self.0.end_driver().expect_err("this is the driver's thread");
            let _ = self.1.send(error.armed());
        }
    }

    thread_local!(static AT_END: std::cell::RefCell<Option<AtEnd>> = const {
        std::cell::RefCell::new(None)
    });

    let (timer, other) = (named("refuses"), named("other"));
    other.start().expect("a thread");
    let (tell, told) = mpsc::channel();
    let (own, at_end) = (timer.clone(), AtEnd(timer.clone(), tell.clone()));
    let callback = timer.sleep(ms(1)).call(move || {
        AT_END.set(Some(at_end));
        for timer in [&own, &other] {
            let error = timer.end_driver().expect_err("this is a callback");
            tell.send(error.armed()).expect("it is waited for");
        }
    });
    assert_eq!((told.recv(), told.recv()), (Ok(None), Ok(None)));
    callback.cancel_and_wait();
    assert_eq!(timer.end_driver(), Ok(()));
    assert_eq!(told.recv(), Ok(None));
}

#[test]
fn threads_that_end_a_driver_at_the_same_time_all_wait_for_its_end() {
    let timer = named("two");
    for _ in 0..200 {
        timer.start().expect("a thread");
        std::thread::scope(|scope| {
            (0..3).for_each(|_| _ = scope.spawn(|| assert_eq!(timer.end_driver(), Ok(()))));
        });
    }
}

/// Beside arms that come at any time.
#[test]
fn sleeps_end_while_drivers_are_ended() {
    let timer = named("often");
    std::thread::scope(|scope| {
        let arming = scope.spawn(|| {
            for n in 0..500 {
                pollster::block_on(timer.sleep(std::time::Duration::from_micros(n)));
            }
        });
        while !arming.is_finished() {
            let _ = timer.end_driver();
        }
    });
    assert_eq!(timer.end_driver(), Ok(()));
}

#[cfg(target_os = "linux")]
#[test]
fn drivers_and_watchers_that_are_ended_leave_nothing_behind() {
    alone!();

    fn count(folder: &str) -> usize {
        std::fs::read_dir(folder).expect("procfs is there").count()
    }

    let mappings = || {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("procfs is there");
        maps.lines().count()
    };
    let counts = || (count("/proc/self/task"), count("/proc/self/fd"));
    let round = || {
        pollster::block_on(tourbillon::sleep(std::time::Duration::from_nanos(1)));
        Timer::global().start().expect("a thread");
        let wall = polled(tourbillon::wall::sleep_until_wall(SystemTime::now() + 3600 * SECOND));
        assert_eq!(Timer::global().end_driver().map_err(|error| error.armed()), Err(Some(1)));
        drop(wall);
        assert_eq!(Timer::global().end_driver(), Ok(()));
    };
    let before = counts();
    (0..10).for_each(|_| round());
    let stacks = mappings();
    (0..2_000).for_each(|_| round());
    eventually("all are gone", || counts() == before);
    // A kept stack is a mapping for each of the rounds. A sanitizer makes some of its own.
    assert!(mappings() < stacks + 200, "stacks are kept");
}

#[cfg(target_os = "linux")]
#[test]
fn a_watcher_stays_for_those_who_wait_as_another_timer_s_driver_ends() {
    alone!();
    let timer = named("ends");
    let _wall = polled(tourbillon::wall::sleep_until_wall(SystemTime::now() + 3600 * SECOND));
    eventually("it is watched for", || has_thread("tourbillon-wall"));
    timer.start().expect("a thread");
    assert_eq!(timer.end_driver(), Ok(()));
    assert!(has_thread("tourbillon-wall"));
}

#[test]
fn an_end_of_a_driver_waits_for_what_its_thread_leaves_behind() {
    struct Leaves(Arc<AtomicBool>);

    impl Drop for Leaves {
        fn drop(&mut self) {
            std::thread::sleep(ms(20));
            self.0.store(true, Ordering::SeqCst);
        }
    }

    std::thread_local!(static LEFT: RefCell<Option<Leaves>> = const { RefCell::new(None) });

    let (timer, has_left) = (named("leaves"), Arc::new(AtomicBool::new(false)));
    let (called, left) = (mpsc::channel(), has_left.clone());
    let callback = timer.sleep(ms(1)).call(move || {
        LEFT.set(Some(Leaves(left)));
        called.0.send(()).expect("it is waited for");
    });
    called.1.recv().expect("it is called");
    drop(callback);
    assert_eq!(timer.end_driver(), Ok(()));
    assert!(has_left.load(Ordering::SeqCst));
}

#[cfg(unix)]
#[test]
fn a_child_of_fork_leaves_its_parent_s_driver_alone() {
    alone!();
    let (own, mut far) = (named("parents"), tourbillon::sleep(3600 * SECOND));
    assert!(poll(&mut far).is_pending());
    own.start().expect("a thread");
    let status = crate::fork::status_of_a_child(|| {
        for timer in [Timer::global(), own.clone()] {
            assert_eq!(timer.end_driver(), Ok(()), "there is none here");
            pollster::block_on(timer.sleep(ms(1)));
            assert_eq!(timer.end_driver(), Ok(()));
        }
        drop(own.clone());
    });
    assert_eq!(status, 0, "the child failed, or hung");
    assert_eq!(Timer::global().end_driver().map_err(|error| error.armed()), Err(Some(1)));
    assert_eq!(own.end_driver(), Ok(()));
}

/// A process with a second thread may not leave its user namespace.
#[cfg(target_os = "linux")]
#[test]
fn a_process_whose_driver_was_ended_may_have_a_user_namespace() {
    alone!();

    use std::io::Error;

    fn unshare() -> Result<(), Option<i32>> {
        // SAFETY: a plain number.
        match unsafe { libc::unshare(libc::CLONE_NEWUSER) } {
            0 => Ok(()),
            _ => Err(Error::last_os_error().raw_os_error()),
        }
    }

    // The kernel may let nobody: then this shows nothing.
    if crate::fork::status_of_a_child(|| unshare().expect("it is let")) != 0 {
        println!("the kernel lets no process have a user namespace of its own");
        if std::env::var_os("TOURBILLON_NOT_CHECKED").is_some() {
            not_checked("a user namespace after the end of a driver", "the kernel lets nobody");
        }
        return;
    }
    let status = crate::fork::status_of_a_child(|| {
        pollster::block_on(tourbillon::sleep(ms(1)));
        let wall = polled(tourbillon::wall::sleep_until_wall(SystemTime::now() + 3600 * SECOND));
        drop(wall);
        assert_eq!(unshare(), Err(Some(libc::EINVAL)), "there are threads");
        assert_eq!(Timer::global().end_driver(), Ok(()));
        assert_eq!(unshare(), Ok(()));
    });
    assert_eq!(status, 0, "the child failed, or hung");
}

/// Run by `ci/hostile.sh`, in the repository, which names the library: the example `plugin`. Each
/// round has threads of its own, as values of thread-local storage keep a library loaded.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "run by ci/hostile.sh, which builds the library"]
fn a_library_that_ends_its_driver_can_be_unloaded() {
    use std::ffi::{CStr, CString, c_void};
    use std::os::unix::ffi::OsStrExt as _;

    fn find(library: *mut c_void, name: &CStr) -> *mut c_void {
        // SAFETY: the library is loaded, and `name` ends with a zero.
        let found = unsafe { libc::dlsym(library, name.as_ptr()) };
        assert!(!found.is_null(), "{name:?} is not there");
        found
    }

    let path = std::env::var_os("TOURBILLON_PLUGIN").expect("the script names it");
    let path = CString::new(path.as_bytes()).expect("a path");
    for _ in 0..1_000 {
        // SAFETY: the path ends with a zero; its initialisers are of the same code as this.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!library.is_null(), "it cannot be loaded");
        // SAFETY: that is its type.
        let work: extern "C" fn() = unsafe { std::mem::transmute(find(library, c"plugin_work")) };
        // SAFETY: as above.
        let end: extern "C" fn() -> bool =
            unsafe { std::mem::transmute(find(library, c"plugin_end")) };
        std::thread::spawn(move || work()).join().expect("it sleeps");
        assert!(std::thread::spawn(move || end()).join().expect("it ends"), "nothing is armed");
        // SAFETY: no thread has anything of it.
        assert_eq!(unsafe { libc::dlclose(library) }, 0);
        let maps = std::fs::read_to_string("/proc/self/maps").expect("procfs is there");
        assert!(!maps.contains("libplugin"), "it is still loaded");
    }
}
