/** @file The API: requests with the token, lists over several apps, and the live stream. */

const TOKEN = 'tourbillon-token';

/** What the API refused, or why there is no answer. */
class Problem extends Error {
  /**
   * @param {number} status 0 if there was no answer.
   * @param {Object} document A problem document of RFC 9457, or a part of it.
   */
  constructor(status, document) {
    // The API marks names as Markdown does, and the page shows texts as they are.
    const plain = (text) => text.replaceAll('`', '');
    super(plain(document.detail || document.title || `The server answered ${status}.`));
    this.status = status;
    /** What is wrong with which field: `{field, detail}`. */
    this.errors = (document.errors ?? []).map(({ field, detail }) => ({ field, detail: plain(detail) }));
  }
}

/** The token is kept for this tab alone. */
export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (value) => sessionStorage.setItem(TOKEN, value),
  forget: () => sessionStorage.removeItem(TOKEN),
};

let asked = null;
let ask = () => Promise.reject(new Error('nobody to ask'));

/** Says who asks for a token. The function gets whether one was refused, and resolves with one. */
export function onUnauthorized(prompt) {
  ask = prompt;
}

/** Has one prompt at a time; all who need a token wait for it. */
function askForToken(refused) {
  asked ??= ask(refused !== null)
    .then((value) => token.set(value))
    .finally(() => { asked = null; });
  return asked;
}

/** Sends a request; asks for a token as often as the server does. */
async function send(method, path, { body, headers = {}, signal } = {}) {
  for (;;) {
    const used = token.get();
    const all = { ...headers };
    if (used) all.Authorization = `Bearer ${used}`;
    if (body !== undefined) all['Content-Type'] = 'application/json';
    let answer;
    try {
      answer = await fetch(path, {
        method, headers: all, signal, cache: 'no-store', redirect: 'error',
        body: body === undefined ? undefined : JSON.stringify(body),
      });
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      throw new Problem(0, { detail: 'The server cannot be reached.' });
    }
    if (answer.status !== 401) return answer;
    // Another request may have been given a new one meanwhile.
    if (token.get() === used) await askForToken(used);
  }
}

async function refuse(answer) {
  const text = await answer.text();
  let document = {};
  try { document = JSON.parse(text) ?? {}; } catch { document.detail = text.slice(0, 500); }
  throw new Problem(answer.status, document);
}

/**
 * Asks the API.
 *
 * @param {string} method
 * @param {string} path From the root, with its query.
 * @param {{body?: *, headers?: Object<string, string>, signal?: AbortSignal}} [options]
 * @returns {Promise<*>} The answer's JSON; `null` if it has no body.
 * @throws {Problem}
 */
export async function call(method, path, options) {
  const answer = await send(method, path, options);
  if (!answer.ok) await refuse(answer);
  const text = await answer.text();
  return text ? JSON.parse(text) : null;
}

/** A path with each part encoded, and those parameters that are set. */
export function path(parts, parameters = {}) {
  const query = new URLSearchParams(
    Object.entries(parameters).filter(([, value]) => value !== undefined && value !== ''));
  return `/v1/${parts.map(encodeURIComponent).join('/')}${query.size ? `?${query}` : ''}`;
}

/** How many empty pages of a list are read one after the other, for each time that it is read on. */
const LOOKS = 5;

/**
 * Reads one list of several apps, in this order. Each app's list is read page by
 * page, and no further than is needed. A page of a list may be empty although others follow: after
 * {@link LOOKS} of them, it is left for the next time.
 *
 * @param {string[]} apps
 * @param {string} what `schedules` or `runs`.
 * @param {Object} parameters Of the list; with a function `accepts`, that leaves items out here. An
 *   array of them reads several lists, whose items are shown once.
 * @param {(a: Object, b: Object) => number} order The order that the API lists them in.
 * @returns {(wanted: number, signal: AbortSignal, times: number) =>
 *   Promise<{items: Object[], more: boolean, total: ?Object}>} Reads on, so many `times` as far. `total` is `{count, at_least}` of all that the lists have, where `parameters` ask for it.
 */
