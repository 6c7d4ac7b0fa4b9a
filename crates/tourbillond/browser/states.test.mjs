/** @file The page against the script: what it shows, and what it says when it cannot know. */

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { mkdirSync, readdirSync } from 'node:fs';
import {
  accessible, close, fits, go, isLive, launch, open, openMenu, tabTo,
} from './browser.mjs';
import { start } from './fake.mjs';

/** Each view, with what it has to show once it is there. */
const VIEWS = [
  ['/now', 'Now', 'no answer within 10s'],
  ['/schedules', 'Schedules', 'weekly-digest'],
  ['/schedules/reports/nightly', 'nightly', 'The clock shows this time twice'],
  ['/edit/reports/nightly', 'Edit nightly', 'The clock shows this time twice'],
  ['/edit', 'New schedule', 'It would run at'],
  ['/runs', 'Runs', 'An earlier run was not finished'],
  ['/runs?state=pending', 'Runs', 'Retrying'],
  ['/schedules/billing/dunning', 'dunning', 'Disabled: no run starts'],
  ['/schedules/billing/reminder-4711', 'reminder-4711', 'No runs yet'],
  ['/nowhere', 'Page not found', 'This address has no page'],
  ['/dead', 'Dead letters', 'Retry all of these'],
];
const PHONE = { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true };
const shots = process.env.SCREENSHOTS;

let browser;
let fake;
let page;
/** What a test has brought about that the console calls an error. */
let expected;
const show = async (options = {}) => {
  page = await open(browser, fake.url, { time: fake.now(), ...options });
  await isLive(page);
  return page;
};
/** Holds requests until what it returns is called. */
const hold = async (pattern, options) => {
  let letGo;
  const waiting = new Promise((resolve) => { letGo = resolve; });
  await page.route(pattern, async (route) => {
    await waiting;
    await route.continue();
  }, options);
  return letGo;
};
const keyOf = (index) => `job-${String(index).padStart(3, '0')}`;
/** So many schedules or runs like one, but for their keys and `more`. */
const jobs = (many, of, more) => Array.from({ length: many }, (_, index) =>
  ({ ...of, key: keyOf(index), id: `${index}`, ...more?.(index) }));
const says = (text) => page.getByText(text).first().waitFor();
const shoot = (name, options = {}) => shots && page.screenshot({
  path: `${shots}/${name}.png`, fullPage: true, ...options });

before(async () => {
  if (shots) mkdirSync(shots, { recursive: true });
  browser = await launch();
});
after(() => browser.close());
beforeEach(async () => {
  expected = [];
  fake = await start();
});
afterEach(async () => {
  try {
    await close(page, expected);
  } finally {
    await fake.stop();
  }
});

for (const [name, options] of [
  ['light', { colorScheme: 'light' }],
  ['dark', { colorScheme: 'dark' }],
  ['phone', { colorScheme: 'light', ...PHONE }],
  ['phone-dark', { colorScheme: 'dark', ...PHONE }],
]) {
  test(`every view is legible and fits: ${name}`, async () => {
    await show(options);
    for (const [hash, heading, text] of VIEWS) {
      await go(page, hash, heading);
      await says(text);
      await accessible(page, `${hash}, ${name}`);
      await fits(page, `${hash}, ${name}`);
      if (hash === '/now' && name !== 'phone-dark') await shoot(`now-${name}`);
      if (hash === '/schedules' && name === 'light') await shoot('schedules');
      if (hash === '/edit/reports/nightly' && name === 'dark') await shoot('edit-dark');
    }
    });
}

test('all modules are asked for at once', async () => {
  await show();
  const early = await page.locator('link[rel=modulepreload], script[src]').evaluateAll((all) =>
    all.map((element) => new URL(element.href || element.src).pathname));
  const modules = readdirSync(new URL('../page/', import.meta.url))
    .filter((name) => name.endsWith('.js'));
  assert.deepEqual(early.sort(), modules.map((name) => `/assets/${name}`).sort());
});

test('a breach of the policy is heard', async () => {
  await show();
  await page.evaluate(() => document.body.setAttribute('style', 'color: red'));
  await page.waitForFunction(() => true);
  expected = [/Content Security Policy/];
});

test('a text without a value is heard, wherever it stands', async () => {
  await show();
  await page.evaluate(() => {
    document.querySelector('h1').append(undefined);
    document.querySelector('main').title = `${null} calls`;
    document.querySelector('footer').append({});
    document.querySelector('.name').textContent = `${Number('x')} ms`;
  });
  expected = [/undefined/, /null calls/, /\[object Object\]/, /NaN ms/];
});

test('an address that leads nowhere says so', async () => {
  await show();
  for (const hash of [
    '/schedules/%E0%A4%A', '/schedules/reports/%E0%A4%A', '/runs/%/%', '/edit/%C3/x', '/nothing',
    '/', '/schedules/../..', '/edit/reports/..', '/runs/reports/%2E', '/now?app=nobodys',
    '/schedules?app=%E0%A4%A',
  ]) {
    await go(page, hash, 'Page not found');
    await accessible(page, hash);
    // Where it leads to from here works.
    await page.getByRole('main').getByRole('link', { name: 'Now' }).click();
    await page.getByRole('heading', { level: 1, name: 'Now' }).waitFor();
  }
  for (const [hash, heading, text] of [
    ['/runs?hours=x&state=y', 'Runs', /6 runs, as of/],
    ['/schedules?state=x&kind=%00', 'Schedules', /7 schedules, as of/],
    ['/runs?key=%E0%A4%A', 'Runs', 'No runs match.'],
    ['/dead?hours=1e999', 'Dead letters', 'the answer was 503'],
  ]) {
    await go(page, hash, heading);
    await says(text);
  }
  expected = [/404/];
  await go(page, '/schedules/reports/nobody', 'nobody');
  await says('There is no schedule nobody.');
  await go(page, '/edit/reports/nobody', 'Edit nobody');
  await says('There is no schedule nobody.');
  await go(page, '/runs/reports/nobody', 'Run');
  await says('There is no such run.');
});

test('a page that starts at an address that makes no sense shows that', async () => {
  page = await open(browser, fake.url, { time: fake.now(), hash: '/schedules/a/%E0%A4%A' });
  await page.getByRole('heading', { level: 1, name: 'Page not found' }).waitFor();
  await isLive(page);
});

test('a figure that is cut is said to be at least so much', async () => {
  const figures = ['overdue', 'running', 'pending_next_hour', 'enabled', 'disabled', 'failing',
    'outcomes'];
  await show();
  const said = () => page.locator('main').evaluate((main) =>
    main.textContent.match(/at least \d/g)?.length ?? 0);
  const slider = page.getByRole('slider', { name: 'Minute of the next hour' });
  const number = (name) => page.locator(`[data-figure=${name}]`);
  assert.equal(await said(), 0);
  for (const [cut, name, text] of [
    ['overdue', 'overdue', 'at least 14'], ['running', 'running', 'at least 1'],
    ['pending_next_hour', 'hour', /^at least \d+$/], ['enabled', 'enabled', 'at least 5'],
    ['failing', 'failing', /^at least \d$/], ['outcomes', 'ended', /^at least 1\s?286$/],
  ]) {
    fake.world.atLeast = [cut];
    await number(name).getByText(text).waitFor();
    const others = page.locator(`[data-figure]:not([data-figure=${name}])`);
    assert.doesNotMatch((await others.allTextContents()).join(), /at least/, cut);
  }
  fake.world.atLeast = figures;
  await says(/at least \d+ disabled/);
  await says(/at least 2 dead letters/);
  await says(/at least \d+ calls in the fullest minute/);
  assert.match(await slider.getAttribute('aria-valuetext'), /, at least \d+ calls$/);
  assert.match(await page.locator('.hour .readout').textContent(), /: at least \d+ calls$/);
  await page.locator('.hour').getByText('As a table').click();
  await page.getByRole('cell', { name: 'at least 151 calls' }).waitFor();
  await accessible(page, 'figures that are cut');
  await fits(page, 'figures that are cut');
});

test('a value that is not shown is kept, and a secret is a name', async () => {
  await show();
  await go(page, '/schedules/reports/nightly', 'nightly');
  await says('••••••••');
  await says('the secret ledger');
  await go(page, '/edit/reports/nightly', 'Edit nightly');
  const headers = page.getByLabel('Headers', { exact: true });
  const secrets = page.getByLabel('Headers with a secret');
  assert.equal(await headers.inputValue(),
    'authorization: ••••••••\ncontent-type: application/json');
  assert.equal(await secrets.inputValue(), 'x-ledger: ledger');
  await page.getByLabel('Timeout of an attempt').fill('20s');
  await secrets.fill('x-ledger: ledger\nCookie: other');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('status').getByText('nightly is saved').waitFor();
  assert.deepEqual(fake.world.asked.body.callback.headers, {
    authorization: '••••••••', 'content-type': 'application/json',
    'x-ledger': { secret: 'ledger' }, Cookie: { secret: 'other' },
  });
});

