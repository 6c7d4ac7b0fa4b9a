/**
 * @file A client generated from the description of the API, against a running service. `tsc` checks
 * every path, parameter and field below against the description.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { test } from 'node:test';
import createClient from 'openapi-fetch';
import { Webhook } from 'standardwebhooks';

/** @type {import('openapi-fetch').Client<import('./generated/api.d.ts').paths>} */
const api = createClient({ baseUrl: process.env.TOURBILLOND ?? '' });
const app = 'default';

test('a schedule is made, listed, shown, replaced and removed by a generated client', async () => {
  const path = { app, key: 'generated' };
  const callback = { url: 'https://example.com/' };
  const { data: made, response } = await api.POST('/v1/apps/{app}/schedules', {
    params: { path: { app } },
    body: { key: path.key, when: { every: '1h' }, callback, retry: { attempts: 3 } },
  });
  assert.equal(response.status, 201);
  assert.equal(made?.key, path.key);
  assert.deepEqual(made?.retry, { attempts: 3, first: '10s', longest: '2m' });

  const listed = await api.GET('/v1/apps/{app}/schedules', {
    params: { path: { app }, query: { prefix: 'gen', state: 'enabled', limit: 5 } },
  });
  assert.deepEqual(listed.data?.items.map((item) => item.key), [path.key]);

  const shown = await api.GET('/v1/apps/{app}/schedules/{key}', { params: { path } });
  assert.equal(shown.data?.next.length, 5);

  const replaced = await api.PUT('/v1/apps/{app}/schedules/{key}', {
    params: { path, header: { 'If-Match': `"${shown.data?.version}"` } },
    body: { when: { cron: '0 2 * * *', zone: 'Europe/Berlin' }, callback, overlap: { queue: 3 } },
  });
  assert.equal(replaced.response.status, 200);

  const preview = await api.POST('/v1/preview', { body: { when: { every: '1s' }, count: 3 } });
  assert.equal(preview.data?.items.length, 3);

  const removed = await api.DELETE('/v1/apps/{app}/schedules/{key}', { params: { path } });
  assert.deepEqual(removed.data, { running: [] });
  const gone = await api.GET('/v1/apps/{app}/schedules/{key}', { params: { path } });
  assert.equal(gone.response.status, 404);
  assert.equal(gone.error?.detail, 'no schedule has this key');
});

test('a refusal names its fields', async () => {
  const { error, response } = await api.PUT('/v1/apps/{app}/schedules/{key}', {
    params: { path: { app, key: 'refused' } },
    body: { when: { cron: '61 * * * *' }, callback: { url: 'ftp://example.com' } },
  });
  assert.equal(response.status, 422);
  assert.deepEqual(error?.errors?.map(({ field }) => field), ['when.cron', 'callback.url']);
});

test('a callback is verified by the library of Standard Webhooks', async () => {
  const receiver = createServer().listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  const address = /** @type {import('node:net').AddressInfo} */ (receiver.address());
  const called = once(receiver, 'request');
  const { response } = await api.POST('/v1/apps/{app}/schedules', {
    params: { path: { app } },
    body: {
      key: 'signed',
      when: { at: '2026-01-01T00:00:00Z' },
      callback: { url: `http://127.0.0.1:${address.port}/`, body: '{"run":"{{key}}"}' },
    },
  });
  assert.equal(response.status, 201);
  const [request, answer] = await called;
  let body = '';
  for await (const chunk of request) body += chunk;
  answer.writeHead(204).end();
  receiver.close();
  const { headers } = request;
  const webhook = new Webhook(process.env.WEBHOOK_SECRET ?? '');
  assert.deepEqual(webhook.verify(body, headers), { run: headers['idempotency-key'] });
  assert.equal(headers['webhook-id'], headers['idempotency-key']);
  assert.throws(() => webhook.verify(`${body} `, headers));
});