export function lists(apps, what, parameters, order) {
  const sources = apps.flatMap((app) => [parameters].flat().map(({ accepts, ...query }) =>
    ({ app, query, accepts, items: [], cursor: '', over: false, total: null })));
  const seen = new Set();
  const refill = async (source, wanted, signal) => {
    const { app, query, accepts = () => true, cursor } = source;
    const limit = source.accepts ? 1000 : wanted;
    const { items, next, total } =
      await call('GET', path(['apps', app, what], { ...query, limit, cursor }), { signal });
    source.items = items.filter(accepts);
    source.cursor = next;
    source.over = next === undefined || next === null;
    // Counted once, with the first page; a list that is filtered here counts what it has read.
    if (source.accepts) {
      const read = (source.total?.count ?? 0) + source.items.length;
      source.total = { count: read, at_least: !source.over };
    } else {
      source.total ??= total ?? null;
      source.query = { ...query, count: undefined };
    }
  };
  const total = () => sources.every((source) => source.total) ? {
    count: sources.reduce((sum, source) => sum + source.total.count, 0),
    at_least: sources.some((source) => source.total.at_least),
  } : null;
  return async (wanted, signal, times) => {
    const limit = Math.min(wanted, 1000);
    const items = [];
    const looks = new Map(sources.map((source) => [source, 0]));
    const isUnknown = (source) => !source.items.length && !source.over && looks.get(source) < LOOKS * times;
    for (;;) {
      // A list that is filtered here may have nothing more that is shown.
      const hasMore = ({ items: read, over, accepts }) => read.length || !over && !accepts;
      if (items.length >= wanted && sources.some(hasMore)) return { items, more: true, total: total() };
      const empty = sources.filter(isUnknown);
      await Promise.all(empty.map((source) => refill(source, limit, signal)));
      for (const source of empty) looks.set(source, source.items.length ? 0 : looks.get(source) + 1);
      // The first item is not known yet.
      if (sources.some(isUnknown)) continue;
      const full = sources.filter((source) => source.items.length);
      if (!full.length) {
        return { items, more: sources.some((source) => !source.over), total: total() };
      }
      if (items.length >= wanted) continue;
      full.sort((a, b) => order(a.items[0], b.items[0]));
      const item = full[0].items.shift();
      if (!seen.has(item.id)) items.push(item);
      seen.add(item.id);
    }
  };
}

/**
 * Holds what is shown of a list. It is read again as a whole, and read on without that.
 *
 * @param {() => number} size How many items are read at a time.
 * @param {(isCounted: boolean) => Function} make Makes what {@link lists} returns, of what is asked
 *   for at the time.
 */
export function pages(size, make) {
  let next = null;
  let wanted = size();
  /** Whether what is asked for was not read yet: what is shown is of another list, or nothing. */
  let isNew = true;
  /** Whether the total is to be counted, by this read or by one that was given up. */
  let isOwed = false;
  const list = {
    items: [],
    more: false,
    total: null,
    /** How often it was read on, and once. */
    times: 1,
    /**
     * Reads the next page alone if `more` is set, otherwise all that is shown: of a list that was
     * not shown before (`first`), its first page, also if `more` is set while that is read. The
     * total is counted if `isCounted` is set.
     */
    async read(signal, { first = false, more = false, isCounted = false } = {}) {
      if (first) [isNew, wanted, list.times] = [true, size(), 1];
      if (more && !isNew) [wanted, list.times] = [list.items.length + size(), list.times + 1];
      isOwed ||= isCounted;
      const isNext = more && next && !isNew;
      const [reader, many] = isNext ? [next, size()] : [make(isOwed), wanted];
      // A reader's progress is lost if it fails.
      next = null;
      const read = await reader(many, signal, isNext ? 1 : list.times);
      signal.throwIfAborted();
      next = reader;
      list.items = isNext ? [...list.items, ...read.items] : read.items;
      list.more = read.more;
      list.total = read.total ?? (isNew ? null : list.total);
      isNew = false;
      if (!isNext) isOwed = false;
    },
  };
  return list;
}

