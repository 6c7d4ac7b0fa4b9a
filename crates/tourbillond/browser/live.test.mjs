/** @file The page against a real server, on a store of its own, that calls a real receiver. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { accessible, close, go, isLive, launch, open, openMenu, serve } from './browser.mjs';

const folder = mkdtempSync(join(tmpdir(), 'tourbillon-page.'));
let browser;
let server;
let url;
let receiver;
/** What the receiver was called with: `{path, key, headers}`. */
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
      const { headers } = request;
      calls.push({ path: request.url, key: headers['idempotency-key'], headers });
      waiting.forEach((resolve) => resolve());
      waiting = [];
    });
  });
  receiver.listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  const config = join(folder, 'apps.toml');
  writeFileSync(config, `[apps.default]
networks = ["127.0.0.0/8"]
[apps.default.header_secrets]
ledger = { value = "of-the-configuration", hosts = ["127.0.0.1"] }
`, { mode: 0o600 });
  server = await serve(folder, '--config', config);
  url = server.url;
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.stop();
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
    await page.getByText('Retries, missed runs and overlaps').click();
    await page.getByLabel('Attempts').fill(attempts);
  }
  await page.getByText('It would run at:').waitFor();
  await accessible(page, 'the form');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('status').getByText(`${key} is created`).waitFor();
  await page.getByRole('heading', { level: 1, name: key }).waitFor();
}

