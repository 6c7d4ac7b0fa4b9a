/** @file Schedules: search, filter, sort, last runs, enable, disable, run now. */

import { call, lists, pages, path, reads } from './api.js';
import { idOf, makeBulk } from './bulk.js';
import { cronInWords } from './cron.js';
import {
  badge, button, field, h, known, menu, put, row, select, setText, sync, table,
} from './dom.js';
import { LAST_RUNS, sparkline } from './history.js';
import { runLink, scheduleLink } from './runs.js';
import {
  atLeast, cityOf, clock, count, counted, dated, HERE, now, timeElement,
} from './time.js';
import { stateOptions } from './words.js';

/** How many schedules are read at a time. */
const PAGE = 50;
/** How many are read at a time if they are sorted here. */
const SORTED = 200;
/** How long typing gathers before the list is read again, in milliseconds. */
const GATHER = 300;
/** How often the list is read and counted again while it is looked at, in milliseconds. */
const AGAIN = 10_000;

/** Those that are listed: a one-shot that is finished is among the runs. */
const STATES = ['enabled', 'disabled', 'pending', 'running'];
const OPTIONS = stateOptions(STATES, 'Any');
const KINDS = [['', 'Any'], ['repeated', 'Repeated'], ['once', 'Once']];

/**
 * What the list is sorted by. The API lists by key, as no store has an index of an app's schedules
 * by anything else, and a page is to cost the same however many there are. So any other order is one
 * of those that are shown.
 */
const SORTS = [
  ['', 'Key'], ['next', 'Next run, soonest first'], ['-next', 'Next run, latest first'],
  ['-last', 'Last run, newest first'], ['last', 'Last run, oldest first'],
  ['result', 'Last result, dead first'],
];
/** The orders that the head of a column stands for: the first, and the one that a second press asks for. */
const HEADS = { Schedule: ['', ''], Next: ['next', '-next'], 'Last runs': ['-last', 'last'] };
/** Results, those first that are to be seen first. */
const RESULTS = ['dead', 'skipped', 'cancelled', 'succeeded'];

/** The value that an item is sorted by, less the sign; `undefined` if it has none. */
const VALUES = {
  next: ({ next = [] }) => next.length ? Date.parse(next[0]) : undefined,
  last: ({ last_runs: [last] = [] }) => last && Date.parse(last.recorded),
  result: ({ last_runs: [last] = [] }) => last && RESULTS.indexOf(last.state),
};

/** The items in an order of {@link SORTS}. Those without a value are last. */
function sorted(items, sort) {
  const valueOf = VALUES[sort.replace('-', '')];
  if (!valueOf) return items;
  const sign = sort.startsWith('-') ? -1 : 1;
  return items.map((item) => [valueOf(item), item]).sort(([a], [b]) => {
    if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
    return sign * (a - b);
  }).map(([, item]) => item);
}

/** The labels of a schedule, each a link to the list of those that have it, by its value too. */
export function labelLinks(frame, { labels = {} }) {
  return h('div', { class: 'labels' }, Object.entries(labels).map(([name, value]) => {
    const label = `${name}:${value}`;
    return h('a', { class: 'tag', href: frame.link(['schedules'], { label }),
      'data-act': `label-${label}` }, value ? label : name);
  }));
}

/** When it happens, in a line. */
export function when(schedule) {
  const { cron, zone = 'UTC', every, anchor, at, after } = schedule.when;
  if (cron) {
    const words = cronInWords(cron);
    return [h('code', {}, cron), ' ', h('span', { class: 'soft' }, zone),
      words && h('div', { class: 'in-words' }, words)];
  }
  if (every) {
    return ['every ', h('code', {}, every),
      anchor && h('span', { class: 'soft' }, ` from ${dated(anchor)}`)];
  }
  if (at) return `once, ${dated(at)}`;
  return ['once, after ', h('code', {}, after)];
}

