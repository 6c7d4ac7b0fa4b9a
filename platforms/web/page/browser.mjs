/**
 * @file A headless Chromium, by its driver in CHROMEDRIVER, and a server of pages.
 */

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.wasm': 'application/wasm' };
const ARGS = ['--headless=new', '--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'];

/** Waits until it is so, with no limit but the test's. */
export async function until(isSo) {
  while (!await isSo()) await sleep(50);
}

/**
 * Serves the files of a directory with these headers, and starts the browser with these options
 * beside its usual ones. `posted` gets the body of each request that has one.
 */
export async function open({ directory, headers = {}, options = {}, more = {}, posted }) {
  const server = createServer(async (request, response) => {
    if (request.method === 'POST') {
      let body = '';
      for await (const part of request) body += part;
      posted(JSON.parse(body));
      response.writeHead(204).end();
      return;
    }
    const name = request.url === '/' ? 'index.html' : request.url.slice(1);
    try {
      const body = await readFile(join(directory, name));
      response.writeHead(200, { 'content-type': TYPES[extname(name)], ...headers }).end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((done) => { server.listen(0, '127.0.0.1', done); });
  const driver = spawn(process.env.CHROMEDRIVER, ['--port=0']);
  const port = await new Promise((done) => {
    driver.stdout.on('data', (data) => {
      const started = /started successfully on port (\d+)/.exec(data);
      if (started) done(started[1]);
    });
  });
  let session = `http://127.0.0.1:${port}`;

  /** One command of WebDriver, within the session once there is one. */
  async function command(method, path, body) {
    const answer = await fetch(`${session}${path}`, { method, body: body && JSON.stringify(body) });
    const { value } = await answer.json();
    assert.ok(answer.ok, JSON.stringify(value));
    return value;
  }

  const { args = [], ...others } = options;
  const { sessionId } = await command('POST', '/session', { capabilities: { alwaysMatch: {
    'goog:chromeOptions': { args: [...ARGS, ...args], ...others }, ...more,
  } } });
  session += `/session/${sessionId}`;
  return {
    command,
    run: (script, ...args) => command('POST', '/execute/sync', { script, args }),
    goTo: (path) => command('POST', '/url', {
      url: `http://127.0.0.1:${server.address().port}${path}`,
    }),
    async close() {
      await command('DELETE', '');
      driver.kill();
      server.close();
    },
  };
}
