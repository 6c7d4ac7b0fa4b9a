/** @file The page's frame: which view is shown, which app, and whether the figures are fresh. */

import { call, live, onUnauthorized, path, token } from './api.js';
import { badge, button, h, put, setText } from './dom.js';
import { clock, deviceAhead, HERE, setClock, span, tick } from './time.js';
import * as edit from './edit.js';
import * as now from './now.js';
import * as runs from './runs.js';
import * as schedule from './schedule.js';
import * as schedules from './schedules.js';

/** Silence after which figures are called old, in milliseconds. An event is due each second. */
const FRESH = 3_000;
/** A device's clock that is off by more than this is remarked upon, in milliseconds. */
const CLOCK_OFF = 2_000;
/** A service with more apps than these is not taken for a new one. */
const NEW = 20;

const by = (id) => document.getElementById(id);
const main = by('main');

/** What `#/...` shows: the pattern's groups are the view's `key` and so on. */
const ROUTES = [
  [/^\/now$/, now.show, 'now'],
  [/^\/schedules$/, schedules.show, 'schedules'],
  [/^\/schedules\/(?<app>[^/]+)\/(?<key>[^/]+)$/, schedule.show, 'schedules'],
  [/^\/edit$/, edit.show, 'schedules'],
  [/^\/edit\/(?<app>[^/]+)\/(?<key>[^/]+)$/, edit.show, 'schedules'],
  [/^\/runs$/, runs.show, 'runs'],
  [/^\/dead$/, runs.showDead, 'dead'],
  [/^\/runs\/(?<app>[^/]+)\/(?<id>[^/]+)$/, runs.showOne, 'runs'],
];

/** The apps that the token may see, by name, as the API shows them. */
let apps = new Map();
/** The app that was chosen; all if it is empty. */
let chosen = '';
/** The view that is shown: its functions for what happens. */
let view = {};
/** The last overview, and when it came by this device's clock. */
let last = null;
let heardAt = 0;
let isFresh = false;
/** What is wrong: `{why, retryAt}`, without `retryAt` if it is the store. */
let trouble = null;
let stream = null;

/** What views ask of the frame. */
const frame = {
  /** The apps to show: the one that was chosen, or all. */
  get apps() { return chosen ? [chosen] : [...apps.keys()]; },
  get allApps() { return [...apps.keys()]; },
  canChange: (app) => apps.get(app)?.write === true,
  /** The names of the secrets that headers of an app's callbacks can have. */
  secretsOf: (app) => apps.get(app)?.header_secrets ?? [],
  /** What holds in an app where a definition says nothing. */
  defaultsOf: (app) => (apps.get(app) ?? [...apps.values()][0]).defaults,
  get chosen() { return chosen; },
  /** Whether the last overview is how it stands. */
  get isFresh() { return isFresh; },
  say,
  sure,
  go,
  link,
};

/** The address of a view that keeps the chosen app. */
function link(parts, parameters = {}) {
  const query = new URLSearchParams(Object.entries({ app: chosen, ...parameters })
    .filter(([, value]) => value !== '' && value !== undefined));
  return `#/${parts.map(encodeURIComponent).join('/')}${query.size ? `?${query}` : ''}`;
}

/** Goes to a view; in place of this one if `replace` is set. */
function go(hash, { replace = false } = {}) {
  if (replace) history.replaceState(null, '', hash);
  else location.hash = hash;
}

/** Says in a few words what was done; it is read out, too. */
function say(text) {
  const said = by('said');
  said.replaceChildren(h('p', {}, text));
  clearTimeout(say.timer);
  say.timer = setTimeout(() => said.replaceChildren(), 8_000);
}

/** Asks whether that is meant. */
async function sure(head, text, word) {
  const dialog = by('sure');
  setText(by('sure-head'), head);
  setText(by('sure-text'), text);
  setText(by('sure-yes'), word);
  dialog.returnValue = 'no';
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener('close', resolve, { once: true }));
  return dialog.returnValue === 'yes';
}