/**
 * Has a view read what it shows, one time after the other: however slow the server is and however
 * much happens, each read comes to be drawn.
 *
 * @param {(signal: AbortSignal, options: Object) => Promise<void>} read Reads.
 * @param {() => void} draw Draws what was read.
 * @param {(error: Error) => void} failed Says why it was not read.
 */
export function reads(read, draw, failed) {
  let running = null;
  let wanted = null;
  let gathering;
  let isClosed = false;
  let isHeld = false;
  async function start(options) {
    running?.abort();
    const mine = new AbortController();
    [running, wanted] = [mine, null];
    let error = null;
    try {
      await read(mine.signal, options);
    } catch (caught) {
      error = caught;
    }
    if (mine.signal.aborted) return;
    running = null;
    if (error) failed(error);
    else draw();
    if (wanted && !running) start(wanted);
  }
  const all = {
    /** Reads at once, and aborts what is being read: something else is to be shown. */
    start: (options = {}) => { if (!isClosed && !isHeld) start(options); },
    /** Reads again, once what is being read is drawn. */
    again(options = {}) {
      if (running) wanted = { ...wanted, ...options };
      else all.start(options);
    },
    /** Ends the reads by a call that deletes their subject; they continue if it fails. */
    async endBy(remove) {
      isHeld = true;
      running?.abort();
      running = null;
      try {
        await remove();
      } catch (error) {
        isHeld = false;
        all.start();
        throw error;
      }
    },
    /** Reads again, once changes have gathered. */
    soon() {
      gathering ??= setTimeout(() => {
        gathering = undefined;
        all.again();
      }, GATHER);
    },
    close() {
      isClosed = true;
      running?.abort();
      clearTimeout(gathering);
    },
  };
  return all;
}

/** The events of a body of server-sent events: `{event, data}`. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let event = '';
  let data = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    for (const line of lines.map((text) => text.replace(/\r$/, ''))) {
      if (line.startsWith('event:')) event = line.slice(6).trim();
      else if (line.startsWith('data:')) data.push(line.slice(5).replace(/^ /, ''));
      else if (line === '') {
        if (data.length) yield { event: event || 'message', data: data.join('\n') };
        event = '';
        data = [];
      }
    }
  }
}

/** How long changes gather before a view is read again, in milliseconds. */
const GATHER = 500;
/** Silence that counts as a connection lost, in milliseconds. An event is due each second. */
const SILENCE = 5_000;
/** The longest pause between tries to connect, in milliseconds. */
const LONGEST = 15_000;

/**
 * Follows the live stream, and connects again by itself: after half a second, then twice that with
 * each try, up to fifteen seconds.
 *
 * @param {() => string} where The path, asked for anew with each connection.
 * @param {Object} handlers
 * @param {(event: string, data: Object) => void} handlers.event
 * @param {(why: string, retryAt: number) => void} handlers.lost
 * @returns {{again: () => void}} `again` connects anew at once.
 */
export function live(where, handlers) {
  let failures = 0;
  let cut = new AbortController();
  let wake = () => {};

  async function follow() {
    let silence;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => cut.abort(), SILENCE);
    };
    try {
      heard();
      const answer = await send('GET', where(),
        { headers: { Accept: 'text/event-stream' }, signal: cut.signal });
      if (!answer.ok) await refuse(answer);
      for await (const { event, data } of events(answer.body)) {
        heard();
        failures = 0;
        handlers.event(event, JSON.parse(data));
      }
      return 'The server closed the connection.';
    } catch (error) {
      if (error instanceof Problem) return error.message;
      if (cut.signal.aborted) return 'The server has gone silent.';
      return 'The connection broke.';
    } finally {
      clearTimeout(silence);
    }
  }

  (async () => {
    for (;;) {
      cut = new AbortController();
      const why = await follow();
      if (cut.signal.reason === 'again') continue;
      const pause = Math.min(LONGEST, 500 * 2 ** failures) * (0.75 + Math.random() / 2);
      failures += 1;
      handlers.lost(why, Date.now() + pause);
      await new Promise((resolve) => {
        wake = resolve;
        setTimeout(resolve, pause);
      });
    }
  })();

  return {
    again() {
      failures = 0;
      cut.abort('again');
      wake();
    },
  };
}
