// Sleeps beside tools that fake time: @sinonjs/fake-timers, which sinon, jest and vitest are built on,
// and the mocks of node:test. The environment has the path of the program that
// examples/requests.rs is built to.

import FakeTimers from "@sinonjs/fake-timers";
import assert from "node:assert";
import { createRequire } from "node:module";
import { mock, test } from "node:test";

const require = createRequire(import.meta.url);
const { answer, pending } = require(process.env.PROGRAM);
const microtasks = async () => { for (let turn = 0; turn < 10; turn += 1) await null };

function sleep(milliseconds) {
    const state = { isOver: false };
    state.end = answer(milliseconds, () => { state.isOver = true });
    return state;
}

const all = ["setTimeout", "clearTimeout", "Date", "performance"];

test("time that is faked, real, and faked again ends each sleep at its time", async () => {
    await sleep(5).end;
    for (let round = 0; round < 2; round += 1) {
        const clock = FakeTimers.install({ toFake: all });
        const faked = sleep(1_000);
        await microtasks();
        await clock.tickAsync(999);
        assert.ok(!faked.isOver);
        await clock.tickAsync(1);
        assert.ok(faked.isOver);
        clock.uninstall();
        await sleep(5).end;
    }
    assert.strictEqual(pending(), 0);
});

test("a program that is loaded while time is faked sleeps in real time afterwards", async () => {
    const clock = FakeTimers.install({ toFake: all });
    delete require.cache[require.resolve(process.env.PROGRAM)];
    const loaded = require(process.env.PROGRAM);
    let isOver = false;
    const end = loaded.answer(1_000, () => { isOver = true });
    await microtasks();
    await clock.tickAsync(999);
    assert.ok(!isOver);
    await clock.tickAsync(1);
    await end;
    clock.uninstall();
    assert.strictEqual(await loaded.answer(5, () => 7), 7);
});

test("a sleep that is left over from real time has its remaining time", async () => {
    const before = sleep(30);
    await microtasks();
    const clock = FakeTimers.install({ toFake: all });
    await clock.tickAsync(5);
    clock.uninstall();
    await before.end;
});

test("a timeout alone that is faked and gone takes no later sleep with it", async () => {
    const clock = FakeTimers.install({ toFake: ["setTimeout", "clearTimeout"] });
    const lost = sleep(10);
    await microtasks();
    clock.uninstall();
    await sleep(5).end;
    assert.ok(!lost.isOver);
});

test("where microtasks are faked too, ticks run them", async () => {
    const clock = FakeTimers.install();
    const faked = sleep(20);
    await microtasks();
    // One for the first poll, one for the deadline, and one for the task that it wakes.
    for (const milliseconds of [1, 20, 1]) await clock.tickAsync(milliseconds);
    clock.uninstall();
    assert.ok(faked.isOver);
    await sleep(5).end;
});

test("the mocks of node:test leave the clock, so a tick ends no sleep", async () => {
    mock.timers.enable({ apis: ["setTimeout"] });
    const mocked = sleep(60_000);
    await microtasks();
    mock.timers.tick(60_000);
    await microtasks();
    assert.ok(!mocked.isOver);
    mock.timers.reset();
    await sleep(5).end;
});