test('alerts that a schedule does not have are shown as its app has them', async () => {
  await show();
  await go(page, '/schedules/reports/nightly', 'nightly');
  const facts = page.locator('dl.facts');
  await facts.getByText('25h (app)').waitFor();
  await facts.getByText('5 dead runs in a row (app)').waitFor();
  await go(page, '/edit/reports/nightly', 'Edit nightly');
  await page.getByText('Alerts', { exact: true }).click();
  const within = page.getByLabel('Has to succeed within');
  assert.equal(await within.getAttribute('placeholder'), '25h');
  await says('If it is empty, the app’s 5 holds; 0 is for none.');
  await within.fill('0s');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('status').getByText('nightly is saved').waitFor();
  const { success_within: asked, disable_after: left } = fake.world.asked.body;
  assert.deepEqual([asked, left], ['0s', undefined]);
  await facts.getByText('None', { exact: true }).waitFor();
  // The form follows the app that is chosen.
  await go(page, '/edit', 'New schedule');
  await page.getByText('Alerts', { exact: true }).click();
  for (const [app, holds] of [['reports', '25h'], ['billing', '']]) {
    await page.locator('#f-app').selectOption(app);
    assert.equal(await within.getAttribute('placeholder'), holds);
  }
});

test('a timer of XTimer is seen and found by its name and its creator', async () => {
  await show();
  for (const text of ['Stock', 'stock LEV', 'ann', 'xtimer.83', '8321']) {
    await go(page, `/schedules?search=${text}`, 'Schedules');
    await page.getByText(/1 schedule, as of/).waitFor();
    await page.getByRole('row').filter({ hasText: 'xtimer.8321002' })
      .getByText('Stock levels by ann').waitFor();
  }
  await go(page, '/schedules?search=bob', 'Schedules');
  await says('No schedules match.');
  await go(page, '/schedules/reports/xtimer.8321002', 'xtimer.8321002');
  await says('Stock levels by ann');
});

test('what a form does not say is left to the server', async () => {
  await show();
  await go(page, '/schedules/billing/ledger-sync', 'ledger-sync');
  await says('5 attempts, pauses from 10s to 2m');
  await go(page, '/edit', 'New schedule');
  await page.getByLabel('Key', { exact: true }).fill('new');
  await page.getByLabel('URL').fill('https://billing.internal/');
  await page.getByText('Retries, missed runs and overlaps').click();
  const shown = ['Attempts', 'First pause', 'Longest pause'].map((label) =>
    page.getByLabel(label, { exact: true }).getAttribute('placeholder'));
  assert.deepEqual(await Promise.all(shown), ['5', '10s', '2m']);
  await page.getByLabel('Attempts', { exact: true }).fill('3');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('status').getByText('new is created').waitFor();
  assert.deepEqual(fake.world.asked.body.retry, { attempts: 3 });
});

test('what a receiver answers is text, and never markup', async () => {
  await show();
  const run = fake.world.runs.find(({ ended_attempts: ended }) => ended.at(-1)?.answer.startsWith('<img'));
  await go(page, `/runs/billing/${run.id}`, 'Run of invoices');
  await says('<img src=x onerror="alert(1)">');
  assert.equal(await page.locator('main img').count(), 0);
  await accessible(page, 'a run');
});

test('a lost connection is said in words, and mends by itself', async () => {
  await show();
  expected = [/Failed to load resource/];
  fake.world.away = 'server';
  fake.cut();
  await page.getByRole('alert').getByText(/What you see is from \d\d:\d\d:\d\d/).waitFor();
  await page.locator('#link').getByText('Disconnected').waitFor();
  assert.ok(await page.evaluate(() => document.body.classList.contains('old')));
  await page.getByText(/Next try in \d+ s|Trying now/).waitFor();
  assert.equal(await page.getByText('Unknown', { exact: true }).count(), 3);
  await accessible(page, 'a lost connection');
  await shoot('lost');
  fake.world.away = null;
  await isLive(page);
  await page.getByRole('status').getByText('Connected again').waitFor();
  assert.equal(await page.getByRole('alert').textContent(), '');
  assert.ok(!await page.evaluate(() => document.body.classList.contains('old')));
});

test('a store that is away is said, and so is that lists are older', async () => {
  await show();
  await go(page, '/schedules', 'Schedules');
  await says('weekly-digest');
  expected = [/503/];
  fake.world.away = 'store';
  await page.getByRole('alert').getByText('The store does not answer.').waitFor();
  await openMenu(page, 'ledger-sync');
  await page.getByRole('button', { name: 'Disable ledger-sync' }).click();
  await page.getByRole('status').getByText('ledger-sync is not changed').waitFor();
  await page.getByText(/Not read: .* What follows is older\./).waitFor();
  fake.world.away = null;
  await isLive(page);
  await page.getByText(/7 schedules, as of/).waitFor();
});

test('a token is asked for, kept for the tab, and asked for again if it is refused', async () => {
  expected = [/401/];
  fake.world.token = 'open sesame';
  page = await open(browser, fake.url, { time: fake.now() });
  const dialog = page.getByRole('dialog', { name: 'Sign in with a token' });
  await dialog.getByLabel('Token').fill('guess');
  await page.keyboard.press('Enter');
  await dialog.getByText('refused that token').waitFor();
  await accessible(page, 'the prompt');
  await dialog.getByLabel('Token').fill('open sesame');
  await page.keyboard.press('Enter');
  await isLive(page);
  const kept = await page.evaluate(() =>
    [Object.values(sessionStorage), localStorage.length, document.cookie]);
  assert.deepEqual(kept, [['open sesame'], 0, '']);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await dialog.waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
});

test('a token that may not write sees no button that changes something', async () => {
  fake.world.write = false;
  await show();
  await go(page, '/schedules', 'Schedules');
  await says('weekly-digest');
  const changing = page.getByRole('button',
    { name: /^(Disable|Enable|Run now|Pause|End pause|Backfill|Retry|Delete)/ });
  assert.equal(await changing.count(), 0);
  assert.equal(await page.getByText('New schedule').count(), 0);
  assert.equal(await page.getByRole('checkbox').count(), 0);
  await go(page, '/dead', 'Dead letters');
  await says('the answer was 503');
  assert.equal(await changing.count(), 0);
  await go(page, '/schedules/reports/nightly', 'nightly');
  await says('The clock shows this time twice');
  assert.equal(await changing.count(), 0);
});

test('what is wrong shows beside its field', async () => {
  expected = [/422/];
  await show();
  await go(page, '/edit', 'New schedule');
  await page.getByLabel('Cron expression', { exact: true }).fill('0 2 *');
  await page.getByText('five fields are needed, not 3').waitFor();
  const cron = page.getByLabel('Cron expression', { exact: true });
  assert.equal(await cron.getAttribute('aria-invalid'), 'true');
  await accessible(page, 'a form with a fault');
  await cron.fill('0 2 * * *');
  await says('It would run at');
  assert.equal(await cron.getAttribute('aria-invalid'), null);
  await page.getByRole('button', { name: 'Create' }).click();
  await page.locator('[data-field="callback.url"]:focus').waitFor();
});

test('all that is wrong is said at once, by the form and by the service, and nothing is kept', async () => {
  expected = [/422/];
  await show();
  await go(page, '/edit', 'New schedule');
  const many = fake.world.schedules.length;
  await page.getByText('Start, end and excluded windows').click();
  await page.getByLabel('End').pressSequentially('12');
  await page.getByText('Headers, timeout and success').click();
  await page.getByLabel('Headers', { exact: true }).fill('X-A: 1\nX-A: 2');
  await page.getByLabel('Statuses of success').fill('ok');
  await page.getByText('Retries, missed runs and overlaps').click();
  await page.getByLabel('Attempts', { exact: true }).fill('many');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.locator('[data-field="when.end"][aria-invalid]:focus, [data-field="callback.url"][aria-invalid]:focus').waitFor();
  const wrong = await page.locator('form.edit [aria-invalid]').evaluateAll((all) => all.map((each) => each.dataset.field));
  assert.deepEqual(wrong.sort(), ['callback.headers', 'callback.success', 'callback.url', 'retry.attempts', 'when.end']);
  // The service finds nothing else.
  await page.getByLabel('URL').fill('https://billing.internal/');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.locator('[data-field="when.end"][aria-invalid]:focus').waitFor();
  assert.equal(await page.locator('[data-field="callback.url"]').getAttribute('aria-invalid'), null);
  assert.equal(fake.world.schedules.length, many);
});

test('the faults of one field are said together, each with its part', async () => {
  expected = [/422/];
  await show();
  await go(page, '/edit/billing/invoices', 'Edit invoices');
  await page.route('**/v1/apps/billing/schedules/invoices', (route) => route.fulfill({
    status: 422, contentType: 'application/problem+json', json: {
      detail: '2 fields are wrong', errors: [
        { field: 'callback.headers.Host', detail: 'is set by the service' },
        { field: 'callback.headers.X A', detail: 'has a name that no header can have' },
      ],
    },
  }), { times: 1 });
  await page.getByRole('button', { name: 'Save' }).click();
  await says('Host: is set by the service X A: has a name that no header can have');
});

