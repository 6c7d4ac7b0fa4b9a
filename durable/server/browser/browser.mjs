/** @file A Chromium for the tests, which hears every error, and knows axe. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Starts the browser; each start has an empty profile of its own. */
export function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
      '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  });
}

/**
 * Opens a page that remembers what was wrong: errors, warnings of the console, breaches of the
 * policy, requests to other hosts, answers with an error. `page.wrong` has them, as texts.
 *
 * @param {import('playwright-core').Browser} browser
 * @param {string} url
 * @param {Object} [options] Of the context, and `time`, which the device's clock shows.
 */
export async function open(browser, url, { time, ...options } = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 }, timezoneId: 'America/New_York',
    reducedMotion: 'reduce', ...options,
  });
  await context.addInitScript({ content: axe });
  const page = await context.newPage();
  page.wrong = [];
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) page.wrong.push(message.text());
  });
  page.on('pageerror', (error) => page.wrong.push(error.stack));
  page.on('request', (request) => {
    if (!request.url().startsWith(`${url}/`)) page.wrong.push(`asked ${request.url()}`);
  });
  page.setDefaultTimeout(30_000);
  if (time) await page.clock.install({ time });
  await page.goto(`${url}/`);
  return page;
}

/** Goes to a view, and waits for its heading. */
export async function go(page, hash, heading) {
  await page.evaluate((to) => { location.hash = to; }, hash);
  await page.getByRole('heading', { level: 1, name: heading }).waitFor();
}

/** Waits until figures come in. */
export const isLive = (page) => page.locator('#link[data-state=live]').waitFor();

/** Has axe look at the page; fails with what it finds. */
export async function accessible(page, where) {
  const found = await page.evaluate(async () => {
    const { violations } = await globalThis.axe.run();
    return violations.map(({ id, help, nodes }) =>
      `${id}: ${help}\n  ${nodes.map(({ html }) => html).join('\n  ')}`);
  });
  assert.deepEqual(found, [], where);
}

/** Fails if the page can be scrolled sideways. */
export async function fits(page, where) {
  const over = await page.evaluate(() =>
    document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.equal(over, 0, `${where} is ${over} px too wide`);
}

/** Presses Tab until what has the focus matches `selector`; whatever has it must show that. */
export async function tabTo(page, selector) {
  for (let presses = 0; presses < 80; presses += 1) {
    await page.keyboard.press('Tab');
    const [matches, name, shows] = await page.evaluate((wanted) => {
      const at = document.activeElement;
      const { outlineStyle, outlineWidth } = getComputedStyle(at);
      return [at.matches(wanted), at.outerHTML.slice(0, 120),
        at === document.body || (outlineStyle !== 'none' && outlineWidth !== '0px')];
    }, selector);
    assert.ok(shows, `the focus does not show on ${name}`);
    if (matches) return;
  }
  assert.fail(`Tab does not lead to ${selector}`);
}
