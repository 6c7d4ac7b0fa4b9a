/**
 * @file Pages of other sites against a real server without tokens: what a browser sends for them,
 * and under a name that leads to the server (DNS rebinding).
 */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { isLive, launch, serve } from './browser.mjs';

const folder = mkdtempSync(join(tmpdir(), 'tourbillon-attacks.'));
let browser;
let server;
let port;
let receiver;
let evil;
/** The paths that the receiver was called by. */
const calls = [];

const schedules = '/v1/apps/default/schedules';
const to = (path) => `http://127.0.0.1:${receiver.address().port}${path}`;
const own = { key: 'own', when: { every: '8760h' }, callback: { url: 'http://127.0.0.1:9/' } };

/** Asks the server as no browser does. */
async function ask(method, path, body) {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
    method, headers: { 'content-type': 'application/json' },
    body: body && JSON.stringify(body),
  });
  assert.ok(answer.ok, `${method} ${path}: ${answer.status}`);
  return answer.json();
}

/** Starts a server, and waits until it listens. */
async function listen(handle) {
  const listening = createServer(handle).listen(0, '127.0.0.1');
  await once(listening, 'listening');
  return listening;
}

before(async () => {
  receiver = await listen((request, response) => {
    calls.push(request.url);
    response.writeHead(204).end();
  });
  evil = await listen((_, response) => {
    response.writeHead(200, { 'content-type': 'text/html' }).end('<title>evil</title>');
  });
  server = await serve(folder);
  port = new URL(server.url).port;
  browser = await launch('--host-resolver-rules=MAP *.example 127.0.0.1');
});

after(async () => {
  await browser?.close();
  await server?.stop();
  receiver?.close();
  evil?.close();
  rmSync(folder, { recursive: true });
});

/** What a page of another site tries; it runs in that page. Returns what it could read. */
async function attack({ base, timer, one }) {
  const read = [];
  const send = async (path, options) => {
    try {
      const answer = await fetch(`${base}${path}`, options);
      if (answer.type !== 'opaque' && answer.ok) read.push([path, await answer.text()]);
    } catch {
      // The browser, or the server, has refused it.
    }
  };
  const post = { method: 'POST' };
  const blind = { ...post, mode: 'no-cors' };
  const json = { 'content-type': 'application/json' };
  // As text, and as nothing, which a browser sends without asking; as a form; and as what it asks
  // for first.
  await send('/api/timer/v1/def', { ...blind, body: timer });
  await send('/api/timer/v1/def', { ...blind, body: new Blob([timer]) });
  await send('/api/timer/v1/def', { ...post, headers: json, body: timer });
  await send('/v1/apps/default/schedules', { ...blind, body: one });
  await send('/v1/apps/default/schedules', { ...post, headers: json, body: one });
  await send('/v1/apps/default/schedules/own/run-now', blind);
  await send('/v1/apps/default/schedules/own/disable', blind);
  await send('/v1/apps/default/schedules/own', { method: 'DELETE' });
  await send('/v1/apps/default/schedules', {});
  await send('/v1/apps/default/schedules', { mode: 'no-cors' });
  for (const [path, name, value] of [
    // The name and the value of a field are the two halves of a JSON text.
    ['/api/timer/v1/def', `${timer.slice(0, -1)},"x":"`, '"}'],
    ['/v1/apps/default/schedules/own/disable', '', ''],
  ]) {
    const frame = document.createElement('iframe');
    frame.name = `frame${document.forms.length}`;
    const form = document.createElement('form');
    Object.assign(form, {
      method: 'post', enctype: 'text/plain', action: `${base}${path}`, target: frame.name,
    });
    const field = document.createElement('input');
    Object.assign(field, { name, value });
    form.append(field);
    document.body.append(frame, form);
    const loaded = new Promise((resolve) => frame.addEventListener('load', resolve));
    form.submit();
    await loaded;
  }
  return read;
}

/** Opens a page, and has it try everything. */
async function tries(url, base) {
  const page = await browser.newPage();
  await page.goto(url);
  const callback = { method: 'POST', url: to('/attack'), header: { 'X-Inner': ['1'] } };
  const timer = JSON.stringify({
    app: 'default', name: 'a', creator: 'b', status: 2, cron: '* * * * * * *',
    notifyHTTPParam: callback,
  });
  const one = JSON.stringify({ when: { after: '0s' }, callback: { url: to('/attack') } });
  const read = await page.evaluate(attack, { base, timer, one });
  await page.close();
  return read;
}

/** Fails if anything was made, changed or called. */
async function isUntouched(read) {
  assert.deepEqual(read, [], 'nothing is read');
  const { items } = await ask('GET', schedules);
  assert.deepEqual(items.map(({ key, state }) => [key, state]), [['own', 'enabled']]);
  const { items: runs } = await ask('GET', '/v1/apps/default/runs');
  assert.deepEqual(runs, [], 'nothing was run');
  assert.deepEqual(calls, [], 'nothing was called');
}

for (const [what, host] of [
  ['a page of another port', '127.0.0.1'],
  ['a page of another spelling of this host', 'localhost'],
  ['a page of another site', 'evil.example'],
]) {
  test(`${what} makes, runs and reads nothing`, async () => {
    await ask('POST', schedules, own);
    const url = `http://${host}:${evil.address().port}/`;
    await isUntouched(await tries(url, `http://127.0.0.1:${port}`));
  });
}

test('under a name that was rebound, nothing is read and nothing made', async () => {
  await ask('POST', schedules, own);
  const base = `http://rebound.example:${port}`;
  await isUntouched(await tries(`${base}/`, base));
});

test('the server\'s own page is served by each name of this host', async () => {
  for (const host of ['127.0.0.1', 'localhost']) {
    const page = await browser.newPage();
    await page.goto(`http://${host}:${port}/`);
    await isLive(page);
    const made = await page.evaluate(async (path) => {
      const answer = await fetch(path, { method: 'POST' });
      return answer.status;
    }, `${schedules}/own/disable`);
    assert.equal(made, 200);
    await page.close();
  }
});