test('a cron expression has words beside it, unless it is wrong', async () => {
  expected = [/422/];
  await show();
  await go(page, '/schedules', 'Schedules');
  await page.getByRole('row').filter({ hasText: 'dunning' })
    .getByText('At 09:00, Monday to Friday').waitFor();
  await go(page, '/edit', 'New schedule');
  const cron = page.getByLabel('Cron expression', { exact: true });
  const words = page.locator('.edit .in-words');
  await page.getByLabel('Zone').fill('Europe/Berlin');
  await cron.fill('*/15 8-17 * * 1-5');
  await words.getByText('Every 15 minutes from 08:00 to 17:45, Monday to Friday, ' +
    'by the clock of Europe/Berlin.').waitFor();
  await cron.fill('0 2 *');
  await page.getByText('five fields are needed, not 3').waitFor();
  assert.equal(await words.textContent(), '');
  await page.getByLabel('At a fixed interval').check();
  await says('It would run at');
  assert.equal(await words.textContent(), '');
});

test('states and reasons are plain words', async () => {
  await show();
  await go(page, '/runs', 'Runs');
  const states = page.getByLabel('State');
  await says('An earlier run was not finished');
  assert.deepEqual(await states.locator('option').allTextContents(),
    ['Finished', 'Waiting', 'Running', 'Waiting for completion', 'Succeeded', 'Dead', 'Skipped',
      'Cancelled']);
  const seen = await page.locator('tbody .badge').allTextContents();
  assert.deepEqual([...new Set(seen)].sort(), ['Dead', 'Skipped', 'Succeeded']);
});

test('twenty-five schedules are on a screen, each in a line with one named time', async () => {
  const [nightly, hourly] = ['nightly', 'ledger-sync'].map((name) =>
    fake.world.schedules.find(({ key }) => key === name));
  fake.world.schedules = Array.from({ length: 200 }, (_, index) => ({
    ...index % 2 ? nightly : hourly, app: 'billing', key: `a-rather-long-name-of-a-job-${index}`,
    id: `${index}`, labels: { team: 'billing', tier: 'gold' },
  }));
  await show();
  await go(page, '/schedules?app=billing', 'Schedules');
  await page.getByText(/50 of 200 schedules, as of/).waitFor();
  const onScreen = await page.locator('tbody tr').evaluateAll((rows) =>
    rows.filter((row) => row.getBoundingClientRect().bottom <= innerHeight).length);
  assert.ok(onScreen >= 25, `${onScreen} on a screen`);
  const row = page.getByRole('row').nth(2);
  assert.equal(await row.locator('[data-column=When]').textContent(),
    'At 02:30 every day, Berlin');
  assert.equal(await row.locator('[data-column=Next]').textContent(), 'Sat 24 Oct, 20:30:00');
  await page.getByRole('columnheader', { name: 'Next (New York)' }).waitFor();
  await accessible(page, 'many schedules');
  await shoot('two-hundred', { fullPage: false });
  await page.setViewportSize({ width: 390, height: 844 });
  await fits(page, 'many schedules, 390 px');
  await shoot('two-hundred-phone', { fullPage: false });
});

test('failing schedules are first, each once, and lead to their dead letters', async () => {
  await show();
  const table = page.getByRole('table', { name: 'Failing' });
  await table.getByRole('row').filter({ hasText: 'invoices' }).waitFor();
  assert.equal(await table.locator('tbody tr').count(), 1);
  assert.equal(await page.locator('[data-figure=failing]').textContent(), '1');
  const order = await page.locator('main h2').allTextContents();
  assert.deepEqual(order.slice(0, 3), ['Failing', 'The next hour', 'Finished runs']);
  await table.getByRole('link', { name: '2 runs' }).click();
  await page.getByRole('heading', { level: 1, name: 'Dead letters' }).waitFor();
  await page.getByText(/2 runs, as of/).waitFor();
});

test('runs have their start and duration, are found by a part of a key, and behind a bar', async () => {
  await show();
  await go(page, '/runs', 'Runs');
  const nightly = page.getByRole('row').filter({ hasText: 'nightly' });
  await nightly.getByText('21 s', { exact: true }).waitFor();
  assert.equal(await nightly.locator('[data-column=Started]').textContent(), 'Fri 23 Oct, 20:32:00');
  await page.getByLabel('Schedule', { exact: true }).fill('VOIC');
  await page.keyboard.press('Enter');
  await page.getByText(/3 runs, as of/).waitFor();
  assert.match(page.url(), /search=VOIC/);
  // By a bar of the chart: the last hour, in which one of the day before did not finish.
  await go(page, '/now', 'Now');
  const slider = page.getByRole('slider', { name: 'Bar of the chart' });
  await page.getByText(/^2\s196 succeeded/).waitFor();
  await slider.press('End');
  await slider.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Runs' }).waitFor();
  await page.getByText(/^Finished from Sat 24 Oct, 18:13:00 until Sat 24 Oct, 19:13:00\./).waitFor();
  await page.getByText(/5 runs, as of/).waitFor();
  await accessible(page, 'runs of a bar');
  await page.getByRole('link', { name: 'Any time' }).click();
  await page.getByText(/6 runs, as of/).waitFor();
});

test('several schedules are disabled at once, and what failed is named', async () => {
  expected = [/404/];
  await show();
  await page.evaluate(() => Object.defineProperty(document, 'hidden', { value: true }));
  await go(page, '/schedules', 'Schedules');
  await says('weekly-digest');
  const bulk = page.getByRole('group', { name: 'Selected schedules' });
  assert.equal(await bulk.getByRole('button').count(), 0);
  await page.getByLabel('Select invoices').press('Space');
  await bulk.getByText('1 selected').waitFor();
  await bulk.getByLabel('Select all shown').check();
  await bulk.getByText('7 selected').waitFor();
  await page.getByLabel('Select nightly').uncheck();
  await bulk.getByText('6 selected').waitFor();
  await accessible(page, 'a selection');
  // One goes meanwhile.
  fake.world.schedules = fake.world.schedules.filter(({ key }) => key !== 'ledger-sync');
  await bulk.getByRole('button', { name: 'Disable' }).press('Enter');
  const dialog = page.getByRole('dialog', { name: 'Disable: 6 schedules?' });
  await dialog.getByRole('button', { name: 'Disable' }).click();
  await page.getByRole('status').getByText('5 of 6 schedules disabled.').waitFor();
  // It is read out as it comes.
  await bulk.getByRole('log', { name: 'Not done' }).getByRole('listitem').getByText('ledger-sync')
    .waitFor();
  await page.locator('[data-act=select-all]:focus').waitFor();
  assert.deepEqual(fake.world.schedules.filter(({ enabled }) => enabled).map(({ key }) => key),
    ['nightly']);
  await accessible(page, 'a failure');
  await fits(page, 'a failure');
});

test('an action on several schedules can be stopped', async () => {
  await show();
  await go(page, '/schedules', 'Schedules');
  await says('weekly-digest');
  const bulk = page.getByRole('group', { name: 'Selected schedules' });
  await bulk.getByLabel('Select all shown').check();
  // The second waits until it is let go.
  let letGo;
  const waiting = new Promise((resolve) => { letGo = resolve; });
  let many = 0;
  await page.route('**/v1/apps/*/schedules/*', async (route) => {
    if (route.request().method() === 'DELETE') many += 1;
    if (many === 2) await waiting;
    await route.continue();
  });
  await bulk.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await bulk.getByText('1 of 7').waitFor();
  assert.equal(await bulk.getByRole('progressbar').evaluate((bar) => bar.value / bar.max), 1 / 7);
  await accessible(page, 'progress');
  await page.locator('[data-act=stop]:focus').press('Enter');
  letGo();
  await page.getByRole('status').getByText('2 of 7 schedules deleted, then stopped.').waitFor();
  await page.getByText(/5 schedules, as of/).waitFor();
  assert.equal(fake.world.schedules.length, 5);
  await bulk.getByText('5 selected').waitFor();
});

test('a schedule is not read while it is deleted, and again if that fails', async () => {
  expected = [/503/];
  await show();
  await go(page, '/schedules/reports/nightly', 'nightly');
  await says('Last runs');
  const about = page.locator('#about');
  const reads = () => fake.world.reads.filter((read) => /\/schedules\/nightly/.test(read)).length;
  let isAway = true;
  let meanwhile;
  await page.route('**/v1/apps/reports/schedules/nightly', async (route) => {
    if (route.request().method() !== 'DELETE') return route.continue();
    const answer = isAway ? { status: 503, json: {} } : { response: await route.fetch() };
    fake.world.reads = [];
    // A run ends before the page hears the answer; by a later overview the page knows of it.
    const before = await about.textContent();
    fake.tell(fake.world.runs.find(({ key }) => key === 'nightly'));
    await page.waitForFunction((text) => document.getElementById('about').textContent !== text, before);
    await page.clock.runFor(1_000);
    meanwhile = reads();
    return route.fulfill(answer);
  });
  const remove = async () => {
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  };
  await remove();
  await page.getByRole('status').getByText('nightly is not deleted').waitFor();
  assert.equal(meanwhile, 0);
  while (reads() === 0) await page.waitForTimeout(10);
  isAway = false;
  await remove();
  await page.getByRole('status').getByText('nightly is deleted').waitFor();
  await page.getByRole('heading', { level: 1, name: 'Schedules' }).waitFor();
  assert.equal(reads(), 0);
});

