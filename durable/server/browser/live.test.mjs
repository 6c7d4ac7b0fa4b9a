/** @file The page against a real server, on a store of its own, that calls a real receiver. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { accessible, go, isLive, launch, open } from './browser.mjs';

const folder = mkdtempSync(join(tmpdir(), 'tourbillon-page.'));
let browser;
let server;
let url;
let receiver;
/** What the receiver was called with: `{path, key}`. */
const calls = [];
/** Paths that the receiver refuses. */
const broken = new Set();
/** Those who wait for a call. */
let waiting = [];

/** Waits until the receiver was called under `path` more than `before` times. */
async function called(path, before = 0) {
  const many = () => calls.filter((call) => call.path === path).length;
  while (many() <= before) await new Promise((resolve) => waiting.push(resolve));
  return many();
}

before(async () => {
  receiver = createServer((request, response) => {
    request.resume();
    request.on('end', () => {
      response.writeHead(broken.has(request.url) ? 503 : 204).end();
      calls.push({ path: request.url, key: request.headers['idempotency-key'] });
      waiting.forEach((resolve) => resolve());
      waiting = [];
    });
  });
  receiver.listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  server = spawn(process.env.TOURBILLOND,
    ['--store', join(folder, 'timers.db'), '--listen', '127.0.0.1:0'],
    { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  for await (const part of server.stdout) {
    text += part;
    url = /http:\/\/[\d.:]+/.exec(text)?.[0];
    if (url && text.includes('\n')) break;
  }
  browser = await launch();
});

after(async () => {
  await browser?.close();
  server?.kill('SIGTERM');
  if (server && server.exitCode === null) await once(server, 'exit');
  receiver?.close();
  rmSync(folder, { recursive: true });
});

const to = (path) => `http://127.0.0.1:${receiver.address().port}${path}`;

/** Fills the form, and creates what it says. */
async function create(page, key, kind, label, span, path, attempts) {
  await go(page, '/edit', 'New schedule');
  await page.getByLabel('Key', { exact: true }).fill(key);
  await page.getByLabel(kind).check();
  await page.getByLabel(label, { exact: true }).fill(span);
  await page.getByLabel('URL').fill(to(path));
  if (attempts) {
    await page.getByText('Retries, misses and overlaps').click();
    await page.getByLabel('Attempts').fill(attempts);
  }
  await page.getByText('It would fire:').waitFor();
  await accessible(page, 'the form');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('status').getByText(`${key} is created`).waitFor();
  await page.getByRole('heading', { level: 1, name: key }).waitFor();
}

test('a schedule is made, seen to fire, and silent once it is disabled', async () => {
  const page = await open(browser, url);
  await isLive(page);
  await create(page, 'tick', 'Again and again', 'Period', '1s', '/tick');
  await go(page, '/now', 'Now');
  await called('/tick', 1);
  const last = page.getByRole('table', { name: 'Attempts that ended' });
  await last.getByRole('row').filter({ hasText: 'tick' }).filter({ hasText: 'succeeded' })
    .filter({ hasText: '204' }).first().waitFor();
  await accessible(page, 'what happens now');
  await go(page, '/schedules', 'Schedules');
  await page.getByRole('button', { name: 'Disable tick' }).click();
  await page.getByRole('status').getByText('tick is disabled: no new callback starts').waitFor();
  await page.getByRole('button', { name: 'Enable tick' }).waitFor();

  // What ran when it was disabled ends; then whatever fires later proves that time went on.
  const answered = await called('/tick');
  await create(page, 'later', 'Once, after a while', 'How long from now', '3s', '/later');
  await called('/later');
  const running = calls.filter(({ path }) => path === '/tick').length - answered;
  assert.ok(running <= 1, `${running} calls after it was disabled`);
  const keys = calls.filter(({ path }) => path === '/tick').map(({ key }) => key);
  assert.equal(new Set(keys).size, keys.length, 'each call has a key of its own');

  await go(page, '/runs?key=tick', 'Runs');
  await page.getByRole('row').filter({ hasText: 'succeeded' }).first().waitFor();
  await accessible(page, 'runs');
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test('it fires now when it is told to', async () => {
  const page = await open(browser, url);
  await isLive(page);
  await create(page, 'yearly', 'Again and again', 'Period', '8760h', '/yearly');
  await page.getByRole('button', { name: 'Fire now' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Fire' }).click();
  await called('/yearly');
  await page.getByRole('table', { name: 'Last runs' }).getByText('succeeded').waitFor();
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('status').getByText('yearly is deleted').waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test('what was given up is retried', async () => {
  broken.add('/mended');
  const page = await open(browser, url);
  await isLive(page);
  await create(page, 'mended', 'Once, after a while', 'How long from now', '1s', '/mended', '1');
  await go(page, '/dead', 'Dead letters');
  const dead = page.getByRole('row').filter({ hasText: 'mended' }).filter({ hasText: '503' });
  await dead.waitFor();
  await accessible(page, 'dead letters');
  broken.delete('/mended');
  const before = await called('/mended');
  await dead.getByRole('button', { name: 'Retry' }).click();
  await page.getByRole('status').getByText('mended is tried again').waitFor();
  await called('/mended', before);
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test('a fault is said by the field it is in', async () => {
  const page = await open(browser, url);
  await isLive(page);
  await go(page, '/edit', 'New schedule');
  const cron = page.getByLabel('Cron expression', { exact: true });
  await cron.fill('61 * * * *');
  await page.locator('[data-field="when.cron"][aria-invalid=true]').waitFor();
  await cron.fill('30 2 * * *');
  await page.getByLabel('Zone').fill('Mars/Olympus');
  await page.locator('[data-field="when.zone"][aria-invalid=true]').waitFor();
  await page.getByLabel('Zone').fill('Europe/Berlin');
  await page.getByText('It would fire:').waitFor();
  await page.context().close();
});
