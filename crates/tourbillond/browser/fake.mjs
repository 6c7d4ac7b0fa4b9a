/**
 * @file A server that speaks the API's JSON from a script, for states of the page that are hard to
 * produce with a real one: a night in which things fail, a store that is away, a lost connection.
 */

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

const PAGE = new URL('../page/', import.meta.url);
const TYPES = { html: 'text/html', css: 'text/css', js: 'text/javascript', svg: 'image/svg+xml' };
/** What the script's clock shows at the start: daylight saving ends in Berlin within two hours. */
const START = Date.parse('2026-10-24T23:12:05Z');

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

const iso = (time) => new Date(time).toISOString();
const idOf = (text) => createHash('sha256').update(text).digest('hex').slice(0, 32);
/** So many minutes from when the minute of the start began. */
const at = (minutes) => iso(START - START % MINUTE + minutes * MINUTE);

function schedule(app, key, when, url, more = {}) {
  return {
    app, key, id: idOf(`${app}/${key}`), version: 3, state: 'enabled', when,
    callback: { method: 'POST', url }, enabled: true, next: [at(18), at(48)], ...more,
  };
}

function run(app, key, minutes, state, ended = [], more = {}) {
  const failures = ended.filter(({ error }) => error).length;
  const over = !['pending', 'running'].includes(state);
  return {
    id: idOf(`${app}/${key}/${minutes}`), app, key, scheduled_for: at(minutes), state,
    recorded: over ? iso(Date.parse(ended.at(-1)?.started ?? at(minutes)) + 1_200) : undefined,
    due: over ? undefined : at(2),
    attempts: ended.length + (state === 'running'), failures, ended_attempts: ended,
    can_retry: state === 'dead', node: idOf('one'), ...more,
  };
}

/** What holds where a definition says nothing. */
const DEFAULTS = {
  timeout: '10s', on_time_within: '1m', retry: { attempts: 5, first: '10s', longest: '2m' },
};
const kindOf = ({ when }) => 'cron' in when || 'every' in when ? 'repeated' : 'once';
const answered = (minutes, ms, status, error, answer = '') => (_, index) =>
  ({ attempt: index + 1, started: at(minutes + index), ms, status, error, answer });
const times = (many, make) => Array.from({ length: many }, make);