test('finished runs of a day and of a week are a chart and a table', async () => {
  await show();
  const history = page.getByRole('region', { name: 'Finished runs' });
  const slider = history.getByRole('slider', { name: 'Bar of the chart' });
  // Two apps are one chart.
  await history.getByText(/^2\s196 succeeded, 92 skipped, 54 dead\./).waitFor();
  await slider.press('End');
  assert.equal(await slider.getAttribute('aria-valuetext'), '18:13–19:13, 90 succeeded, 6 skipped, 18 dead');
  await history.getByLabel('Span').selectOption('week');
  await slider.press('Home');
  assert.match(await slider.getAttribute('aria-valuetext'),
    /^Sat,? 17 Oct,? 19:13–01:13, 80 succeeded$/);
  await tabTo(page, '.history summary');
  await page.keyboard.press('Enter');
  await history.getByRole('row', { name: /^Sat,? 17 Oct,? 19:13–01:13 80 0 0 0$/ }).waitFor();
  assert.equal(await history.getByRole('row').count(), 29);
  await accessible(page, 'a table of runs');

  fake.world.countedSince = new Date(fake.now() - 20 * 3_600_000).toISOString();
  await go(page, '/schedules/billing/invoices', 'invoices');
  await history.getByText(/^at least 1 skipped, at least 2 dead\./).waitFor();
  // Dead runs are below the line, all of them.
  const [line, dead] = await Promise.all(['base', 'dead[height="80"]'].map((name) =>
    history.locator(`rect.${name}`).first().evaluate((rect) => Number(rect.getAttribute('y')))));
  assert.equal(dead, line);
  await accessible(page, 'a schedule with a chart');
  await fits(page, 'a schedule with a chart');
});

test('a copy is a new schedule, without what is not shown', async () => {
  await show();
  await go(page, '/schedules/reports/nightly', 'nightly');
  await page.getByRole('link', { name: 'Duplicate' }).click();
  await says('The copy is without authorization: values that are not shown are not copied.');
  assert.equal(await page.getByLabel('Key', { exact: true }).inputValue(), 'nightly-copy');
  await accessible(page, 'a copy');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('heading', { level: 1, name: 'nightly-copy' }).waitFor();
  const { path, body } = fake.world.asked;
  assert.equal(path, '/v1/apps/reports/schedules');
  assert.deepEqual([body.when, body.missed, body.callback.headers], [
    { cron: '30 2 * * *', zone: 'Europe/Berlin' }, { catch_up: 3 },
    { 'content-type': 'application/json', 'x-ledger': { secret: 'ledger' } },
  ]);
});

test('a preview says what other schedulers read in another way, and periods have an anchor', async () => {
  await show();
  await go(page, '/edit', 'New schedule');
  await page.getByLabel('Key', { exact: true }).fill('at-17');
  await page.getByLabel('URL').fill('https://billing.internal/');
  const cron = page.getByLabel('Cron expression', { exact: true });
  await cron.fill('0 9 13 * FRI');
  await says('Other schedulers Both fields for days are set');
  await cron.fill('0 9 * * FRI');
  await page.getByText('Other schedulers').waitFor({ state: 'detached' });
  await page.getByLabel('At a fixed interval').check();
  await page.getByLabel('Interval', { exact: true }).fill('1h');
  await page.getByLabel('Counted from').fill('2026-01-01T00:17');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('heading', { level: 1, name: 'at-17' }).waitFor();
  assert.deepEqual(fake.world.asked.body.when, { every: '1h', anchor: '2026-01-01T05:17:00Z' });
  await says('every 1h from Thu 1 Jan, 00:17:00');
});

test('an instant is picked by the clock here, and is kept as it is if it is not changed', async () => {
  await show();
  await go(page, '/edit', 'New schedule');
  await page.getByLabel('Once, at a time').check();
  await page.getByLabel('Key', { exact: true }).fill('picked');
  await page.getByLabel('URL').fill('https://billing.internal/');
  await page.getByLabel('Time', { exact: true }).fill('2026-12-24T18:30:00');
  await says('It would run at');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('heading', { level: 1, name: 'picked' }).waitFor();
  assert.deepEqual(fake.world.asked.body.when, { at: '2026-12-24T23:30:00Z' });

  // The service knows years up to 9999; a hidden field does not keep from saving.
  await go(page, '/edit', 'New schedule');
  await page.getByLabel('Once, at a time').check();
  await page.getByLabel('URL').fill('https://billing.internal/');
  const time = page.getByLabel('Time', { exact: true });
  await time.fill('12026-12-24T18:30:00');
  await says('It is after the year 9999.');
  await says('There is no preview for that.');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.locator('[data-field="when.at"]:focus').waitFor();
  await time.fill('');
  await time.pressSequentially('12');
  await page.getByLabel('Once, after a delay').check();
  await page.getByLabel('Delay', { exact: true }).fill('90s');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('status').getByText('drawn is created').waitFor();

  Object.assign(fake.world.schedules.find(({ key }) => key === 'nightly').when,
    { start: '2026-01-01T00:00:00.25+01:00' });
  await go(page, '/edit/reports/nightly', 'Edit nightly');
  assert.equal(await page.getByLabel('Start').inputValue(), '2025-12-31T18:00');
  await page.getByLabel('End').pressSequentially('12');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.locator('[data-field="when.end"]:focus').waitFor();
  await says('It lacks a part of the date or of the time.');
  await page.getByLabel('End').fill('2027-07-01T00:00:00');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('status').getByText('nightly is saved').waitFor();
  assert.deepEqual([fake.world.asked.body.when.start, fake.world.asked.body.when.end],
    ['2026-01-01T00:00:00.25+01:00', '2027-07-01T04:00:00Z']);
});

test('the first visit to an empty service shows an example that works', async () => {
  Object.assign(fake.world, { schedules: [], runs: [], overdue: 0 });
  await show();
  await page.getByRole('heading', { level: 1, name: 'New schedule' }).waitFor();
  await says('This is an example.');
  await says('It would run at');
  assert.equal(await page.getByLabel('URL').inputValue(), `${fake.url}/healthz`);
  await accessible(page, 'an example');
  await go(page, '/schedules', 'Schedules');
  await says('No schedules yet.');
  await page.getByRole('link', { name: 'Start from an example' }).click();
  await says('This is an example.');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('heading', { level: 1, name: 'first-example' }).waitFor();
  await page.goto('about:blank');
  page.wrong = page.wrong.filter((wrong) => wrong !== 'asked about:blank');
  await page.goto(`${fake.url}/`);
  await page.getByRole('heading', { level: 1, name: 'Now' }).waitFor();
});

test('a service that has only one-shots is not empty', async () => {
  const [, , , reminder] = fake.world.schedules;
  const over = { ...fake.world.runs.find(({ state }) => state === 'succeeded'), key: 'reminder' };
  for (const [schedules, runs] of [[[reminder], []], [[], [over]]]) {
    Object.assign(fake.world, { schedules, runs, overdue: 0 });
    page = await open(browser, fake.url, { time: fake.now() });
    await page.getByRole('heading', { level: 1, name: 'Now' }).waitFor();
    await isLive(page);
    await close(page);
  }
  await show();
});

test('an attempt shows its request, its steps and the answer as far as they are kept', async () => {
  await show();
  const run = fake.world.runs.find(({ key }) => key === 'nightly');
  await go(page, `/runs/reports/${run.id}`, 'Run of nightly');
  const [first, second] = [0, 1].map((index) => page.locator('.attempt').nth(index));
  for (const text of ['POST https://reports.internal/build', 'authorization: ••••••••',
    'Name: 3 ms', 'Connection: 11 ms', 'TLS: 24 ms', /First byte: 21\s360 ms/, 'Rest: 10 ms',
    /All: 21\s408 ms/, 'server: reports/7']) {
    await second.getByText(text).waitFor();
  }
  assert.equal(await first.locator('dl').count(), 0);
  await accessible(page, 'an attempt');
  await fits(page, 'an attempt');
});

test('a test is sent from the form, and its answer is shown', async () => {
  expected = [/422/];
  await show();
  await go(page, '/edit', 'New schedule');
  const send = page.getByRole('button', { name: 'Send a test now' });
  const shown = page.locator('.edit .attempt');
  await send.press('Enter');
  await page.locator('[data-field="callback.url"][aria-invalid]:focus').waitFor();
  await page.getByLabel('URL').fill('https://billing.internal/ping');
  await page.getByText('Headers, timeout and success').click();
  await page.getByLabel('Headers', { exact: true }).fill('X-A: b');
  await send.press('Enter');
  await page.getByRole('status').getByText('The test succeeded.').waitFor();
  await shown.getByText('Test succeeded').waitFor();
  await shown.getByText('POST https://billing.internal/ping').waitFor();
  await shown.getByText('pong').waitFor();
  assert.equal(await page.locator('[aria-invalid]').count(), 0);
  assert.equal(fake.world.asked.path, '/v1/apps/billing/test');
  assert.deepEqual(fake.world.asked.body,
    { method: 'POST', url: 'https://billing.internal/ping', headers: { 'X-A': 'b' }, body: '' });
  fake.world.answers = 500;
  await send.press('Enter');
  await page.getByRole('status').getByText('The test failed: the answer was 500').waitFor();
  await shown.getByText('Test failed').waitFor();
  await accessible(page, 'a test');
  await fits(page, 'a test');
});

