#![no_std]
#![no_main]

mod board; // a heap, a counter whose interrupt comes with each tick, output

use core::future::{Future, pending};
use core::pin::pin;
use core::task::{Context, Waker};
use core::time::Duration;

use tourbillon::Timer;
use tourbillon::time::Instant;

#[cortex_m_rt::entry]
fn main() -> ! {
    board::start();
    let now = || Instant::from_ticks(board::ticks(), board::TICKS_PER_SEC);
    // This loop wakes up with each tick. One that sleeps for longer has its wait ended here.
    let (timer, mut driver) = Timer::builder().build_manual(now, || {});
    Timer::set_global(timer).expect("there is none yet");

    tourbillon::interval(Duration::from_millis(250)).call(|_| board::print("blink")).detach();
    let mut task = pin!(async {
        tourbillon::sleep(Duration::from_millis(600)).await;
        board::print("waiting for an answer");
        let answer = tourbillon::timeout(Duration::from_secs(1), pending::<()>()).await;
        board::print(answer.expect_err("nobody answers"));
    });
    loop {
        driver.turn();
        // Stands for an executor, which would poll the task when its waker was woken.
        if task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            board::end();
        }
        cortex_m::asm::wfi();
    }
}