/** A night in which one receiver is down. */
function night() {
  const cron = (expression, zone) => ({ cron: expression, zone });
  return {
    apps: ['billing', 'reports'],
    schedules: [
      schedule('billing', 'dunning', cron('0 9 * * mon-fri', 'Europe/Berlin'),
        'https://billing.internal/dunning', { state: 'disabled', enabled: false, next: [] }),
      schedule('billing', 'invoices', cron('*/15 * * * *', 'UTC'),
        'https://billing.internal/invoices/run',
        { next: [at(3), at(18)], overlap: 'skip', labels: { team: 'billing', urgent: '' } }),
      schedule('billing', 'ledger-sync', { every: '30s' }, 'https://ledger.internal/sync',
        { next: [at(0.4), at(0.9)] }),
      schedule('billing', 'reminder-4711', { at: at(320) }, 'https://billing.internal/remind',
        { state: 'pending', next: [at(320)] }),
      schedule('reports', 'nightly', cron('30 2 * * *', 'Europe/Berlin'),
        'https://reports.internal/build', {
          next: [at(78), at(78 + 25 * 60)], missed: { catch_up: 3 }, labels: { team: 'reports' },
          callback: {
            method: 'POST', url: 'https://reports.internal/build',
            headers: {
              authorization: '••••••••', 'content-type': 'application/json',
              'x-ledger': { secret: 'ledger' },
            },
            body: '{"run": "{{key}}", "for": "{{scheduled_for}}"}', timeout: '30s',
          },
        }),
      schedule('reports', 'weekly-digest', cron('0 7 * * sun', 'America/Sao_Paulo'),
        'https://reports.internal/digest', { next: [at(648)] }),
      schedule('reports', 'xtimer.8321002', cron('0 6 * * *', 'UTC'),
        'https://reports.internal/stock', {
          next: [at(408), at(408 + 24 * 60)], xtimer: { id: 8321002, name: 'Stock levels', creator: 'ann' },
        }),
    ],
    runs: [
      run('billing', 'invoices', -12, 'pending',
        times(3, answered(-9, 10_000, undefined, 'no answer within 10s'))),
      run('billing', 'ledger-sync', -0.1, 'running'),
      run('billing', 'ledger-sync', -0.6, 'succeeded', times(1, answered(-0.6, 41, 204))),
      run('billing', 'ledger-sync', -1.1, 'succeeded', times(1, answered(-1.1, 38, 204))),
      run('billing', 'invoices', -27, 'dead', times(5, answered(-27, 83, 503,
        'the answer was 503', '<h1>Service Unavailable</h1>')), { reason: 'failed' }),
      run('billing', 'invoices', -42, 'dead', times(5, answered(-42, 79, 503,
        'the answer was 503', '<img src=x onerror="alert(1)">')), { reason: 'failed' }),
      run('reports', 'nightly', -1362, 'succeeded',
        [answered(-1362, 30_000, undefined, 'no answer within 30s')(0, 0), {
          ...answered(-1361, 21_408, 200, undefined, '{"pages": 212}')(0, 1),
          request: {
            method: 'POST', url: 'https://reports.internal/build',
            headers: { authorization: '••••••••', 'content-type': 'application/json' },
          },
          headers: { 'content-type': 'application/json', server: 'reports/7' },
          timing: { resolve_ms: 3, connect_ms: 11, tls_ms: 24, first_byte_ms: 21_360 },
        }]),
      run('billing', 'invoices', -57, 'skipped', [], { reason: 'overlap' }),
    ],
    overdue: 14,
    nodes: 3,
    /** Whether totals of lists are cut. */
    countsAtLeast: false,
    /** How long the server takes to list schedules or runs, or to show one, in milliseconds. */
    slow: 0,
    /** Since when all runs of histories are counted, if older ones are not. */
    countedSince: undefined,
    /** Paths with their queries that were read. */
    reads: [],
    /** Figures that are cut. */
    atLeast: [],
    /** The status that tests are answered with. */
    answers: 200,
    /** Names of secrets. */
    secrets: ['ledger'],
    /** What an app has in place of the service's defaults, by its name. */
    defaults: { reports: { success_within: '25h', disable_after: 5 } },
    /** How many schedules a page with a label looks at, and how many runs any page does. */
    looked: Infinity,
    /** Apps that the token may only read. */
    readOnly: [],
    /** Identities of runs that cannot be retried. */
    stuck: [],
    /** Attempts that still run when a schedule is paused. */
    stillRunning: [],
    /** Times that were backfilled. */
    filled: new Set(),
  };
}

