//! A page with timers: a countdown, an input that is debounced, and an animation beside ten
//! thousand pending timers. `ci/web.sh page` builds it, tests it, and says where it is.

use std::cell::Cell;
use std::rc::Rc;

use futures_channel::mpsc;
use futures_util::StreamExt as _;
use tourbillon::StreamExt as _;
use tourbillon::Timer;
use tourbillon::time::{Duration, Instant};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{Document, HtmlElement, HtmlInputElement, Window};

const COUNTDOWN: Duration = Duration::from_secs(60);
const SILENCE: Duration = Duration::from_millis(300);
const CROWD: usize = 10_000;
/// Time that the ball takes from one end to the other.
const WAY_MS: f64 = 2_000.0;

fn window() -> Window {
    web_sys::window().expect("this is a page")
}

fn document() -> Document {
    window().document().expect("a page has one")
}

fn element<T: JsCast>(id: &str) -> T {
    document().get_element_by_id(id).expect("it is in index.html").unchecked_into()
}

fn show(id: &str, text: &str) {
    element::<HtmlElement>(id).set_text_content(Some(text));
}

/// Calls a function at each event of an element, for as long as the page is there.
fn on(id: &str, event: &str, call: impl FnMut() + 'static) {
    let call = Closure::<dyn FnMut()>::new(call).into_js_value();
    let target = element::<HtmlElement>(id);
    target.add_event_listener_with_callback(event, call.unchecked_ref()).expect("it is a function");
}

async fn countdown() {
    let start = Rc::new(Cell::new(Instant::now()));
    let again = Rc::clone(&start);
    on("restart", "click", move || again.set(Instant::now()));
    let mut tenths = tourbillon::interval(Duration::from_millis(100));
    loop {
        let left = COUNTDOWN.saturating_sub(start.get().elapsed());
        show("left", &format!("{:.1} s", left.as_secs_f64()));
        tenths.tick().await;
    }
}

async fn search() {
    let (typed, texts) = mpsc::unbounded();
    on("search", "input", move || {
        let text = element::<HtmlInputElement>("search").value();
        typed.unbounded_send(text).expect("the other end is there");
    });
    let mut texts = texts.debounce(SILENCE);
    while let Some(text) = texts.next().await {
        show("asked", &text);
    }
}

/// One of the crowd: sleeps again and again, for up to ten seconds.
async fn sleeper() {
    loop {
        tourbillon::sleep(Duration::from_secs_f64(10.0 * js_sys::Math::random())).await;
    }
}

async fn next_frame() {
    let promise = js_sys::Promise::new(&mut |resolve, _| {
        window().request_animation_frame(&resolve).expect("it is a function");
    });
    JsFuture::from(promise).await.expect("it is never rejected");
}

async fn animation() {
    let still = "(prefers-reduced-motion: reduce)";
    let still = window().match_media(still).ok().flatten().is_some_and(|query| query.matches());
    let (ball, track) = (element::<HtmlElement>("ball"), element::<HtmlElement>("track"));
    let (start, mut second, mut frames) = (Instant::now(), Instant::now(), 0);
    loop {
        next_frame().await;
        frames += 1;
        if second.elapsed() >= Duration::from_secs(1) {
            show("frames", &frames.to_string());
            (second, frames) = (Instant::now(), 0);
        }
        if !still {
            let there = (start.elapsed().as_secs_f64() * 1e3 / WAY_MS) % 2.0;
            let there = if there > 1.0 { 2.0 - there } else { there };
            let way = f64::from(track.client_width() - ball.client_width());
            let moved = format!("translateX({}px)", way * there);
            ball.style().set_property("transform", &moved).expect("it is a property");
        }
    }
}

async fn figures() {
    let mut interval = tourbillon::interval(Duration::from_millis(250));
    loop {
        interval.tick().await;
        let stats = Timer::global().stats();
        show("pending", &stats.pending.to_string());
        show("fired", &stats.fired.to_string());
        show("wakeups", &stats.driver_wakeups.to_string());
    }
}

fn main() {
    spawn_local(countdown());
    spawn_local(search());
    spawn_local(animation());
    spawn_local(figures());
    for _ in 0..CROWD {
        spawn_local(sleeper());
    }
}
