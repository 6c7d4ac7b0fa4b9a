/**
 * @file Opens the page in a headless Chromium, through its driver: `node --test`, with the page's
 * directory in PAGE, the driver in CHROMEDRIVER, and in SCREENSHOT where to leave a picture, if any.
 */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

const { PAGE, CHROMEDRIVER, SCREENSHOT } = process.env;
const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.wasm': 'application/wasm' };

const server = createServer(async (request, response) => {
  const name = request.url === '/' ? 'index.html' : request.url.slice(1);
  try {
    const body = await readFile(join(PAGE, name));
    response.writeHead(200, { 'content-type': TYPES[extname(name)] }).end(body);
  } catch {
    response.writeHead(404).end();
  }
});
let driver;
let session;

/** One command of WebDriver, within the session once there is one. */
async function command(method, path, body) {
  const answer = await fetch(`${session}${path}`, { method, body: body && JSON.stringify(body) });
  const { value } = await answer.json();
  assert.ok(answer.ok, JSON.stringify(value));
  return value;
}

const run = (script, ...args) => command('POST', '/execute/sync', { script, args });
const text = (id) => run('return document.getElementById(arguments[0]).textContent', id);

/** Waits until it is so, with no limit but the test's. */
async function until(isSo) {
  while (!await isSo()) await sleep(50);
}

before(async () => {
  await new Promise((done) => { server.listen(0, '127.0.0.1', done); });
  driver = spawn(CHROMEDRIVER, ['--port=0']);
  const port = await new Promise((done) => {
    driver.stdout.on('data', (data) => {
      const started = /started successfully on port (\d+)/.exec(data);
      if (started) done(started[1]);
    });
  });
  session = `http://127.0.0.1:${port}`;
  const args = ['--headless=new', '--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'];
  const { sessionId } = await command('POST', '/session', { capabilities: { alwaysMatch: {
    'goog:chromeOptions': { args: [...args, '--window-size=720,640', '--hide-scrollbars'] },
    'goog:loggingPrefs': { browser: 'ALL' },
  } } });
  session += `/session/${sessionId}`;
  await command('POST', '/url', { url: `http://127.0.0.1:${server.address().port}/` });
  await until(() => text('left'));
});

after(async () => {
  await command('DELETE', '');
  driver.kill();
  server.close();
});

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