onUnauthorized(async (refused) => {
  const dialog = by('token');
  const value = by('token-value');
  value.value = '';
  setText(by('token-why'), refused
    ? 'The server refused that token. Enter another one.'
    : 'This server requires a token. It is kept in this tab until you close it.');
  dialog.addEventListener('cancel', (event) => event.preventDefault());
  if (!dialog.open) dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener('close', resolve, { once: true }));
  by('sign-out').hidden = false;
  return value.value.trim();
});

// Not by its address: that is a view's.
document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});

document.addEventListener('click', ({ target }) => {
  for (const menu of document.querySelectorAll('.menu[open]')) {
    if (!menu.contains(target)) menu.open = false;
  }
});

by('sign-out').addEventListener('click', () => {
  token.forget();
  location.reload();
});

/** Shows what the address says. `focus` moves to the heading, except at the start. */
async function route(focus = true) {
  const [address, query = ''] = (location.hash.slice(1) || '/now').split('?');
  const parameters = new URLSearchParams(query);
  const app = parameters.get('app') ?? '';
  chosen = apps.has(app) ? app : '';
  by('app').value = chosen;
  const [groups, show, name] = app === chosen && find(address) || [{}, nowhere, ''];
  for (const item of document.querySelectorAll('[data-view]')) {
    item.href = link([item.dataset.view]);
    if (item.dataset.view === name) item.setAttribute('aria-current', 'page');
    else item.removeAttribute('aria-current');
  }
  view.close?.();
  const holder = h('div', { class: 'view' });
  main.replaceChildren(holder);
  view = show(holder, frame, { ...groups, parameters }) ?? {};
  const head = holder.querySelector('h1');
  document.title = `${head.textContent} · tourbillon`;
  head.tabIndex = -1;
  if (focus) head.focus();
  if (last) view.overview?.(last);
}

/** The view of an address: the parts of it, how it is shown, and its name; `null` if it has none. */
function find(address) {
  for (const [pattern, show, name] of ROUTES) {
    const match = pattern.exec(address);
    if (!match) continue;
    try {
      const groups = Object.entries(match.groups ?? {})
        .map(([part, text]) => [part, decodeURIComponent(text)]);
      // The browser would take them out of an address of the API.
      if (groups.some(([, text]) => text === '.' || text === '..')) return null;
      return [Object.fromEntries(groups), show, name];
    } catch {
      return null;
    }
  }
  return null;
}

function nowhere(holder) {
  put(holder, h('h1', {}, 'Page not found'),
    h('p', {}, 'This address has no page, or names an app that your token cannot see. ',
      h('a', { href: '#/now' }, 'Now')));
}

/** Draws whether what is shown is fresh, and says so in words if it is not. */
function freshness() {
  const old = last && Date.now() - heardAt > FRESH;
  const wasFresh = isFresh;
  isFresh = !trouble && !old;
  if (last && wasFresh && !isFresh) view.overview?.(last);
  const state = trouble ? 'lost' : !last ? 'connecting' : old ? 'late' : 'live';
  const words = { live: 'Live', late: 'Delayed', connecting: 'Connecting', lost: 'Disconnected' };
  if (by('link').dataset.state !== state) {
    by('link').dataset.state = state;
    by('link').replaceChildren(badge(state, words[state]));
  }
  document.body.classList.toggle('old', !isFresh);
  if (!trouble) return;
  const seconds = Math.ceil((trouble.retryAt - Date.now()) / 1000);
  const next = trouble.retryAt === undefined ? '' : seconds > 0
    ? `Next try in ${seconds} s.` : 'Trying now.';
  setText(by('trouble-next'), next);
}

