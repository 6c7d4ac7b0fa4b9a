/**
 * @file Opens the page in a headless Chromium, through its driver: `node --test`, with the page's
 * directory in PAGE, the driver in CHROMEDRIVER, and in SCREENSHOT where to leave a picture, if any.
 */

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';

import { open, until } from './browser.mjs';

const { PAGE, SCREENSHOT } = process.env;
let browser;

const command = (...call) => browser.command(...call);
const run = (...call) => browser.run(...call);
const text = (id) => run('return document.getElementById(arguments[0]).textContent', id);

before(async () => {
  browser = await open({
    directory: PAGE,
    options: { args: ['--window-size=720,640', '--hide-scrollbars'] },
    more: { 'goog:loggingPrefs': { browser: 'ALL' } },
  });
  await browser.goTo('/');
  await until(() => text('left'));
});

after(() => browser.close());

test('the countdown goes on, and starts again', async () => {
  const left = async () => Number.parseFloat(await text('left'));
  const first = await left();
  await until(async () => await left() < first - 1);
  const later = await left();
  await run('document.getElementById("restart").click()');
  await until(async () => await left() > later);
});

test('the input is asked once, for what was typed last', async () => {
  await run(`
    window.asked = [];
    new MutationObserver(() => window.asked.push(document.getElementById('asked').textContent))
      .observe(document.getElementById('asked'), { childList: true });
    const search = document.getElementById('search');
    for (const text of ['t', 'ti', 'time']) {
      search.value = text;
      search.dispatchEvent(new Event('input'));
    }`);
  await until(() => run('return window.asked.length'));
  assert.deepEqual(await run('return window.asked'), ['time']);
});

test('ten thousand timers are pending and fire, beside an animation', async () => {
  const figure = async (id) => Number(await text(id));
  await until(async () => await figure('pending') >= 9_900 && await figure('frames') > 0);
  const fired = await figure('fired');
  await until(async () => await figure('fired') > fired + 1_000);
});

test('it is light or dark as the reader has it, and has names for what can be used', async () => {
  const textColor = async (value) => {
    const features = [{ name: 'prefers-color-scheme', value }];
    await command('POST', '/goog/cdp/execute', {
      cmd: 'Emulation.setEmulatedMedia', params: { features },
    });
    return run('return getComputedStyle(document.body).color');
  };
  assert.equal(await textColor('dark'), 'rgb(255, 255, 255)');
  assert.equal(await textColor('light'), 'rgb(0, 0, 0)');
  for (const id of ['left', 'restart', 'search']) {
    const found = await command('POST', '/element', { using: 'css selector', value: `#${id}` });
    const [element] = Object.values(found);
    assert.notEqual(await command('GET', `/element/${element}/computedlabel`), '', id);
  }
});

test('nothing was wrong', async () => {
  assert.deepEqual(await command('POST', '/se/log', { type: 'browser' }), []);
  if (SCREENSHOT) {
    await writeFile(SCREENSHOT, Buffer.from(await command('GET', '/screenshot'), 'base64'));
  }
});