test('the result of a test goes with the request that it was of', async () => {
  await show();
  await go(page, '/edit', 'New schedule');
  const send = page.getByRole('button', { name: 'Send a test now' });
  const shown = page.locator('.edit .attempt');
  const url = page.getByLabel('URL');
  await url.fill('https://billing.internal/ping');
  await send.click();
  await shown.getByText('Test succeeded').waitFor();
  // Times are no part of the request.
  await page.getByLabel('Cron expression', { exact: true }).fill('0 3 * * *');
  await says('It would run at');
  assert.match(await shown.textContent(), /Test succeeded/);
  await url.fill('https://billing.internal/pong');
  assert.equal(await shown.textContent(), '');
  // A form that changes while its test is sent has none.
  const letGo = await hold('**/test');
  await send.click();
  await shown.getByText('Sending').waitFor();
  await url.fill('https://billing.internal/other');
  letGo();
  await page.getByRole('status')
    .getByText('The test succeeded. The request has changed since.').waitFor();
  assert.equal(await shown.textContent(), '');
});

test('a schedule is saved in its own app, or not edited', async () => {
  fake.world.readOnly = ['billing'];
  await show();
  await go(page, '/edit/billing/invoices', 'Edit invoices');
  await says('Your token cannot change the app billing.');
  assert.equal(await page.getByRole('button', { name: 'Save' }).count(), 0);
  await go(page, '/edit/reports/nightly', 'Edit nightly');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('status').getByText('nightly is saved').waitFor();
  assert.equal(fake.world.asked.path, '/v1/apps/reports/schedules/nightly');
});

test('what nobody touches is saved as it was', async () => {
  const { callback } = fake.world.schedules.find(({ key }) => key === 'nightly');
  Object.assign(callback, { method: 'OPTIONS', body: 'a\r\nb\n' });
  await show();
  await go(page, '/edit/reports/nightly', 'Edit nightly');
  const save = page.getByRole('button', { name: 'Save' });
  await save.click();
  await page.getByRole('status').getByText('nightly is saved').waitFor();
  assert.deepEqual([fake.world.asked.body.callback.method, fake.world.asked.body.callback.body],
    ['OPTIONS', 'a\r\nb\n']);
  await go(page, '/edit/reports/nightly', 'Edit nightly');
  await page.getByLabel('Body').fill('a\nc');
  await save.click();
  await page.getByRole('heading', { level: 1, name: 'nightly' }).getByText(/^nightly$/).waitFor();
  assert.equal(fake.world.asked.body.callback.body, 'a\nc');
});

test('a change from elsewhere is not overwritten', async () => {
  expected = [/412/];
  await show();
  await go(page, '/edit/reports/nightly', 'Edit nightly');
  await page.getByLabel('URL').fill('https://reports.internal/other');
  fake.world.schedules.find(({ key }) => key === 'nightly').version = 9;
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('alert').getByText('It was changed since.').waitFor();
});

test('several dead letters are retried after a question', async () => {
  await show();
  await go(page, '/dead', 'Dead letters');
  await page.getByRole('button', { name: 'Retry all of these' }).click();
  await page.getByRole('dialog', { name: 'Retry 2 dead letters?' })
    .getByRole('button', { name: 'Retry' }).click();
  await page.getByRole('status').getByText('2 dead letters retried.').waitFor();
  await says('No dead letters.');
});

test('a dead letter that cannot be retried does not keep back the others', async () => {
  expected = [/409/];
  await show();
  await page.evaluate(() => Object.defineProperty(document, 'hidden', { value: true }));
  await go(page, '/dead', 'Dead letters');
  await says('the answer was 503');
  const [stuck] = fake.world.runs.filter(({ state }) => state === 'dead');
  fake.world.stuck = [stuck.id];
  await page.getByRole('button', { name: 'Retry all of these' }).click();
  await page.getByRole('dialog', { name: 'Retry 2 dead letters?' })
    .getByRole('button', { name: 'Retry' }).click();
  await page.getByRole('status').getByText('1 of 2 dead letters retried.').waitFor();
  await page.getByRole('log', { name: 'Not done' }).getByRole('listitem')
    .getByText('The run has been retried.').waitFor();
  assert.deepEqual(fake.world.runs.filter(({ state }) => state === 'dead'), [stuck]);
  await accessible(page, 'a dead letter that is not retried');
});

test('one app at a time, by the address', async () => {
  await show();
  await go(page, '/schedules', 'Schedules');
  await says('weekly-digest');
  await page.getByLabel('App', { exact: true }).selectOption('billing');
  await page.getByText(/4 schedules, as of/).waitFor();
  assert.match(page.url(), /app=billing/);
  await page.getByRole('link', { name: 'Dead letters' }).click();
  await says('the answer was 503');
  assert.match(page.url(), /dead\?app=billing/);
});

test('a long list is read on demand, and keeps the focus', async () => {
  const [first] = fake.world.schedules;
  fake.world.schedules = jobs(120, first);
  await show();
  await go(page, '/schedules', 'Schedules');
  await page.getByText(/50 of 120 schedules, as of/).waitFor();
  await page.getByRole('button', { name: 'Show more' }).click();
  await page.getByText(/100 of 120 schedules, as of/).waitFor();
  await page.getByRole('button', { name: 'Show more' }).click();
  await page.getByText(/120 schedules, as of/).waitFor();
  await openMenu(page, 'job-007');
  await page.getByRole('button', { name: 'Enable job-007' }).press('Enter');
  await page.locator('[data-act=switch]:focus', { hasText: 'Disable' }).waitFor();
  await page.getByLabel('Search').fill('b-11');
  await page.getByText(/10 schedules, as of/).waitFor();
  fake.world.countsAtLeast = true;
  await page.getByLabel('Search').fill('ob-');
  await page.getByText(/50 of at least 120 schedules, as of/).waitFor();
});

test('a list that is drawn again keeps the focus on a label, whatever its name is', async () => {
  const [first] = fake.world.schedules;
  first.labels = { 'a "b" \\c]': '' };
  await show();
  await go(page, '/schedules', 'Schedules');
  const row = page.getByRole('row').filter({ hasText: first.key });
  const label = row.getByRole('link', { name: 'a "b" \\c]' });
  await label.focus();
  first.state = first.state === 'enabled' ? 'disabled' : 'enabled';
  fake.tell(fake.world.runs[3]);
  await row.getByText(first.state === 'enabled' ? 'Enabled' : 'Disabled').waitFor();
  assert.ok(await label.evaluate((link) => link === document.activeElement));
});

test('what follows a list that is not shown any more is not read', async () => {
  const [first] = fake.world.schedules;
  fake.world.schedules = jobs(120, first);
  await show();
  await page.evaluate(() => Object.defineProperty(document, 'hidden', { value: true }));
  await go(page, '/schedules?app=billing', 'Schedules');
  await page.getByText(/50 of 120 schedules, as of/).waitFor();
  const letGo = await hold('**/schedules?*search=*');
  const asked = page.waitForRequest('**/schedules?*search=*');
  await page.getByLabel('Search').fill('b-0');
  await asked;
  await page.getByRole('button', { name: 'Show more' }).click();
  letGo();
  await page.getByText(/50 of 100 schedules, as of/).waitFor();
  assert.equal(await page.locator('tbody tr').count(), 50);
});

test('what is read on is only what is new', async () => {
  const [first] = fake.world.schedules;
  const [, , , , dead] = fake.world.runs;
  fake.world.schedules = jobs(120, first);
  fake.world.runs = jobs(120, dead);
  await show();
  // Nothing is read again by itself in a tab that is not looked at.
  await page.evaluate(() => Object.defineProperty(document, 'hidden', { value: true }));
  await page.getByLabel('App', { exact: true }).selectOption('billing');
  for (const [view, heading, counted] of [
    ['schedules', 'Schedules', 'of 120 schedules'], ['runs', 'Runs', 'runs and more'],
  ]) {
    await go(page, `/${view}?app=billing`, heading);
    await page.getByText(`50 ${counted}`).waitFor();
    fake.world.reads = [];
    await page.getByRole('button', { name: 'Show more' }).click();
    await page.getByText(`100 ${counted}`).waitFor();
    assert.equal(await page.locator('tbody tr').count(), 100);
    const asked = fake.world.reads.map((path) => new URL(path, fake.url))
      .filter(({ pathname }) => pathname.endsWith(`/${view}`));
    assert.deepEqual(asked.map(({ searchParams }) =>
      ['cursor', 'limit', 'count'].map((name) => searchParams.get(name))), [['50', '50', null]]);
  }
});

