/** @file A Chromium for the tests, which hears every error, and knows axe. */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** How long a step may take. It only says where a test hangs, before the runner's limit ends it. */
const STEP_MS = 300_000;

/**
 * Starts the browser; each start has an empty profile of its own.
 *
 * @param {...string} more Further arguments.
 */
export function launch(...more) {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    timeout: STEP_MS,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
      '--disable-background-networking', '--disable-component-update', '--disable-sync', ...more],
  });
}

/**
 * Starts the service on a store in the folder; returns its address and a way to stop it.
 *
 * @param {...string} flags Further ones.
 */
export async function serve(folder, ...flags) {
  const server = spawn(process.env.TOURBILLOND,
    ['--store', join(folder, 'timers.db'), '--listen', '127.0.0.1:0', ...flags],
    { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = await once(server.stdout, 'data');
  return {
    url: /http:\/\/[\d.:]+/.exec(line)[0],
    async stop() {
      server.kill('SIGTERM');
      if (server.exitCode === null) await once(server, 'exit');
    },
  };
}

/**
 * Looks at every text that the page comes to show, hidden ones and attributes too, for what a view
 * says that has no value: it is an error of the console.
 */
const honest = `
  const bad = /\\b(undefined|null|NaN|Invalid Date)\\b|\\[object /;
  const shown = ['alt', 'aria-label', 'aria-valuetext', 'href', 'placeholder', 'title', 'value'];
  const told = new Set();
  const look = () => {
    const walker = document.createTreeWalker(document, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      const texts = node.nodeType === Node.TEXT_NODE ? [node.data]
        : [...shown.map((name) => node.getAttribute(name)), node.value];
      for (const text of texts) {
        if (!bad.test(text ?? '') || told.has(text)) continue;
        told.add(text);
        console.error('it shows: ' + text);
      }
    }
  };
  new MutationObserver(look).observe(document,
    { subtree: true, childList: true, characterData: true, attributes: true });
`;

/**
 * Opens a page that remembers what was wrong: errors, warnings of the console, breaches of the
 * policy, requests to other hosts, answers with an error, texts without a value. {@link close}
 * fails with them.
 *
 * @param {import('playwright-core').Browser} browser
 * @param {string} url
 * @param {Object} [options] Of the context; `time`, which the device's clock shows; and `hash`,
 *   the view that it starts with.
 */
export async function open(browser, url, { time, hash = '', ...options } = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 }, timezoneId: 'America/New_York',
    reducedMotion: 'reduce', ...options,
  });
  await context.addInitScript({ content: axe });
  await context.addInitScript({ content: honest });
  const page = await context.newPage();
  page.wrong = [];
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) page.wrong.push(message.text());
  });
  page.on('pageerror', (error) => page.wrong.push(error.stack));
  page.on('request', (request) => {
    if (!request.url().startsWith(`${url}/`)) page.wrong.push(`asked ${request.url()}`);
  });
  page.setDefaultTimeout(STEP_MS);
  if (time) await page.clock.install({ time });
  await page.goto(`${url}/${hash && `#${hash}`}`);
  return page;
}

/**
 * Closes a page; fails if anything was wrong with it but what a test has brought about. That is
 * given as patterns, and each has to be met.
 */
export async function close(page, expected = []) {
  await page.context().close();
  const isExpected = (wrong) => expected.some((pattern) => pattern.test(wrong));
  assert.deepEqual(page.wrong.filter((wrong) => !isExpected(wrong)), []);
  for (const pattern of expected) {
    assert.ok(page.wrong.some((wrong) => pattern.test(wrong)), `nothing is ${pattern}`);
  }
}

/** Goes to a view, and waits for its heading. */
export async function go(page, hash, heading) {
  await page.evaluate((to) => { location.hash = to; }, hash);
  await page.getByRole('heading', { level: 1, name: heading }).waitFor();
}

/** Opens the menu of a schedule in a list. */
export const openMenu = (page, key) => page.locator('.menu summary', { hasText: '⋯' })
  .and(page.getByLabel(`Actions on ${key}`, { exact: true })).click();

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