/** The same in words alone, with the zone where it is not the viewer's. */
function whenInWords({ when: { cron, zone = 'UTC', every, at, after } }) {
  if (cron) {
    const words = cronInWords(cron) || cron;
    return h('span', { title: `${cron} ${zone}` },
      zone === HERE ? words : `${words}, ${cityOf(zone)}`);
  }
  return every ? `Every ${every}` : at ? `Once, ${dated(at)}` : `Once, after ${after}`;
}

/** The zone in which a schedule is meant. */
export function zoneOf(schedule) {
  return schedule.when.cron ? schedule.when.zone ?? 'UTC' : HERE;
}

/** What XTimer's clients know it by, if they made it: its name, and who made it. */
export function xtimerOf({ xtimer }) {
  return xtimer && [xtimer.name, xtimer.creator && ` by ${xtimer.creator}`].filter(Boolean).join('');
}

/** Whether it can be switched off and on: a one-shot that is finished cannot. */
export function canSwitch({ state }) {
  return ['enabled', 'disabled', 'pending', 'running'].includes(state);
}

/** The state as it is shown: what is enabled may be paused. */
export function stateOf({ state, paused_until: until }) {
  return until ? 'paused' : state;
}

/** What a schedule calls, in a line; of a one-shot that is over it may not be kept. */
export function target({ callback }) {
  return callback ? `${callback.method ?? 'POST'} ${callback.url}` : 'not kept';
}

/** How many attempts of a schedule that was stopped still run, of the API's answer. */
export function stillRunning({ running = [] }) {
  const many = Array.isArray(running) ? running.length : running;
  return many ? `${counted(many, 'attempt')} still running.` : 'No attempt is running.';
}

/**
 * The buttons for a schedule; none if the token does not let change it.
 *
 * @param {Object} frame
 * @param {Object} schedule
 * @param {() => void} done What is to happen after each.
 */
export function actions(frame, schedule, done) {
  const { app, key, state, paused_until: paused } = schedule;
  const about = key;
  const ask = async (what, said) => {
    try {
      const answer = await call('POST', path(['apps', app, 'schedules', key, what]));
      frame.say(said(answer ?? {}));
    } catch (error) {
      frame.say(`${key} is not changed. ${error.message}`);
    }
    done();
  };
  if (!frame.canChange(app) || !canSwitch(schedule)) return [];
  return [
    state === 'disabled'
      ? button('Enable', () => ask('enable', () => `${key} is enabled.`), { about, act: 'switch' })
      : button('Disable', () => ask('disable',
        (answer) => `${key} is disabled: no new callback starts. ${stillRunning(answer)}`),
      { about, act: 'switch' }),
    paused && button('End pause', () => ask('enable', () => `The pause of ${key} has ended.`),
      { about, act: 'end-pause' }),
    state !== 'disabled' && button('Run now', async () => {
      const text = `It sends ${target(schedule)} at once, ${state === 'enabled' ? 'in addition to its times' : 'instead of at its time'}.`;
      if (await frame.sure(`Run ${key} now?`, text, 'Run')) {
        await ask('run-now', () => `${key} runs.`);
      }
    }, { about, act: 'run-now' }),
  ];
}

