//! bevy: tasks that sleep in the game's time, which its relative speed and its pause change.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bevy_app::{App, First, Plugin};
use bevy_ecs::prelude::{IntoScheduleConfigs, NonSendMut, Res};
use bevy_time::{Time, TimePlugin, TimeSystems, TimeUpdateStrategy, Virtual};
use futures::executor::LocalPool;
use futures::task::LocalSpawnExt;
use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;

/// Timers in the game's time, and the tasks that use them.
struct GameTime {
    clock: VirtualClock,
    timer: Timer,
    tasks: LocalPool,
}

struct GameTimePlugin;

impl Plugin for GameTimePlugin {
    fn build(&self, app: &mut App) {
        let clock = VirtualClock::new();
        let timer = Timer::builder().virtual_clock(&clock).build().expect("the options are valid");
        app.insert_non_send(GameTime { clock, timer, tasks: LocalPool::new() });
        app.add_systems(First, move_time.after(TimeSystems));
    }
}

/// Moves the timers by the length of the frame, and runs each task at its deadline within it.
fn move_time(time: Res<Time<Virtual>>, mut game: NonSendMut<GameTime>) {
    let GameTime { clock, tasks, .. } = &mut *game;
    clock.advance_with(time.delta(), || tasks.run_until_stalled());
}

#[test]
fn tasks_sleep_in_the_games_time() {
    let mut app = App::new();
    app.add_plugins((TimePlugin, GameTimePlugin));
    app.insert_resource(TimeUpdateStrategy::ManualDuration(Duration::from_millis(100)));
    let seconds = Arc::new(AtomicU32::new(0));
    let game = app.world().non_send::<GameTime>();
    let (timer, count) = (game.timer.clone(), Arc::clone(&seconds));
    let spawned = game.tasks.spawner().spawn_local(async move {
        loop {
            timer.sleep(Duration::from_secs(1)).await;
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    spawned.expect("the pool is there");
    let frames = |app: &mut App, count| {
        (0..count).for_each(|_| app.update());
        seconds.load(Ordering::Relaxed)
    };
    let _first_of_no_length = frames(&mut app, 1);
    assert_eq!(frames(&mut app, 30), 3);
    app.world_mut().resource_mut::<Time<Virtual>>().set_relative_speed(0.5);
    assert_eq!(frames(&mut app, 40), 5);
    app.world_mut().resource_mut::<Time<Virtual>>().pause();
    assert_eq!(frames(&mut app, 100), 5);
}
