/**
 * @file Hides a page in a headless Chromium: `node --test`, with the directory of what was built in
 * PAGE, and the browser's driver in CHROMEDRIVER. No test looks at how long something takes. It
 * looks at which of three wakes up how often before another does: a chain of timeouts, a timer, and
 * a timer with a worker.
 */

import assert from 'node:assert/strict';
import { after, test } from 'node:test';

import { open, until } from './browser.mjs';

let state = {};
let close = () => {};
after(() => close());

/** Opens the page, which is shown. */
async function openPage(headers) {
  await close();
  const browser = await open({
    directory: process.env.PAGE,
    headers,
    posted: (now) => { state = now; },
    options: {
      // A page is then hidden for long after two seconds, and not after five minutes.
      args: ['--enable-features=IntensiveWakeUpThrottling:grace_period_seconds/2'],
      // By which a driver has hidden pages treated as others are.
      excludeSwitches: [
        'disable-background-timer-throttling', 'disable-backgrounding-occluded-windows',
        'disable-renderer-backgrounding',
      ],
    },
  });
  close = browser.close;
  state = {};
  await browser.goTo('/hidden.html');
  await until(() => state.woken?.plain >= 20 && state.woken.helped >= 20);
  return browser;
}

/** Opens another tab in front of the page. Returns the page's. */
async function hide(browser) {
  const page = await browser.command('GET', '/window');
  const { handle } = await browser.command('POST', '/window/new', { type: 'tab' });
  await browser.command('POST', '/window', { handle });
  await until(() => state.hidden);
  return page;
}

test('a hidden page holds back timers less than chains of timeouts, and less with a worker', async () => {
  const browser = await openPage();
  assert.equal(state.workers.made, 0);
  const page = await hide(browser);
  // Once a second, where the chain is held back to once a minute.
  await until(() => state.most.plain >= 8);
  // As ever, where the other timer is held back to once a second.
  const held = state.woken.plain;
  await until(() => state.most.helped >= 8 || state.woken.plain >= held + 20);
  assert.ok(state.most.helped >= 8);
  assert.deepEqual(state.workers, { made: 1, ended: 0 });
  await browser.command('POST', '/window', { handle: page });
  await until(() => !state.hidden);
  const { plain, helped } = state.woken;
  await until(() => state.woken.plain >= plain + 20 && state.woken.helped >= helped + 20);
  assert.deepEqual(state.workers, { made: 1, ended: 1 });
});

test('a timer whose worker is refused is as one without', async () => {
  const browser = await openPage({ 'content-security-policy': "worker-src 'none'" });
  await hide(browser);
  const { helped } = state.woken;
  await until(() => state.woken.helped >= helped + 4);
  assert.ok(state.most.helped < 8, 'the worker was refused');
});