/** Shows the view. */
export function show(holder, frame, { parameters }) {
  const chosen = {
    search: parameters.get('search') ?? '',
    state: known(OPTIONS, parameters.get('state')),
    kind: known(KINDS, parameters.get('kind')),
    label: parameters.get('label') ?? '',
  };
  let sort = known(SORTS, parameters.get('sort'));
  const heads = new Map(Object.entries(HEADS).map(([column, orders]) => [column,
    button(column, () => sortBy(orders[orders[0] === sort ? 1 : 0]), { act: `sort-${column}` })]));
  const columns = ['Schedule', 'State', 'When', 'Next', 'Last runs', 'Actions'];
  const list = table('Schedules', columns.map((column) => heads.get(column) ?? column));
  list.table.classList.add('dense', 'schedules');
  heads.get('Next').after(h('span', {}, ` (${cityOf(HERE)})`));
  holder.classList.add('tight');
  const empty = h('p', { class: 'empty' }, 'Reading …');
  const first = frame.apps.some(frame.canChange) && h('p', { hidden: true },
    h('a', { href: frame.link(['edit'], { example: 1 }) }, 'Start from an example'));
  const status = h('p', { class: 'hint' });
  const more = button('Show more', () => {
    more.setAttribute('aria-busy', 'true');
    reading.start({ more: true });
  }, { act: 'more' });
  more.hidden = true;
  list.table.hidden = true;
  const shown = pages(() => sort ? SORTED : PAGE, (isCounted) =>
    lists(frame.apps, 'schedules', asked(isCounted), byName));
  const reading = reads(shown.read, draw, failed);
  const again = () => reading.again();
  const bulk = makeBulk(frame, () => shown.items, again);
  let typing;

  const search = field('Search', h('input', {
    type: 'search', id: 'search', value: chosen.search, placeholder: 'part of the key',
    autocomplete: 'off', spellcheck: 'false', oninput: gather,
  }));
  const states = field('State', select(OPTIONS, chosen.state, { id: 'state' }));
  const kinds = field('Kind', select(KINDS, chosen.kind, { id: 'kind' }));
  const labels = field('Label', h('input', {
    type: 'search', id: 'label', value: chosen.label, placeholder: 'name:value',
    autocomplete: 'off', spellcheck: 'false', oninput: gather,
  }));
  const sorts = field('Sort by', select(SORTS, sort, { id: 'sort' }));
  put(holder,
    h('div', { class: 'over' }, h('h1', {}, 'Schedules'),
      frame.apps.some(frame.canChange) && h('a', { href: frame.link(['edit']), class: 'button main' }, 'New schedule')),
    h('form', { class: 'filters', role: 'search', 'aria-label': 'Schedules',
      onsubmit: (event) => { event.preventDefault(); filter(); }, onchange: filter },
    search, states, kinds, labels, sorts),
    h('div', { class: 'over' }, bulk.element, status), list.table, empty, first, h('p', {}, more));
  bulk.draw();

  function gather() {
    clearTimeout(typing);
    typing = setTimeout(filter, GATHER);
  }

  function filter() {
    clearTimeout(typing);
    chosen.search = search.querySelector('input').value.trim();
    chosen.state = states.querySelector('select').value;
    chosen.kind = kinds.querySelector('select').value;
    chosen.label = labels.querySelector('input').value.trim();
    sort = sorts.querySelector('select').value;
    frame.go(frame.link(['schedules'], { ...chosen, sort }), { replace: true });
    bulk.clear();
    drawHeads();
    reading.start({ first: true, isCounted: true });
  }

  function sortBy(order) {
    sorts.querySelector('select').value = order;
    filter();
  }

  function drawHeads() {
    for (const [column, head] of heads) {
      const is = sort === 'result' && column === 'Last runs' ? 'other'
        : !HEADS[column].includes(sort) ? 'none'
          : sort.startsWith('-') ? 'descending' : 'ascending';
      head.parentElement.setAttribute('aria-sort', is);
    }
  }

  /** What is asked of the API. It searches keys; names of XTimer's are looked through here. */
  function asked(isCounted) {
    const whole = { ...chosen, last_runs: LAST_RUNS, count: isCounted ? true : '' };
    if (!chosen.search) return whole;
    const text = chosen.search.toLowerCase();
    const accepts = ({ key, xtimer }) => xtimer && !key.toLowerCase().includes(text) &&
      [xtimer.name, xtimer.creator].some((name) => name.toLowerCase().includes(text));
    return [whole, { ...chosen, search: '', prefix: 'xtimer.', accepts }];
  }

  function draw() {
    more.removeAttribute('aria-busy');
    const { total } = shown;
    const items = sorted(shown.items, sort);
    more.hidden = !shown.more;
    list.table.hidden = !items.length;
    empty.hidden = items.length > 0;
    const isFiltered = Object.values(chosen).some(Boolean);
    setText(empty, shown.more ? 'None of those looked at so far matches. “Show more” looks further.'
      : isFiltered ? 'No schedules match.' : 'No schedules yet.');
    if (first) first.hidden = isFiltered || items.length > 0;
    const isPart = sort && shown.more && items.length > 0;
    setText(status, `${howMany(items.length, shown.more, total)}, as of ${clock(now())}.` +
      (isPart ? ` Sorted are the ${count(items.length)} shown.` : ''));
    sync(list.body, items, idOf, drawRow);
    bulk.draw();
  }

  function failed(error) {
    more.removeAttribute('aria-busy');
    setText(status,
      `Not read: ${error.message} ${shown.items.length ? 'What follows is older.' : ''}`);
    if (first) first.hidden = true;
    empty.hidden = true;
  }

  function drawRow(schedule) {
    const { app, key, next = [] } = schedule;
    return row([
      ['Schedule', [bulk.box(schedule), scheduleLink(frame, schedule),
        schedule.xtimer && h('span', { class: 'soft' }, ' ', xtimerOf(schedule)),
        schedule.labels && labelLinks(frame, schedule)]],
      ['State', badge(stateOf(schedule))],
      ['When', whenInWords(schedule)],
      ['Next', schedule.unreadable
        ? h('span', { class: 'error' }, `Does not run: ${schedule.unreadable}`)
        : next.length ? nextRun(schedule, next[0]) : '–'],
      ['Last runs', lastRuns(frame, schedule)],
      ['Actions', menu(key,
        h('p', { class: 'url' }, target(schedule)),
        h('div', { class: 'buttons' }, actions(frame, schedule, again),
          h('a', { href: frame.link(['runs'], { app, key }), 'data-act': 'runs', class: 'button' }, 'Runs'),
          frame.canChange(app) && h('a',
            { href: frame.link(['edit', app, key]), 'data-act': 'edit', class: 'button' }, 'Edit')))],
    ]);
  }

  /** Whether it is read again by itself. What was looked for further and further is not. */
  function isLive() {
    return !document.hidden && !(chosen.label && shown.times > 1);
  }

  drawHeads();
  reading.start({ isCounted: true });
  const timer = setInterval(() => { if (isLive()) reading.again({ isCounted: true }); }, AGAIN);
  return {
    refresh: () => { if (isLive()) again(); },
    run: () => { if (isLive()) reading.soon(); },
    close() {
      reading.close();
      bulk.close();
      clearTimeout(typing);
      clearInterval(timer);
    },
  };
}