test('the list has the last result and the runs before it, by word and shape', async () => {
  await show();
  await go(page, '/schedules', 'Schedules');
  const row = (key) => page.getByRole('row').filter({ hasText: key });
  await row('invoices').getByRole('link', { name: 'Dead' }).waitFor();
  const line = row('invoices').getByRole('img', { name: 'Last 3 runs: 1 skipped, 2 dead' });
  await line.waitFor();
  // The newest is on the right; dead runs are below the line.
  const bars = await line.locator('rect:not(.base)').evaluateAll((all) =>
    all.map((bar) => ['class', 'x', 'y', 'height'].map((name) => bar.getAttribute(name))));
  assert.deepEqual(bars, [
    ['dead', '96', '8', '8'], ['dead', '91', '8', '8'], ['skipped', '86', '7', '2'],
  ]);
  await row('ledger-sync').getByRole('img', { name: 'Last 2 runs: 2 succeeded' }).waitFor();
  assert.equal(await row('reminder-4711').getByRole('img').count(), 0);
  await row('invoices').getByRole('link', { name: 'Dead' }).click();
  await page.getByRole('heading', { level: 1, name: 'Run of invoices' }).waitFor();
});

test('a schedule is paused until a time, seen to be paused, and the pause is ended', async () => {
  expected = [/422/];
  fake.world.stillRunning = [{ run: 'f'.repeat(32), attempt: 1 }];
  await show();
  await go(page, '/schedules/reports/nightly', 'nightly');
  const act = (name) => page.getByRole('button', { name, exact: true });
  await act('Pause until').press('Enter');
  const dialog = page.getByRole('dialog', { name: 'Pause nightly' });
  const until = dialog.getByLabel('Until');
  // It begins with an hour from now, by the clock here.
  assert.match(await until.inputValue(), /^2026-10-24T20:1\d$/);
  assert.ok(await until.evaluate((input) => input === document.activeElement));
  await dialog.getByText('By the clock of America/New_York.').waitFor();
  await until.fill('2026-10-26T04:00:00');
  // Its effect, and how to end it.
  await dialog.getByRole('status').getByText(
    /^No new run starts before Mon.* 26 Oct, 04:00:00 \(Mon.* 26 Oct, 09:00:00 in Europe\/Berlin\)\./)
    .waitFor();
  await dialog.getByText('“End pause” ends it earlier.').waitFor();
  await accessible(page, 'the dialog of a pause');
  // A fault shows beside the field, in the API's words.
  await until.fill('2026-10-24T10:00:00');
  await dialog.getByRole('button', { name: 'Pause' }).press('Enter');
  await dialog.locator('[data-field=until][aria-invalid]:focus').waitFor();
  assert.equal(await dialog.locator('#f-until-error').textContent(), 'it must be in the future');
  await accessible(page, 'the dialog of a pause with a fault');
  await until.fill('');
  assert.equal(await dialog.locator('[aria-invalid]').count(), 0);
  await until.pressSequentially('12');
  fake.world.asked = undefined;
  await dialog.getByRole('button', { name: 'Pause' }).click();
  await dialog.getByText('It lacks a part of the date or of the time.').waitFor();
  assert.equal(fake.world.asked, undefined);

  await until.fill('2026-10-26T04:00:00');
  await until.press('Enter');
  await page.getByRole('status').getByText(
    /^nightly is paused until Mon.* 26 Oct, 04:00:00\. 1 attempt still running\.$/).waitFor();
  await dialog.waitFor({ state: 'detached' });
  await page.locator('[data-act=pause-until]:focus').waitFor();
  assert.deepEqual(fake.world.asked, {
    path: '/v1/apps/reports/schedules/nightly/pause', body: { until: '2026-10-26T08:00:00Z' },
  });
  const facts = page.locator('.facts');
  await facts.getByText('Paused', { exact: true }).waitFor();
  await facts.getByText(/Mon.* 26 Oct, 04:00:00 in 1 d/).waitFor();
  await accessible(page, 'a schedule that is paused');
  await fits(page, 'a schedule that is paused');
  // Another time replaces the present one.
  await act('Pause until').click();
  assert.equal(await until.inputValue(), '2026-10-26T04:00');
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  await page.locator('[data-act=pause-until]:focus').waitFor();

  await go(page, '/schedules', 'Schedules');
  const row = page.getByRole('row').filter({ hasText: 'nightly' });
  await row.getByText('Paused', { exact: true }).waitFor();
  await openMenu(page, 'nightly');
  await row.getByRole('button', { name: 'End pause nightly' }).click();
  await page.getByRole('status').getByText('The pause of nightly has ended.').waitFor();
  await row.getByText('Enabled', { exact: true }).waitFor();
  assert.equal(fake.world.asked.path, '/v1/apps/reports/schedules/nightly/enable');
});

test('a pause that ends is not shown any more', async () => {
  const nightly = fake.world.schedules.find(({ key }) => key === 'nightly');
  nightly.paused_until = new Date(fake.now() + 5_000).toISOString();
  await show();
  await go(page, '/schedules/reports/nightly', 'nightly');
  const facts = page.locator('.facts');
  await facts.getByText('Paused', { exact: true }).waitFor();
  // The API shows it no longer than it lasts.
  await page.route('**/v1/apps/reports/schedules/nightly', async (route) => {
    if (Date.parse(nightly.paused_until) <= fake.now()) nightly.paused_until = undefined;
    await route.continue();
  });
  await facts.getByText('Enabled', { exact: true }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'End pause' }).count(), 0);
});

test('a schedule that a node cannot read says why it does not run', async () => {
  const why = 'time zone: `Mars/Olympus` is not known';
  const nightly = fake.world.schedules.find(({ key }) => key === 'nightly');
  Object.assign(nightly, { unreadable: why, next: [] });
  await show();
  await go(page, '/schedules', 'Schedules');
  const row = page.getByRole('row').filter({ hasText: 'nightly' });
  await row.getByText(`Does not run: ${why}`).waitFor();
  await go(page, '/schedules/reports/nightly', 'nightly');
  await page.locator('.facts').getByText(why).waitFor();
  await page.getByText('No run starts on this node, which cannot read the schedule.').waitFor();
});

test('a range is backfilled in parts, with its times counted before', async () => {
  expected = [/422/, /409/, /503/];
  await show();
  await go(page, '/schedules/billing/ledger-sync', 'ledger-sync');
  await page.getByRole('button', { name: 'Backfill' }).press('Enter');
  const dialog = page.getByRole('dialog', { name: 'Backfill ledger-sync' });
  const [since, until, limit] = ['From', 'Until before', 'At most']
    .map((label) => dialog.getByLabel(label, { exact: true }));
  const create = dialog.getByRole('button', { name: 'Create runs' });
  const says = (text) => dialog.getByRole('status').getByText(text).waitFor();
  // It begins with the last day, which has more times than are looked at.
  assert.match(await since.inputValue(), /^2026-10-23T19:1\d$/);
  assert.match(await until.inputValue(), /^2026-10-24T19:1\d$/);
  await says(/the schedule has at least 1\s000 times\./);
  await accessible(page, 'the dialog of a backfill');
  await since.fill('2026-10-24T18:12:00');
  await until.fill('2026-10-24T19:12:00');
  await says(new RegExp('^From Sat.* 24 Oct, 18:12:00 until before Sat.* 24 Oct, 19:12:00, ' +
    'the schedule has 120 times\\.'));
  await says('The runs that are missing are created, oldest first, at most 100 at once.');
  await says('They start now if the app’s limits allow.');
  await limit.fill('70');
  await says('at most 70 at once');

  // A fault shows beside its field, in the API's words.
  await limit.fill('1001');
  await create.press('Enter');
  await dialog.locator('[data-field=limit][aria-invalid]:focus').waitFor();
  assert.equal(await dialog.locator('#f-limit-error').textContent(), 'it is not within 1 to 1000');
  await accessible(page, 'the dialog of a backfill with a fault');
  await limit.fill('1.5');
  await create.click();
  await dialog.getByText('It is not a whole number.').waitFor();
  await limit.fill('');
  // A fault of no field shows below them.
  const schedule = fake.world.schedules.find(({ key }) => key === 'ledger-sync');
  schedule.state = 'disabled';
  await create.click();
  await dialog.getByRole('alert').getByText('The schedule is disabled; enable it first.').waitFor();
  schedule.state = 'enabled';
  // The effect may not be known.
  fake.world.away = 'store';
  await since.fill('2026-10-24T18:42:00');
  await says('What it would do is not known: The store does not answer.');
  fake.world.away = null;
  await since.fill('2026-10-24T18:12:00');
  await says('the schedule has 120 times.');

  await create.click();
  await says(/^ledger-sync: 100 runs created, 0 existed\. More .* from Sat.* 24 Oct, 19:02:00 on\.$/);
  await says('the schedule has 20 times.');
  assert.equal(await since.inputValue(), '2026-10-24T19:02');
  assert.deepEqual(fake.world.asked, {
    path: '/v1/apps/billing/schedules/ledger-sync/backfill',
    body: { since: '2026-10-24T22:12:00Z', until: '2026-10-24T23:12:00Z' },
  });
  await dialog.getByRole('button', { name: 'Close' }).waitFor();
  await accessible(page, 'the dialog of a backfill in parts');
  await create.click();
  await page.getByRole('status').getByText('ledger-sync: 20 runs created, 0 existed.').waitFor();
  await dialog.waitFor({ state: 'detached' });
  await page.locator('[data-act=backfill]:focus').waitFor();

  // A range in which it has no time; and runs that wait for each other.
  schedule.overlap = 'skip';
  await go(page, '/now', 'Now');
  await go(page, '/schedules/billing/ledger-sync', 'ledger-sync');
  await page.getByRole('button', { name: 'Backfill' }).click();
  await says('They start now, one after another.');
  await since.fill('2026-10-24T19:11:40');
  await until.fill('2026-10-24T19:11:50');
  await says('the schedule has no time.');
  // A dialog goes with its view.
  await page.evaluate(() => { location.hash = '/now'; });
  await page.getByRole('heading', { level: 1, name: 'Now' }).waitFor();
  assert.equal(await page.getByRole('dialog').count(), 0);
});

