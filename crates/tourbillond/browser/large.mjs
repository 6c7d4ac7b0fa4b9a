/**
 * @file Measures the page with 10,000 schedules and 100,000 runs, on a store that it fills.
 *
 *   node large.mjs fill FOLDER     makes the store
 *   node large.mjs measure FOLDER  prints how long each view takes, from the address to its rows
 *
 * The environment has TOURBILLOND, the program.
 */

import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { launch, serve } from './browser.mjs';

const SCHEDULES = 10_000;
const RUNS_EACH = 10;
/** How many values the schedules' label has. */
const TEAMS = 50;
/** How many requests are under way at a time. */
const CLIENTS = 16;
/** How often each view is measured. */
const TIMES = 9;

const [command, folder] = process.argv.slice(2);

/** Does `work` with the service on the store of the folder, and stops the service in any case. */
async function withService(work) {
  const config = join(folder, 'apps.toml');
  writeFileSync(config, `[apps.default]
networks = ["127.0.0.0/8"]
limits = { schedules = ${2 * SCHEDULES}, due_per_second = 100000, concurrent = 256, per_host = 256 }
`, { mode: 0o600 });
  const { url, stop } = await serve(folder, '--config', config);
  try {
    await work(url);
  } finally {
    await stop();
  }
}

async function fill(url) {
  const receiver = createServer((request, response) => {
    request.resume();
    response.writeHead(request.url === '/4' ? 400 : 204).end();
  }).listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  const base = `${url}/v1/apps/default`;
  const ask = async (path, body) => {
    const answer = await fetch(`${base}${path}`, body && {
      method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  };
  const until = new Date(Math.floor(Date.now() / 3_600_000) * 3_600_000).toISOString();
  const since = new Date(Date.parse(until) - RUNS_EACH * 3_600_000).toISOString();
  let next = 0;
  await Promise.all(Array.from({ length: CLIENTS }, async () => {
    while (next < SCHEDULES) {
      const index = next;
      next += 1;
      const key = `job-${`${index}`.padStart(5, '0')}`;
      await ask('/schedules', {
        key, when: { cron: '0 * * * *' }, retry: { attempts: 1 },
        labels: { team: `team-${index % TEAMS}` },
        callback: { url: `http://127.0.0.1:${receiver.address().port}/${index % 20}` },
      });
      await ask(`/schedules/${key}/backfill`, { since, until, limit: RUNS_EACH });
      if ((index + 1) % 1000 === 0) console.log(`${index + 1} schedules`);
    }
  }));
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    const { overdue, running } = await (await fetch(`${url}/v1/overview`)).json();
    if (!overdue && !running) break;
  }
  receiver.close();
}

async function measure(url) {
  const browser = await launch();
  const views = [
    ['schedules', '/schedules', 50, 'of at least 10|of 10'],
    ['schedules, searched', '/schedules?search=999', 19, '19 schedules'],
    ['schedules, by a label', '/schedules?label=team:team-7', 50, 'of 200 schedules'],
    ['schedules, sorted', '/schedules?sort=next', 200, 'of at least 10|of 10'],
    ['runs', '/runs', 50, 'runs and more'],
    ['dead letters', '/dead', 50, 'runs and more'],
  ];
  for (const [name, hash, rows, status] of views) {
    const taken = [];
    const more = [];
    for (let time = 0; time < TIMES; time += 1) {
      const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
      const page = await context.newPage();
      await page.goto(`${url}/#${hash}`, { waitUntil: 'commit' });
      // By the page's own clock: from the start of its navigation to the frame after its rows.
      const shows = ([many, text]) => document.querySelectorAll('tbody tr').length >= many &&
        new RegExp(text).test(document.querySelector('main').textContent) && performance.now();
      const shown = await page.waitForFunction(shows, [rows, status]);
      taken.push(await shown.jsonValue());
      if (rows === 50) {
        const start = await page.evaluate(() => {
          document.querySelector('[data-act=more]').click();
          return performance.now();
        });
        const grown = await page.waitForFunction(shows, [100, status]);
        more.push(await grown.jsonValue() - start);
      }
      await context.close();
    }
    const middle = (all) => all.length
      ? `${all.sort((a, b) => a - b)[(TIMES - 1) / 2].toFixed(0)} ms (${all[0].toFixed(0)} to ${all.at(-1).toFixed(0)})`
      : '-';
    console.log(`${name}: first view ${middle(taken)}, show more ${middle(more)}`);
  }
  await browser.close();
}

await withService({ fill, measure }[command]);