/** `50 of 120 schedules`, or how many there are if all are shown. */
function howMany(shown, isMore, total) {
  if (!isMore) return counted(shown, 'schedule');
  if (!total) return `${counted(shown, 'schedule')} and more`;
  return `${count(shown)} of ${atLeast(total.at_least, counted(total.count, 'schedule'))}`;
}

/** The last result, and the runs before it in a line. */
function lastRuns(frame, { app, key, last_runs: runs }) {
  // They are not asked for with those that are found by another name than the key.
  if (!runs) return h('a', { href: frame.link(['runs'], { app, key }) }, 'Runs');
  if (!runs.length) return '–';
  const [last] = runs;
  return h('span', { class: 'last-run' }, runLink(frame, { ...last, app, key }),
    h('span', { class: 'soft' }, timeElement(last.recorded)), sparkline(runs));
}

/** The order of the API's lists, one app after another. */
function byName(a, b) {
  return a.app === b.app ? 0 : a.app < b.app ? -1 : 1;
}

/** A run to come, by the viewer's clock; by its own zone's too where one points. */
function nextRun(schedule, time) {
  const zone = zoneOf(schedule);
  const element = timeElement(time, dated(time));
  if (zone !== HERE) element.title = `${dated(time, zone)} ${zone}; ${element.title}`;
  return element;
}