test('what is sent from a dialog is said also if the dialog is cancelled', async () => {
  expected = [/409/];
  await show();
  await go(page, '/schedules/billing/ledger-sync', 'ledger-sync');
  const schedule = fake.world.schedules.find(({ key }) => key === 'ledger-sync');
  for (const [state, text] of [
    ['enabled', /^ledger-sync: 100 runs created, 0 existed\. More may be missing/],
    ['disabled', 'Backfill ledger-sync: The schedule is disabled; enable it first.'],
  ]) {
    const letGo = await hold('**/backfill', { times: 1 });
    await page.getByRole('button', { name: 'Backfill' }).click();
    const dialog = page.getByRole('dialog', { name: 'Backfill ledger-sync' });
    await dialog.getByRole('button', { name: 'Create runs' }).click();
    await dialog.locator('[type=submit][aria-busy]').waitFor();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await dialog.waitFor({ state: 'detached' });
    schedule.state = state;
    letGo();
    await page.getByRole('status').getByText(text).waitFor();
  }
});

test('what is not enabled or does not repeat is neither paused nor backfilled', async () => {
  await show();
  const buttons = page.getByRole('button', { name: /^(Pause until|Backfill)$/ });
  for (const [key, number] of [['invoices', 2], ['dunning', 0], ['reminder-4711', 0]]) {
    await go(page, `/schedules/billing/${key}`, key);
    await page.getByRole('link', { name: 'Duplicate' }).waitFor();
    assert.equal(await buttons.count(), number, key);
  }
});

test('all can be done by keyboard', async () => {
  await show();
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent),
    'Skip to the content');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
  await tabTo(page, '[role=slider]');
  const slider = page.getByRole('slider', { name: 'Minute of the next hour' });
  await page.keyboard.press('End');
  assert.match(await slider.getAttribute('aria-valuetext'), /^20:1\d–20:1\d, 11 calls$/);
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowRight');
  assert.match(await slider.getAttribute('aria-valuetext'), /^19:1\d–19:1\d, 33 calls$/);
  assert.match(await page.locator('.hour .readout').textContent(), /33 calls$/);
  await tabTo(page, 'summary');
  await page.keyboard.press('Enter');
  await page.getByRole('cell', { name: '151 calls' }).waitFor();
  await accessible(page, 'the table of minutes');

  await page.keyboard.press('Control+Home');
  await page.evaluate(() => document.querySelector('.skip').focus());
  await tabTo(page, '[data-view=schedules]');
  await page.keyboard.press('Enter');
  await says('weekly-digest');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Schedules');
  await tabTo(page, '#search');
  await page.keyboard.type('ledger');
  await page.getByText(/1 schedule, as of/).waitFor();
  await tabTo(page, '[data-act=menu]');
  await page.keyboard.press('Enter');
  await accessible(page, 'a menu');
  await tabTo(page, '[data-act=switch]');
  await page.keyboard.press('Escape');
  await page.locator('[data-act=menu]:focus').waitFor();
  assert.equal(await page.locator('.menu[open]').count(), 0);
  await page.keyboard.press('Enter');
  await tabTo(page, '[data-act=switch]');
  await page.keyboard.press('Enter');
  await page.getByRole('status').getByText('ledger-sync is disabled').waitFor();
  await page.locator('[data-act=switch]:focus', { hasText: 'Enable' }).waitFor();
  await page.keyboard.press('Enter');
  await page.getByRole('status').getByText('ledger-sync is enabled').waitFor();
  await page.locator('[data-act=switch]:focus', { hasText: 'Disable' }).waitFor();
  await tabTo(page, '[data-act=run-now]');
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog', { name: 'Run ledger-sync now?' });
  await dialog.waitFor();
  await accessible(page, 'a question');
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'hidden' });
  await page.locator('[data-act=run-now]:focus').waitFor();
  await page.keyboard.press('Enter');
  await tabTo(page, '#sure-yes');
  await page.keyboard.press('Enter');
  await page.getByRole('status').getByText('ledger-sync runs').waitFor();
});

test('a view is drawn however slow the server is, and however much happens', async () => {
  await show();
  const happening = setInterval(() => fake.tell(fake.world.runs[3]), 100);
  try {
    for (const [hash, heading, draws] of [
      ['/schedules', 'Schedules', async () => {
        await page.getByRole('row').filter({ hasText: 'dunning' }).getByText('Disabled').waitFor();
        fake.world.schedules[0].state = 'enabled';
        await page.getByRole('row').filter({ hasText: 'dunning' }).getByText('Enabled').waitFor();
      }],
      ['/runs', 'Runs', async () => {
        await says('An earlier run was not finished');
        fake.world.runs.pop();
        await page.getByText('An earlier run was not finished').waitFor({ state: 'detached' });
      }],
      ['/schedules/billing/ledger-sync', 'ledger-sync', async () => {
        await page.getByText('Enabled').first().waitFor();
        fake.world.schedules[2].lane = 'a lane that is new';
        await says('a lane that is new');
      }],
    ]) {
      fake.world.slow = 900;
      await go(page, hash, heading);
      fake.world.reads = [];
      await draws();
    }
  } finally {
    clearInterval(happening);
  }
});

test('all schedules are counted with a new filter, and not with each change', async () => {
  await show();
  await go(page, '/schedules', 'Schedules');
  await says('weekly-digest');
  const lists = () => fake.world.reads.filter((read) => /\/billing\/schedules\?/.test(read));
  assert.match(lists()[0], /count=true/);
  await page.getByLabel('Search').fill('inv');
  await page.getByText(/1 schedule, as of/).waitFor();
  // Names of XTimer's are looked through without the runs.
  for (const read of fake.world.reads.filter((each) => /prefix=xtimer/.test(each))) {
    assert.doesNotMatch(read, /last_runs|count/);
  }
  await page.getByLabel('Search').fill('');
  await page.getByText(/7 schedules, as of/).waitFor();
  // Changes are drawn also after a search.
  fake.world.reads = [];
  fake.world.schedules[0].state = 'enabled';
  fake.tell(fake.world.runs[3]);
  await page.getByRole('row').filter({ hasText: 'dunning' }).getByText('Enabled').waitFor();
  assert.doesNotMatch(lists()[0], /count=true/);
});

test('labels are shown, filtered by, and edited', async () => {
  expected = [/422/];
  await show();
  await go(page, '/schedules', 'Schedules');
  const row = (key) => page.getByRole('row').filter({ hasText: key });
  // Only labels without a value, like its own.
  const link = await row('invoices').getByRole('link', { name: 'urgent' }).getAttribute('href');
  assert.match(link, /label=urgent%3A$/);
  await row('invoices').getByRole('link', { name: 'team:billing' }).click();
  await page.getByText(/1 schedule, as of/).waitFor();
  assert.match(page.url(), /label=team%3Abilling$/);
  await page.getByLabel('Label').fill('team');
  await page.getByText(/2 schedules, as of/).waitFor();
  await accessible(page, 'labels');
  await go(page, '/schedules/billing/invoices', 'invoices');
  await page.locator('.facts').getByRole('link', { name: 'team:billing' }).waitFor();
  await page.getByRole('link', { name: 'Edit' }).click();
  const labels = page.getByLabel('Labels');
  await labels.waitFor();
  assert.equal(await labels.inputValue(), 'team: billing\nurgent: ');
  await labels.fill('team: sales\n\nlate');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('status').getByText('invoices is saved').waitFor();
  assert.deepEqual(fake.world.asked.body.labels, { team: 'sales', late: '' });
  // Lines are not sent if one would replace another.
  await go(page, '/edit/billing/invoices', 'Edit invoices');
  fake.world.asked = undefined;
  await page.getByText('Headers, timeout and success').click();
  const save = page.getByRole('button', { name: 'Save' });
  for (const [name, lines] of [['labels', 'team: a\nteam: b'], ['callback.headers', 'X-A: 1\nX-A: 2']]) {
    const field = page.locator(`[data-field="${name}"]`);
    const before = await field.inputValue();
    await field.fill(lines);
    await save.click();
    await page.locator(`[data-field="${name}"][aria-invalid]:focus`).waitFor();
    await says(`Two lines have the name ${lines.split(':')[0]}.`);
    await field.fill(before);
  }
  assert.equal(fake.world.asked, undefined);
  // A refusal of the API shows beside the field.
  await go(page, '/edit/billing/invoices', 'Edit invoices');
  await page.route('**/v1/apps/billing/schedules/invoices', (route) => route.fulfill({
    status: 422, contentType: 'application/problem+json', json: {
      detail: 'That is no schedule.', errors: [{ field: 'labels.team', detail: 'it is too long' }],
    },
  }), { times: 1 });
  await page.getByRole('button', { name: 'Save' }).click();
  await page.locator('[data-field=labels]:focus').waitFor();
  await says('it is too long');
});