/** Starts it on a port of its own. `world` is what it knows; tests change it. */
export async function start() {
  const world = { ...night(), token: null, write: true, away: null };
  const began = Date.now();
  const streams = new Set();
  const sockets = new Set();
  const now = () => START + Date.now() - began;

  /** The newest run of each schedule that fails, with the number of its dead runs. */
  function failing(runs) {
    const all = new Map();
    for (const each of runs.filter(({ failures, state }) => failures && state !== 'succeeded')) {
      const name = `${each.app}/${each.key}`;
      const { dead_runs: dead = 0, ...run } = all.get(name) ?? each;
      all.set(name, { ...run, dead_runs: dead + (each.state === 'dead') });
    }
    return [...all.values()];
  }

  function overview(app) {
    const seen = world.runs.filter((each) => !app || each.app === app);
    const schedules = world.schedules.filter((each) => !app || each.app === app);
    const repeated = schedules.filter((each) => kindOf(each) === 'repeated');
    const counts = times(60, (_, minute) => 2 + (minute % 15 === 2 ? 31 : 0)
      + (minute === 47 ? 118 : 0) + (minute % 7 === 3 ? 9 : 0));
    return {
      now: iso(now()),
      overdue: world.overdue,
      running: seen.filter(({ state }) => state === 'running').length,
      pending_next_hour: repeated.length ? counts : counts.fill(0),
      enabled: schedules.filter(({ state }) => state === 'enabled').length,
      disabled: schedules.filter(({ state }) => state === 'disabled').length,
      at_least: world.atLeast,
      failing: failing(seen),
      outcomes: { succeeded: repeated.length && 1286, dead: repeated.length && seen.filter(({ state }) => state === 'dead').length },
      lateness: {
        p50: 0.8, p90: 2.1, p99: 11.4, p9999: 62,
        histogram: [[1, 812], [2, 344], [5, 91], [10, 22], [50, 14], [100, 3], [null, 0]]
          .map(([le_ms, count]) => ({ le_ms, count })),
      },
      nodes: times(world.nodes, (_, index) => ({
        id: idOf(['one', 'two', 'three'][index]), this: index === 0, epoch: 1 + index,
        beat: iso(now() - (index === 2 ? 9_000 : 400)),
        expires: iso(now() + (index === 2 ? 6_000 : 14_600)),
        clock_offset_ms: [0.4, -3.2, 1840][index],
      })),
    };
  }

  function preview({ cron, zone = 'UTC', every, at: once, after }, many = 5, from = undefined) {
    const shown = (time, offset, note) => ({
      at: iso(time), local: iso(time + offset * 60 * MINUTE).slice(0, 19),
      offset: `+0${offset}:00`, note,
    });
    if (cron) {
      const parts = cron.split(' ');
      if (parts.length !== 5) {
        throw refusal(422, 'That is no schedule.',
          [{ field: 'when.cron', detail: `five fields are needed, not ${parts.length}` }]);
      }
      if (zone !== 'Europe/Berlin') {
        return times(many, (_, day) => shown(START - START % MINUTE + 78 * MINUTE + day * DAY, 0));
      }
      const first = Date.parse('2026-10-25T00:30:00Z');
      return times(many, (_, day) => day
        ? shown(first + day * DAY + 60 * MINUTE, 1) : shown(first, 2, 'fold'));
    }
    if (once) return [shown(Date.parse(once), 0)];
    const seconds = Number.parseInt(every ?? after, 10);
    if (!seconds) {
      throw refusal(422, 'That is no schedule.',
        [{ field: every ? 'when.every' : 'when.after', detail: 'it is not a span such as 90s' }]);
    }
    if (from) {
      const first = Math.floor(Date.parse(from) / (seconds * 1000)) + 1;
      return times(many, (_, index) => shown((first + index) * seconds * 1000, 0));
    }
    return times(every ? many : 1, (_, index) => shown(now() + (index + 1) * seconds * 1000, 0));
  }

  const refusal = (status, detail, errors) => ({ status, document: {
    type: 'about:blank', title: 'Refused', status, detail, errors,
  } });

  /** Tells all who look on that an attempt has ended. */
  function tell(ended) {
    for (const stream of streams) stream.write(`event: run\ndata: ${JSON.stringify(ended)}\n\n`);
  }

  /** An item with its last runs, newest first. */
  function withRuns(each, many) {
    if (!many) return each;
    const runs = world.runs.filter((run) =>
      run.recorded && run.app === each.app && run.key === each.key);
    runs.sort((a, b) => a.recorded < b.recorded ? 1 : -1);
    return {
      ...each,
      last_runs: runs.slice(0, many).map(({ id, scheduled_for, state, recorded, ended_attempts }) =>
        ({ id, scheduled_for, state, recorded, ...ended_attempts.at(-1) && {
          ms: ended_attempts.at(-1).ms, status: ended_attempts.at(-1).status,
        } })),
    };
  }

  /** Runs by outcome in parts of a span: of a schedule those that it has, of an app a busy day. */
  function history(app, query) {
    const [since, until] = ['since', 'until'].map((name) => Date.parse(query.get(name)));
    const many = Number(query.get('buckets'));
    const part = (until - since) / many;
    const buckets = times(many, (_, index) => {
      const none = { start: iso(since + index * part), succeeded: 0, dead: 0, skipped: 0, cancelled: 0 };
      return query.get('key') ? none
        : { ...none, succeeded: 40 + (index * 7) % 13, dead: index > many - 4 ? 9 : 0, skipped: index % 5 };
    });
    for (const each of world.runs) {
      const index = Math.floor((Date.parse(each.recorded) - since) / part);
      if (each.app === app && each.key === query.get('key') && buckets[index]) {
        buckets[index][each.state] += 1;
      }
    }
    return { since: iso(since), until: iso(until), buckets, counted_since: world.countedSince };
  }

  function page(items, query) {
    const limit = Number(query.get('limit') ?? 100);
    const from = Number(query.get('cursor') ?? 0);
    const next = from + limit < items.length ? `${from + limit}` : undefined;
    const total = query.get('count') === 'true'
      ? { count: items.length, at_least: world.countsAtLeast } : undefined;
    return { items: items.slice(from, from + limit), next, total };
  }

  /** Counts what of a range is missing, up to the limit, and has it from then on. */
  function backfill(found, { since, until, limit = 100 }) {
    if (limit > 1_000) {
      throw refusal(422, '`limit`: it is not within 1 to 1000',
        [{ field: 'limit', detail: 'it is not within 1 to 1000' }]);
    }
    if (found.state === 'disabled') throw refusal(409, 'The schedule is disabled; enable it first.');
    const from = iso(Date.parse(since) - 1);
    const within = preview(found.when, 1_000, from).filter(({ at }) => at < iso(Date.parse(until)));
    const [result, filled] = [{ made: 0, existed: 0 }, world.filled];
    for (const { at } of within) {
      if (filled.has(at)) result.existed += 1;
      else if (result.made < limit) result.made += filled.add(at) && 1;
      else return { ...result, rest: at };
    }
    return result;
  }

  function ofApp(method, app, [what, name, act], query, body, request) {
    if (what === 'history') return history(app, query);
    if (what === 'test') {
      if (!body.url) {
        throw refusal(422, 'That is no callback.', [{ field: 'url', detail: 'it is empty' }]);
      }
      return {
        ...answered(0, 37, world.answers, world.answers < 400 ? undefined
          : `the answer was ${world.answers}`, 'pong')(0, 0),
        request: { method: body.method, url: body.url },
      };
    }
    if (what === 'runs') {
      if (!name) {
        const ofApp = world.runs.filter((each) => each.app === app);
        const part = query.get('search')?.toLowerCase() ?? '';
        const has = (each) => (!query.get('key') || each.key === query.get('key'))
          && each.key.toLowerCase().includes(part)
          && (query.get('state') ? each.state === query.get('state') : each.recorded)
          && (!query.get('since') || each.scheduled_for >= query.get('since'))
          && (!query.get('until') || each.recorded < query.get('until'));
        if (world.looked === Infinity) return page(ofApp.filter(has), query);
        const from = Number(query.get('cursor') ?? 0);
        const end = from + world.looked;
        const next = end < ofApp.length ? `${end}` : undefined;
        return { items: ofApp.slice(from, end).filter(has), next };
      }
      const found = world.runs.find(({ id }) => id === name);
      if (!found) throw refusal(404, 'There is no such run.');
      if (act === 'retry') {
        if (world.stuck.includes(name)) throw refusal(409, 'The run has been retried.');
        const again = run(app, found.key, (now() - START) / MINUTE, 'succeeded',
          times(1, answered(0, 12, 200)));
        world.runs = [again, ...world.runs.filter((each) => each !== found)];
        tell(again);
        return { id: again.id };
      }
      return found;
    }
    const find = (key) => world.schedules.find((each) => each.app === app && each.key === key);
    if (!name) {
      if (method === 'GET') {
        const [name, value] = (query.get('label') ?? '').split(':');
        const has = ({ labels = {} }) => name in labels && (value ?? labels[name]) === labels[name];
        const ofApp = world.schedules.filter((each) => each.app === app);
        const from = Number(query.get('cursor') ?? 0);
        const end = from + world.looked;
        if (name && end < Infinity) {
          const next = end < ofApp.length ? `${end}` : undefined;
          return { items: ofApp.slice(from, end).filter(has), next, total: { count: 0, at_least: true } };
        }
        const found = page(ofApp.filter((each) => (!name || has(each))
          && each.key.startsWith(query.get('prefix') ?? '')
          && each.key.toLowerCase().includes((query.get('search') ?? '').toLowerCase())
          && (!query.get('state') || each.state === query.get('state'))
          && (!query.get('kind') || query.get('kind') === kindOf(each))), query);
        const many = Number(query.get('last_runs') ?? 0);
        return { ...found, items: found.items.map((each) => withRuns(each, many)) };
      }
      const { key = 'drawn', ...definition } = body;
      if (!definition.callback.url) {
        throw refusal(422, 'That is no schedule.',
          [{ field: 'callback.url', detail: 'it is empty' }]);
      }
      if (query.get('check')) return null;
      const retry = definition.retry && { ...DEFAULTS.retry, ...definition.retry };
      const made = schedule(app, key, definition.when, '', { ...definition, retry, version: 1 });
      world.schedules.push(made);
      world.schedules.sort((a, b) => `${a.app}/${a.key}` < `${b.app}/${b.key}` ? -1 : 1);
      return made;
    }
    const found = find(name);
    if (!found) throw refusal(404, `There is no schedule ${name}.`);
    if (act === 'preview') {
      return { items: preview(found.when, Number(query.get('count') ?? 5), query.get('from')) };
    }
    if (act === 'pause') {
      if (Date.parse(body.until) <= now()) {
        const detail = 'it must be in the future';
        throw refusal(422, `\`until\`: ${detail}`, [{ field: 'until', detail }]);
      }
      found.paused_until = body.until;
      return { running: world.stillRunning };
    }
    if (act === 'backfill') return backfill(found, body);
    if (act === 'disable' || act === 'enable') {
      Object.assign(found,
        { state: `${act}d`, enabled: act === 'enable', paused_until: undefined });
      return found;
    }
    if (act === 'run-now') {
      const made = run(app, name, (now() - START) / MINUTE, 'succeeded',
        times(1, answered(0, 9, 200)));
      world.runs.unshift(made);
      tell(made);
      return { id: made.id };
    }
    if (method === 'DELETE') {
      world.schedules = world.schedules.filter((each) => each !== found);
      return { running: [] };
    }
    if (method === 'PUT' && query.get('check')) return null;
    if (method === 'PUT') {
      const expected = request.headers['if-match'];
      if (expected && expected !== `${found.version}`) {
        throw refusal(412, 'It was changed since.');
      }
      Object.assign(found, body, { version: found.version + 1 });
    }
    return found;
  }

  function api(request, path, query, body) {
    const [area, app, ...rest] = path.slice('/v1/'.length).split('/').map(decodeURIComponent);
    if (area === 'apps' && !app) {
      return world.apps.map((name) => ({
        name, write: world.write && !world.readOnly.includes(name), header_secrets: world.secrets,
        defaults: { ...DEFAULTS, ...world.defaults[name] },
      }));
    }
    if (area === 'apps') return ofApp(request.method, app, rest, query, body, request);
    if (area === 'preview') {
      const { cron } = body.when;
      const notes = cron && /^\S+ \S+ [^*?]\S* \S+ [^*?]\S*$/.test(cron) ? ['either_day'] : undefined;
      return { items: preview(body.when, body.count), notes };
    }
    if (area === 'overview') return overview(query.get('app'));
    throw refusal(404, 'There is no such route.');
  }

  function follow(request, response, app) {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
    const beat = () => {
      const event = world.away === 'store'
        ? ['problem', refusal(503, 'The last try was a second ago.').document]
        : ['overview', overview(app)];
      response.write(`event: ${event[0]}\ndata: ${JSON.stringify(event[1])}\n\n`);
    };
    beat();
    const timer = setInterval(beat, 250);
    streams.add(response);
    response.on('close', () => {
      clearInterval(timer);
      streams.delete(response);
    });
  }

  const policy = readFileSync(new URL('policy.txt', PAGE), 'utf8').trim().replaceAll('\n', ' ');
  const server = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url, 'http://localhost');
    const json = (status, document) => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(document));
    };
    if (!pathname.startsWith('/v1/')) {
      const name = pathname === '/' ? 'index.html' : pathname.slice('/assets/'.length);
      response.writeHead(200, {
        'content-type': TYPES[name.split('.')[1]], 'content-security-policy': policy,
      });
      response.end(readFileSync(new URL(name, PAGE)));
      return;
    }
    let body = '';
    for await (const part of request) body += part;
    try {
      if (world.token && request.headers.authorization !== `Bearer ${world.token}`) {
        throw refusal(401, 'A token is needed.');
      }
      if (pathname === '/v1/live') {
        follow(request, response, searchParams.get('app'));
        return;
      }
      if (world.away === 'store') throw refusal(503, 'The store does not answer.');
      const isLook = pathname === '/v1/preview' || searchParams.has('check');
      if (['POST', 'PUT'].includes(request.method) && !isLook) {
        world.asked = { path: pathname, body: body && JSON.parse(body) };
      }
      if (request.method === 'GET') world.reads.push(request.url);
      if (world.slow && /\/(schedules|runs)(\/|$)/.test(pathname)) {
        await new Promise((resolve) => setTimeout(resolve, world.slow));
      }
      json(200, api(request, pathname, searchParams, body && JSON.parse(body)));
    } catch (error) {
      if (!error.document) throw error;
      json(error.status, error.document);
    }
  });
  server.on('connection', (socket) => {
    if (world.away === 'server') socket.destroy();
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    world,
    now,
    tell,
    url: `http://127.0.0.1:${server.address().port}`,
    /** Cuts all connections; with `world.away = 'server'`, for as long as that is so. */
    cut: () => { for (const socket of sockets) socket.destroy(); },
    stop: () => {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}