test('the example of the first visit works', async () => {
  const page = await open(browser, url);
  await isLive(page);
  await page.getByText('This is an example.').waitFor();
  await page.getByText('It would run at:').waitFor();
  await page.getByRole('button', { name: 'Send a test now' }).click();
  await page.getByRole('status').getByText('The test succeeded.').waitFor();
  await page.getByText(`GET ${url}/healthz`).waitFor();
  await accessible(page, 'a test of the example');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('heading', { level: 1, name: 'first-example' }).waitFor();
  await page.getByRole('button', { name: 'Run now' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByRole('table', { name: 'Last runs' }).getByText('Succeeded').first().waitFor();
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('status').getByText('first-example is deleted').waitFor();
  await close(page);
});

test('a schedule is made, seen to run, and silent once it is disabled', async () => {
  const page = await open(browser, url);
  await isLive(page);
  await create(page, 'tick', 'At a fixed interval', 'Interval', '1s', '/tick');
  await go(page, '/now', 'Now');
  await called('/tick', 1);
  const last = page.getByRole('table', { name: 'Attempts that finished' });
  await last.getByRole('row').filter({ hasText: 'tick' }).filter({ hasText: 'Succeeded' })
    .filter({ hasText: '204' }).first().waitFor();
  await accessible(page, 'what happens now');
  await go(page, '/schedules', 'Schedules');
  await openMenu(page, 'tick');
  await page.getByRole('button', { name: 'Disable tick' }).click();
  await page.getByRole('status').getByText('tick is disabled: no new callback starts').waitFor();
  await page.getByRole('button', { name: 'Enable tick' }).waitFor();

  // The running attempt ends after the disable; then a later run proves that time went on.
  const answered = await called('/tick');
  await create(page, 'later', 'Once, after a delay', 'Delay', '3s', '/later');
  await called('/later');
  const running = calls.filter(({ path }) => path === '/tick').length - answered;
  assert.ok(running <= 1, `${running} calls after it was disabled`);
  const keys = calls.filter(({ path }) => path === '/tick').map(({ key }) => key);
  assert.equal(new Set(keys).size, keys.length, 'each call has a key of its own');

  await go(page, '/runs?key=tick', 'Runs');
  await page.getByRole('row').filter({ hasText: 'Succeeded' }).first().waitFor();
  await accessible(page, 'runs');
  await close(page);
});

test('a schedule is silent while it is paused, and calls again after the pause', async () => {
  const page = await open(browser, url);
  await isLive(page);
  await create(page, 'paused', 'At a fixed interval', 'Interval', '1s', '/paused');
  await called('/paused');
  await page.getByRole('button', { name: 'Pause until' }).click();
  const dialog = page.getByRole('dialog', { name: 'Pause paused' });
  const until = dialog.getByLabel('Until');
  await until.fill('2020-01-01T00:00:00');
  await dialog.getByRole('button', { name: 'Pause' }).click();
  await dialog.locator('[data-field=until][aria-invalid]:focus').waitFor();
  await dialog.getByText('it must be in the future', { exact: true }).waitFor();
  await until.fill('2190-01-01T00:00:00');
  await dialog.getByText(/^No new run starts before .* 2190/).waitFor();
  await dialog.getByRole('button', { name: 'Pause' }).click();
  await page.getByRole('status').getByText(/^paused is paused until .* 2190/).waitFor();
  const facts = page.locator('.facts');
  await facts.getByText('Paused', { exact: true }).waitFor();
  await accessible(page, 'a schedule that is paused');

  // The running attempt ends after the pause; then a later run proves that time went on.
  const answered = await called('/paused');
  await create(page, 'after-pause', 'Once, after a delay', 'Delay', '3s', '/after-pause');
  await called('/after-pause');
  const running = calls.filter(({ path }) => path === '/paused').length - answered;
  assert.ok(running <= 1, `${running} calls after it was paused`);
  const before = calls.filter(({ path }) => path === '/paused').length;
  await go(page, '/schedules/default/paused', 'paused');
  await page.getByRole('button', { name: 'End pause' }).click();
  await page.getByRole('status').getByText('The pause of paused has ended.').waitFor();
  await called('/paused', before);
  await facts.getByText('Enabled', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Disable' }).click();
  await page.getByRole('status').getByText('paused is disabled').waitFor();
  await close(page, [/422/]);
});

test('the times of a past range are counted, and each is called once', async () => {
  // It has ended, so that it has no other times. The clock here is five hours behind UTC.
  const when = {
    every: '1h', end: '2020-01-02T00:00:00Z',
    excluded: [{ from: '2020-01-01T07:00:00Z', until: '2020-01-01T08:00:00Z', then: 'skip' }],
  };
  const made = await fetch(`${url}/v1/apps/default/schedules/filled`, {
    method: 'PUT', headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ when, callback: { url: to('/filled') } }),
  });
  assert.equal(made.status, 201, await made.text());
  const page = await open(browser, url);
  await isLive(page);
  await go(page, '/schedules/default/filled', 'filled');
  const fill = async (limit) => {
    await page.getByRole('button', { name: 'Backfill' }).click();
    const dialog = page.getByRole('dialog', { name: 'Backfill filled' });
    await dialog.getByLabel('From', { exact: true }).fill('2020-01-01T00:00:00');
    await dialog.getByLabel('Until before').fill('2020-01-01T06:00:00');
    await dialog.getByLabel('At most').fill(limit);
    // Six hours, and one is excluded.
    await dialog.getByText('the schedule has 5 times.').waitFor();
    return dialog;
  };
  const dialog = await fill('3');
  await accessible(page, 'the dialog of a backfill');
  const [until, limit] = ['Until before', 'At most'].map((label) => dialog.getByLabel(label));
  const create = dialog.getByRole('button', { name: 'Create runs' });
  await until.fill('2190-01-01T00:00:00');
  await limit.fill('1001');
  await create.click();
  await dialog.getByText('it is not within 1 to 1000', { exact: true }).waitFor();
  await limit.fill('3');
  await create.click();
  await dialog.getByText('it must be in the past', { exact: true }).waitFor();
  await until.fill('2020-01-01T06:00:00');
  await create.click();
  await dialog.getByText('filled: 3 runs created, 0 existed. More may be missing').waitFor();
  await dialog.getByText('the schedule has 2 times.').waitFor();
  await create.click();
  await page.getByRole('status').getByText('filled: 2 runs created, 0 existed.').waitFor();
  await called('/filled', 4);
  await fill('');
  await create.click();
  await page.getByRole('status').getByText('filled: 0 runs created, 5 existed.').waitFor();
  await page.getByRole('table', { name: 'Last runs' }).getByText('Succeeded').nth(4).waitFor();
  const keys = calls.filter(({ path }) => path === '/filled').map(({ key }) => key);
  assert.deepEqual([keys.length, new Set(keys).size], [5, 5]);
  await close(page, [/422/]);
});

test('it runs now when it is asked to', async () => {
  const page = await open(browser, url);
  await isLive(page);
  await create(page, 'yearly', 'At a fixed interval', 'Interval', '8760h', '/yearly');
  await page.getByRole('button', { name: 'Run now' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Run', exact: true }).click();
  await called('/yearly');
  await page.getByRole('table', { name: 'Last runs' }).getByText('Succeeded').waitFor();
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('status').getByText('yearly is deleted').waitFor();
  await close(page);
});

test('a credential is sent, and never shown once it is given', async () => {
  const page = await open(browser, url);
  await isLive(page);
  await go(page, '/edit', 'New schedule');
  await page.getByText('Headers, timeout and success').click();
  await page.getByLabel('Headers', { exact: true }).fill('Authorization: Bearer hunter2\nX-A: b');
  await page.getByLabel('Headers with a secret').fill('Cookie: nothing');
  await page.getByLabel('Key', { exact: true }).fill('hidden');
  await page.getByLabel('At a fixed interval').check();
  await page.getByLabel('Interval', { exact: true }).fill('8760h');
  await page.getByLabel('URL').fill(to('/hidden'));
  await page.getByRole('button', { name: 'Create' }).click();
  await page.locator('[data-field="callback.secrets"]:focus').waitFor();
  await page.getByLabel('Headers with a secret').fill('Cookie: ledger');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('status').getByText('hidden is created').waitFor();
  await page.getByText('the secret ledger').waitFor();
  const shown = () => page.evaluate(() => document.documentElement.outerHTML +
    [...document.querySelectorAll('input, textarea')].map(({ value }) => value).join());
  assert.doesNotMatch(await shown(), /hunter2|of-the-configuration/);
  await page.getByRole('link', { name: 'Edit' }).click();
  await page.getByLabel('Interval', { exact: true }).fill('8000h');
  // A test has no value for a hidden header.
  await page.getByRole('button', { name: 'Send a test now' }).click();
  await page.locator('[data-field="callback.headers"]:focus').waitFor();
  assert.match(await page.getByLabel('Headers', { exact: true }).inputValue(), /: ••••••••/);
  assert.doesNotMatch(await shown(), /hunter2|of-the-configuration/);
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('status').getByText('hidden is saved').waitFor();
  await page.getByRole('button', { name: 'Run now' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Run', exact: true }).click();
  await called('/hidden');
  const { headers } = calls.find(({ path }) => path === '/hidden');
  assert.equal(headers.authorization, 'Bearer hunter2');
  assert.equal(headers.cookie, 'of-the-configuration');
  // Not for another host.
  await page.getByRole('link', { name: 'Edit' }).click();
  await page.getByLabel('URL').fill('http://127.0.0.2:1/');
  await page.getByLabel('Headers with a secret').fill('');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('kept only for the same scheme, host and port').first().waitFor();
  await close(page, [/422/]);
});

test('a part of a key is found, its runs are seen, and several are deleted', async () => {
  const page = await open(browser, url);
  await isLive(page);
  await create(page, 'one-of-two', 'At a fixed interval', 'Interval', '8760h', '/two');
  await create(page, 'two-of-two', 'At a fixed interval', 'Interval', '8760h', '/two');
  await page.getByRole('button', { name: 'Run now' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByRole('table', { name: 'Last runs' }).getByText('Succeeded').waitFor();
  await page.getByRole('link', { name: 'All runs' }).click();
  await page.getByRole('heading', { level: 1, name: 'Runs' }).waitFor();
  await page.getByRole('link', { name: 'Succeeded' }).click();
  await page.locator('.attempt').getByText(`POST ${to('/two')}`).waitFor();
  await page.getByText(/^First byte: /).waitFor();
  await accessible(page, 'a run with what it carries');

  await go(page, '/schedules', 'Schedules');
  await page.getByLabel('Search').fill('E-OF-t');
  await page.getByText(/^1 schedule, as of/).waitFor();
  await page.getByLabel('Search').fill('-of-two');
  await page.getByText(/^2 schedules, as of/).waitFor();
  await page.getByRole('img', { name: 'Last 1 run: 1 succeeded' }).waitFor();
  await accessible(page, 'schedules with runs');
  const bulk = page.getByRole('group', { name: 'Selected schedules' });
  await bulk.getByLabel('Select all shown').check();
  await bulk.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('status').getByText('2 of 2 schedules deleted.').waitFor();
  await page.getByText('No schedules match.').waitFor();

  // A deleted schedule leaves its runs.
  await go(page, '/now', 'Now');
  const history = page.getByRole('region', { name: 'Finished runs' });
  await history.getByText(/^\d+ succeeded/).waitFor();
  await close(page);
});

test('what was given up is retried', async () => {
  broken.add('/mended');
  const page = await open(browser, url);
  await isLive(page);
  await create(page, 'mended', 'Once, after a delay', 'Delay', '1s', '/mended', '1');
  await go(page, '/dead', 'Dead letters');
  const dead = page.getByRole('row').filter({ hasText: 'mended' }).filter({ hasText: '503' });
  await dead.waitFor();
  await accessible(page, 'dead letters');
  broken.delete('/mended');
  const before = await called('/mended');
  await dead.getByRole('button', { name: 'Retry' }).click();
  await page.getByRole('status').getByText('mended is retried').waitFor();
  await called('/mended', before);
  await close(page);
});

test('an edit keeps the bounds, the labels, the lane and the alerts that it does not change', async () => {
  const app = `${url}/v1/apps/default/schedules`;
  const kept = {
    when: {
      cron: '0 2 * * *', zone: 'Europe/Berlin',
      start: '2190-01-01T00:00:00Z', end: '2191-01-01T00:00:00Z',
      excluded: [
        { from: '2190-01-01T00:00:00Z', until: '2190-01-02T12:00:00Z', then: 'run_at_end' },
        { from: '2190-01-03T00:00:00Z', until: '2190-01-04T00:00:00Z', then: 'skip' },
      ],
    },
    labels: { team: 'billing', urgent: '' },
    lane: 'customer-7',
    notify: { url: to('/alert'), headers: { Authorization: 'Bearer hidden', 'X-Who': 'me' } },
    success_within: '25h',
    disable_after: 5,
  };
  const made = await fetch(`${app}/kept`, {
    method: 'PUT', headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ ...kept, callback: { url: to('/kept') } }),
  });
  assert.equal(made.status, 201, await made.text());
  const page = await open(browser, url);
  await isLive(page);
  await go(page, '/schedules/default/kept', 'kept');
  const facts = page.locator('dl.facts');
  for (const text of ['customer-7', '25h', '5 dead runs in a row', to('/alert')]) {
    await facts.getByText(text).first().waitFor();
  }
  await page.getByText('It is in an excluded window').first().waitFor();
  await page.getByText('It runs once for the times that the window excludes').waitFor();
  await accessible(page, 'a schedule with bounds');
  await page.getByRole('link', { name: 'Edit' }).click();
  await page.getByLabel('Start').waitFor();
  await page.getByLabel('Excluded windows').fill('2190-01-03T00:00:00Z..soon');
  await page.locator('[data-field="when.excluded"][aria-invalid=true]').waitFor();
  await page.getByLabel('Excluded windows').fill(
    `${kept.when.excluded[0].from}..${kept.when.excluded[0].until}=run-at-end`);
  await page.getByLabel('Disable after').fill('7');
  await page.getByText('It would run at:').waitFor();
  await accessible(page, 'the form with all of it open');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('status').getByText('kept is saved').waitFor();
  const saved = await (await fetch(`${app}/kept`)).json();
  const { when, labels, lane, notify, success_within, disable_after } = saved;
  assert.deepEqual({ when, labels, lane, notify, success_within, disable_after }, {
    ...kept,
    when: { ...kept.when, excluded: kept.when.excluded.slice(0, 1) },
    notify: { ...kept.notify, headers: { Authorization: '••••••••', 'X-Who': 'me' } },
    disable_after: 7,
  });
  await close(page, [/422/]);
});