test('a label that few have is looked for so far, and further when it is asked for', async () => {
  const [first] = fake.world.schedules;
  fake.world.schedules = jobs(120, first, (index) => ({ labels: index > 100 ? { few: '' } : {} }));
  fake.world.looked = 10;
  await show();
  await page.evaluate(() => Object.defineProperty(document, 'hidden', { value: true }));
  fake.world.reads = [];
  await go(page, '/schedules?app=billing&label=few', 'Schedules');
  await says('None of those looked at so far matches.');
  const reads = () => fake.world.reads.filter((read) => /\/schedules\?.*label=few/.test(read)).length;
  assert.equal(reads(), 5);
  for (const looks of [10, 12]) {
    await page.getByRole('button', { name: 'Show more' }).click();
    await page.locator('[data-act=more]:not([aria-busy])').waitFor({ state: 'attached' });
    assert.equal(reads(), looks);
  }
  await page.getByRole('row').filter({ hasText: 'job-119' }).waitFor();
  assert.equal(await page.locator('tbody tr').count(), 19);
  await page.getByText(/19 schedules, as of/).waitFor();
  // A change of one of them reads all again, as far as it was looked for.
  await openMenu(page, 'job-119');
  await page.getByRole('button', { name: 'Enable job-119' }).click();
  await page.getByRole('button', { name: 'Disable job-119' }).waitFor();
  assert.equal(await page.locator('tbody tr').count(), 19);
});

test('runs of which few wait are looked for so far, and further when it is asked for', async () => {
  const [first] = fake.world.runs;
  fake.world.runs = jobs(120, first, (index) => ({
    app: 'billing', due: first.scheduled_for, recorded: undefined,
    state: index > 60 ? 'waiting' : 'pending',
  }));
  fake.world.looked = 10;
  await show();
  fake.world.reads = [];
  await go(page, '/runs?app=billing&state=waiting', 'Runs');
  await says('None of those looked at so far matches.');
  const reads = () => fake.world.reads.filter((read) => /\/runs\?.*state=waiting/.test(read)).length;
  assert.equal(reads(), 5);
  await page.getByRole('button', { name: 'Show more' }).click();
  await says('50 runs and more');
  assert.equal(reads(), 12);
  // Further results are not read again by themselves.
  fake.tell(fake.world.runs[119]);
  await new Promise((resolve) => { setTimeout(resolve, 1_000); });
  assert.equal(reads(), 12);
});

test('the list is sorted by its heads and by a choice, and says what of it', async () => {
  const [first] = fake.world.schedules;
  const [, , , , dead] = fake.world.runs;
  const time = (index) => new Date(fake.now() + (index * 37 % 250) * 60_000).toISOString();
  fake.world.schedules = jobs(250, first, (index) => ({
    state: 'enabled', next: index ? [time(index)] : [],
  }));
  fake.world.runs = jobs(4, dead, (index) => ({
    recorded: new Date(fake.now() - index * 60_000).toISOString(),
    state: index === 2 ? 'dead' : 'succeeded',
  })).slice(1);
  await show();
  await page.evaluate(() => Object.defineProperty(document, 'hidden', { value: true }));
  await go(page, '/schedules?app=billing', 'Schedules');
  await page.getByText(/^50 of 250 schedules, as of [\d:]+\.$/).waitFor();
  const head = (name) => page.getByRole('columnheader', { name });
  const sorts = () => Promise.all(['Schedule', 'Next', 'Last runs'].map((name) =>
    head(name).getAttribute('aria-sort')));
  const keys = () => page.locator('tbody a.key').allTextContents();
  assert.deepEqual(await sorts(), ['ascending', 'none', 'none']);
  // By keyboard; more are read, and the page says how many it sorts.
  await head('Next').getByRole('button').press('Enter');
  await page.getByText(/^200 of 250 schedules, as of [\d:]+\. Sorted are the 200 shown\.$/).waitFor();
  assert.deepEqual(await sorts(), ['none', 'ascending', 'none']);
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Next');
  const soonest = Array.from({ length: 200 }, (_, index) => index)
    .sort((a, b) => !a - !b || a * 37 % 250 - b * 37 % 250).map(keyOf);
  assert.deepEqual(await keys(), soonest);
  await head('Next').getByRole('button').press('Enter');
  await page.locator('th[aria-sort=descending]', { hasText: 'Next' }).waitFor();
  await page.getByRole('button', { name: 'Show more' }).click();
  await page.getByText(/^250 schedules, as of [\d:]+\.$/).waitFor();
  const [latest, ...others] = await keys();
  assert.deepEqual([latest, others.at(-1)], [keyOf(27), keyOf(0)]);
  await head('Last runs').getByRole('button').click();
  await page.locator('tbody tr:first-child a.key', { hasText: keyOf(1) }).waitFor();
  assert.deepEqual((await keys()).slice(0, 4), [1, 2, 3, 0].map(keyOf));
  await page.getByLabel('Sort by').selectOption('result');
  await page.locator('tbody tr:first-child a.key', { hasText: keyOf(2) }).waitFor();
  assert.deepEqual((await keys()).slice(0, 4), [2, 1, 3, 0].map(keyOf));
  assert.deepEqual(await sorts(), ['none', 'none', 'other']);
  assert.match(page.url(), /sort=result$/);
  await head('Schedule').getByRole('button').click();
  await page.getByText(/^50 of 250 schedules, as of [\d:]+\.$/).waitFor();
  assert.deepEqual(await keys(), Array.from({ length: 50 }, (_, index) => keyOf(index)));
});

test('what is selected is what is shown', async () => {
  await show();
  await go(page, '/schedules', 'Schedules');
  await says('weekly-digest');
  const bulk = page.getByRole('group', { name: 'Selected schedules' });
  await bulk.getByLabel('Select all shown').check();
  await bulk.getByText('7 selected').waitFor();
  // One goes, and another is another one under its key.
  const [, invoices, ledger] = fake.world.schedules;
  fake.world.schedules = fake.world.schedules.filter((each) => each !== ledger);
  invoices.id = 'f'.repeat(32);
  fake.tell(fake.world.runs[3]);
  await bulk.getByText('5 selected').waitFor();
  assert.ok(!await page.getByLabel('Select invoices').isChecked());
  await bulk.getByRole('button', { name: 'Disable' }).click();
  const dialog = page.getByRole('dialog', { name: 'Disable: 5 schedules?' });
  await dialog.getByText('dunning, reminder-4711, nightly, weekly-digest, xtimer.8321002. No new').waitFor();
  // A dialog that outlives its view does nothing.
  await page.evaluate(() => { location.hash = '/now'; });
  await page.locator('h1').getByText('Now').waitFor({ state: 'attached' });
  fake.world.asked = undefined;
  await dialog.getByRole('button', { name: 'Disable' }).click();
  await go(page, '/runs', 'Runs');
  await says('An earlier run was not finished');
  assert.equal(fake.world.asked, undefined);
});

test('what a history does not count is said, and nothing is said of what is not read', async () => {
  // A quarter past the second hour of the day that is shown.
  const end = Math.ceil(fake.now() / 60_000) * 60_000;
  fake.world.countedSince = new Date(end - 22.75 * 3_600_000).toISOString();
  await show();
  const history = page.getByRole('region', { name: 'Finished runs' });
  const slider = history.getByRole('slider', { name: 'Bar of the chart' });
  await history.getByText(/^at least 2\s196 succeeded/).waitFor();
  await history.getByText(/Runs before .* are not all counted\./).waitFor();
  const said = async (key) => {
    await slider.press(key);
    return slider.getAttribute('aria-valuetext');
  };
  assert.equal(await said('Home'), '19:13–20:13, not counted');
  assert.match(await said('ArrowRight'), /, at least \d+ succeeded, at least \d+ skipped$/);
  assert.match(await said('ArrowRight'), /, \d+ succeeded, \d+ skipped$/);
  await history.getByText('As a table').click();
  await history.getByRole('row', { name: /not counted not counted not counted not counted$/ }).waitFor();
  await accessible(page, 'a history that is cut');
  const letGo = await hold('**/history?**');
  await history.getByLabel('Span').selectOption('week');
  assert.match(await said('End'), /\b19:13, not read yet$/);
  letGo();
  await history.getByText(/^at least/).waitFor();
});