/** Shows what is wrong, and since when nothing is known; once, so that it is read out once. */
function troubled(why, retryAt) {
  const before = trouble;
  trouble = { why, retryAt };
  if (before?.why !== why) {
    const since = last
      ? `What you see is from ${clock(last.now)}, and may have changed since.`
      : 'Nothing could be read yet.';
    by('trouble').replaceChildren(
      h('p', {}, h('strong', {}, why), ' ', since, ' ',
        h('span', { id: 'trouble-next', 'aria-hidden': 'true' })),
      button('Try now', () => stream.again()));
  }
  freshness();
}

function untroubled() {
  if (!trouble) return;
  trouble = null;
  by('trouble').replaceChildren();
  say('Connected again. What you see is up to date.');
  view.refresh?.();
}

function about() {
  const off = deviceAhead();
  const remark = Math.abs(off) > CLOCK_OFF
    ? ` This device's clock is ${span(Math.abs(off))} ${off > 0 ? 'ahead' : 'behind'}.` : '';
  setText(by('about'),
    `Store's clock ${clock(last.now)}, shown in ${HERE}.${remark}`);
}

/** Follows the stream of the chosen app; starts anew when another is chosen. */
function follow() {
  let followed = chosen;
  stream = live(() => path(['live'], { app: chosen }), {
    event(event, data) {
      if (event === 'overview') {
        setClock(data.now);
        last = data;
        heardAt = Date.now();
        untroubled();
        freshness();
        about();
        view.overview?.(data);
      } else if (event === 'run') {
        view.run?.(data);
      } else if (event === 'missed') {
        view.refresh?.();
      } else if (event === 'problem') {
        troubled(`The store does not answer. ${data.detail ?? ''}`.trim());
      }
    },
    lost: troubled,
  });
  window.addEventListener('hashchange', () => {
    route();
    if (followed === chosen) return;
    followed = chosen;
    last = null;
    stream.again();
  });
  const hurry = () => { if (trouble && !document.hidden) stream.again(); };
  window.addEventListener('online', hurry);
  document.addEventListener('visibilitychange', hurry);
}

/** Whether nothing is there yet, and the viewer may change that. */
async function isEmpty() {
  if (![...apps.values()].some(({ write }) => write)) return false;
  try {
    const { enabled, disabled, running, outcomes, pending_next_hour: pending } =
      await call('GET', '/v1/overview');
    const isIdle = [enabled, disabled, running, ...Object.values(outcomes), ...pending]
      .every((figure) => figure === 0);
    if (!isIdle || apps.size > NEW) return false;
    // One-shots are in no figure before their last hour, or after it.
    const lists = await Promise.all([...apps.keys()].flatMap((app) => ['schedules', 'runs'].map(
      (what) => call('GET', path(['apps', app, what], { limit: 1 })))));
    return lists.every(({ items, next }) => !items.length && !next);
  } catch {
    // The stream reports the fault.
    return false;
  }
}

/** Learns which apps there are, as often as it takes. */
async function start() {
  for (let failures = 0; ; failures += 1) {
    try {
      const seen = await call('GET', '/v1/apps');
      apps = new Map(seen.map((app) => [app.name, app]));
      break;
    } catch (error) {
      const pause = Math.min(15_000, 500 * 2 ** failures);
      stream = { again: () => location.reload() };
      troubled(error.message, Date.now() + pause);
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
  trouble = null;
  by('trouble').replaceChildren();
  by('sign-out').hidden = !token.get();
  by('app').append(...[...apps.keys()].map((name) => h('option', { value: name }, name)));
  by('app').addEventListener('change', () => {
    const [address, query] = (location.hash.slice(1) || '/now').split('?');
    const parameters = new URLSearchParams(query);
    parameters.set('app', by('app').value);
    if (!by('app').value) parameters.delete('app');
    go(`#${address}${parameters.size ? `?${parameters}` : ''}`);
  });
  if (!location.hash && await isEmpty()) go(link(['edit'], { example: 1 }), { replace: true });
  await route(false);
  follow();
  setInterval(() => { tick(); freshness(); }, 500);
}

start();
