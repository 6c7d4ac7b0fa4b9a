//! Runs a job to its end, and logs its output.

use std::fmt::{Arguments, Display};
use std::future::{Future, pending};
use std::pin::pin;
use std::process::{ChildStdin, ChildStdout};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use futures::channel::oneshot;
use futures::future::{Either, select};
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitIdStatus, waitid};
use smol::Async;
use smol::future::or;
use smol::io::AsyncWriteExt;

use super::files::Entry;
use super::log::Log;
use super::output::{self, OUTPUT_MAX};
use super::process::{self, Started};
use super::running::Running;

/// Runs a job to its end, and logs its output as it comes.
pub(crate) async fn execute(entry: Arc<Entry>, log: Log, running: Running) {
    let place = entry.place();
    let tell = |text: Arguments<'_>| log.tell(format_args!("{place}: {text}"));
    if let Err(error) = run(entry, &running, tell).await {
        tell(format_args!("did not run: {error}"));
    }
}

/// Fails if the job cannot be started.
async fn run(
    entry: Arc<Entry>,
    running: &Running,
    tell: impl Fn(Arguments<'_>),
) -> Result<(), String> {
    let start = Instant::now();
    let (Started { mut child, notice }, end) = launch(Arc::clone(&entry), running.clone()).await?;
    if let Some(notice) = notice {
        tell(format_args!("{notice}"));
    }
    let leader = Pid::from_child(&child);
    let write = write(child.stdin.take(), entry.job.input.as_deref());
    let copy = copy(child.stdout.take().expect("it is piped"), &tell);
    let ended = |end: String| tell(format_args!("{} after {:.1?}", end, start.elapsed()));
    let life = async {
        let mut copy = pin!(copy);
        match select(end, copy.as_mut()).await {
            Either::Left((end, _)) => {
                // Takes the output so far, and does not wait for other processes' output.
                let is_over = futures::poll!(copy.as_mut()).is_ready();
                ended(end);
                if !is_over {
                    copy.await;
                }
            }
            Either::Right(((), end)) => ended(end.await),
        }
    };
    // A job need not read its input.
    or(life, async {
        write.await;
        pending().await
    })
    .await;
    // Its group has a number of its own until here, even where the shell has ended long ago.
    running.leave(leader);
    let _ = child.wait();
    Ok(())
}

/// Starts a job from a thread of its own, which waits for the end of its shell and reports it: to
/// look up a user, to start a process and to wait for one are calls that block.
async fn launch(
    entry: Arc<Entry>,
    running: Running,
) -> Result<(Started, impl Future<Output = String> + Unpin), String> {
    let (started, start) = oneshot::channel();
    let (ended, end) = oneshot::channel();
    let wait = move || {
        let result = process::start(&entry.job);
        let leader = result.as_ref().ok().map(|started| Pid::from_child(&started.child));
        if let Some(leader) = leader {
            running.enter(leader);
        }
        let _ = started.send(result);
        if let Some(leader) = leader {
            let _ = ended.send(shown(wait(leader)));
        }
    };
    let thread = thread::Builder::new().name("crontab job".to_owned()).spawn(wait);
    thread.map_err(|error| format!("no thread can be started for it: {error}"))?;
    let started = start.await.expect("the thread tells")?;
    Ok((started, Box::pin(async { end.await.expect("the thread tells") })))
}

/// Waits until a child has ended, and leaves it there: until it is reaped, nobody else gets its
/// number.
fn wait(child: Pid) -> Result<WaitIdStatus, Errno> {
    loop {
        match waitid(WaitId::Pid(child), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Ok(None) | Err(Errno::INTR) => {}
            Ok(Some(status)) => return Ok(status),
            Err(error) => return Err(error),
        }
    }
}

fn shown(end: Result<WaitIdStatus, Errno>) -> String {
    let status = match end {
        Ok(status) => status,
        Err(error) => return format!("ended, and cannot be waited for ({error}),"),
    };
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("ended with {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

async fn write(stdin: Option<ChildStdin>, input: Option<&str>) {
    if let (Some(stdin), Some(input)) = (stdin, input) {
        if let Ok(mut stdin) = Async::new(stdin) {
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    }
}

/// Logs a job's output, until no process can print for it any more.
async fn copy(stdout: ChildStdout, tell: &impl Fn(Arguments<'_>)) {
    let line = |text: &str| tell(format_args!("| {text}"));
    let failed = |error: &dyn Display| tell(format_args!("its output cannot be read: {error}"));
    let copied = match Async::new(stdout) {
        Ok(stdout) => output::copy(stdout, line).await,
        Err(error) => return failed(&error),
    };
    match copied {
        Ok(0) => {}
        Ok(left_out) => {
            let what = format_args!("{left_out} bytes of output beyond {OUTPUT_MAX} are left out");
            tell(format_args!("{what}"));
        }
        Err(error) => failed(&error),
    }
}
