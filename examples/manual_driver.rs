//! An event loop of one's own, over the `polling` crate, that also turns the timer's wheels: one
//! thread waits for sockets, for wake-ups and for timers in one place.
//!
//! ```text
//! cargo run --release --example manual_driver
//! ```
//!
//! The loop runs two tasks that sleep, and receives on a socket. Another thread sleeps on the same
//! timer. Its deadline is earlier than the one the loop waits for, so the hook ends that wait.

use std::collections::VecDeque;
use std::future::Future;
use std::net::{Ipv4Addr, UdpSocket};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};
use std::{io, thread};

use polling::{Event, Events, Poller};
use tourbillon::Timer;
use tourbillon::driver::Driver;

const SOCKET: usize = 0;

/// The tasks that are to be polled, by number.
struct Ready {
    queue: Mutex<VecDeque<usize>>,
    poller: Arc<Poller>,
}

impl Ready {
    fn push(&self, task: usize) {
        self.queue.lock().unwrap().push_back(task);
    }

    fn pop(&self) -> Option<usize> {
        self.queue.lock().unwrap().pop_front()
    }
}

struct TaskWaker {
    task: usize,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.ready.push(self.task);
        self.ready.poller.notify().unwrap();
    }
}

type Task = Pin<Box<dyn Future<Output = ()>>>;

struct EventLoop {
    driver: Driver,
    poller: Arc<Poller>,
    ready: Arc<Ready>,
    /// With its waker, each task that has not ended.
    tasks: Vec<Option<(Task, Waker)>>,
}

impl EventLoop {
    fn new() -> io::Result<Self> {
        let poller = Arc::new(Poller::new()?);
        let hook = Arc::clone(&poller);
        let (_, driver) = Timer::builder().build_manual(move || hook.notify().unwrap())?;
        let ready = Ready { queue: Mutex::default(), poller: Arc::clone(&poller) };
        Ok(Self { driver, poller, ready: Arc::new(ready), tasks: Vec::new() })
    }

    fn spawn(&mut self, task: impl Future<Output = ()> + 'static) {
        let number = self.tasks.len();
        let waker = Arc::new(TaskWaker { task: number, ready: Arc::clone(&self.ready) });
        self.tasks.push(Some((Box::pin(task), waker.into())));
        self.ready.push(number);
    }

    /// Runs until every task has ended; calls `readable` whenever the socket is.
    fn run(&mut self, mut readable: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        let mut events = Events::new();
        loop {
            while let Some(number) = self.ready.pop() {
                let slot = &mut self.tasks[number];
                // A task may be woken once more after it has ended.
                let Some((task, waker)) = slot else { continue };
                if task.as_mut().poll(&mut Context::from_waker(waker)).is_ready() {
                    *slot = None;
                }
            }
            if self.tasks.iter().all(Option::is_none) {
                return Ok(());
            }
            // Last before the wait: it counts in the timers that the tasks have armed, and any
            // timer armed from here on calls the hook. Tasks woken by this turn end the wait at
            // once, since their waker notifies.
            self.driver.turn();
            events.clear();
            self.poller.wait(&mut events, self.driver.max_wait())?;
            if events.iter().any(|event| event.key == SOCKET) {
                readable()?;
            }
        }
    }
}

fn main() -> io::Result<()> {
    let ms = Duration::from_millis;
    let start = Instant::now();
    let log = move |what: &str| println!("{:4} ms: {what}", start.elapsed().as_millis());

    let mut event_loop = EventLoop::new()?;
    let timer = event_loop.driver.timer().clone();
    for (name, period) in [("task A", ms(70)), ("task B", ms(200))] {
        let timer = timer.clone();
        event_loop.spawn(async move {
            for _ in 0..3 {
                timer.sleep(period).await;
                log(&format!("{name} has slept for {period:?}"));
            }
        });
    }

    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_nonblocking(true)?;
    // SAFETY: the socket is deleted from the poller below, before it is dropped.
    unsafe { event_loop.poller.add(&socket, Event::readable(SOCKET))? };

    let address = socket.local_addr()?;
    let remote = thread::spawn(move || {
        thread::sleep(ms(100)); // the loop waits for task A, due at 140 ms
        pollster::block_on(timer.sleep(ms(10)));
        log("the other thread has slept for 10ms, and sends");
        UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.send_to(b"hello", address)
    });

    let mut received = 0;
    let poller = Arc::clone(&event_loop.poller);
    event_loop.run(|| {
        received += socket.recv(&mut [0; 16])?;
        log("the loop has received");
        poller.modify(&socket, Event::readable(SOCKET)) // a poller reports each interest once
    })?;
    poller.delete(&socket)?;

    assert_eq!(remote.join().unwrap()?, received);
    println!("{:?}", event_loop.driver.timer().stats());
    Ok(())
}
