/** @file What happens now: overdue, running, failing, late; the next hour; the nodes. */

import { makeChart } from './chart.js';
import { badge, button, h, put, row, section, setText, svg, sync, table } from './dom.js';
import { makeHistory } from './history.js';
import { canRetry, retry, runLink, scheduleLink, stateOf, why } from './runs.js';
import {
  atLeast, cityOf, clock, count, counted, HERE, now, span, timeElement,
} from './time.js';

/** How many ended attempts are kept in sight. */
const LAST = 8;
const MINUTE = 60_000;

/** Shows the view; it takes overviews and runs. */
export function show(holder, frame) {
  const figures = makeFigures();
  const hour = makeHour();
  const lateness = makeLateness();
  const failing = makeFailing(frame);
  const nodes = makeNodes(frame);
  const lastRuns = makeLast(frame);
  const history = makeHistory(frame, frame.apps);
  put(holder,
    h('h1', {}, 'Now'),
    figures.element, failing.element, hour.element, history.element,
    h('div', { class: 'columns' },
      h('div', {}, nodes.element, lateness.element),
      h('div', {}, lastRuns.element)),
  );
  const parts = [figures, hour, lateness, failing, nodes];
  return {
    overview: (overview) => parts.forEach((part) => part.update(overview)),
    run: lastRuns.add,
    refresh: history.refresh,
    close: history.close,
  };
}

/** The figures that are looked at first. */
function makeFigures() {
  const list = h('dl', { class: 'figures' });
  const figure = (name, words) => {
    const number = h('dd', { class: 'number', 'data-figure': name }, '–');
    const note = h('dd', { class: 'note' });
    const box = h('div', {}, h('dt', {}, words), number, note);
    list.append(box);
    return (value, isCut, text = '', tone = '') => {
      setText(number, atLeast(isCut, count(value)));
      number.classList.toggle('long', isCut);
      setText(note, text);
      box.className = tone;
    };
  };
  const overdue = figure('overdue', 'Overdue');
  const running = figure('running', 'Running');
  const failing = figure('failing', 'Failing schedules');
  const hour = figure('hour', 'Due, next hour');
  const ended = figure('ended', 'Succeeded, last hour');
  const enabled = figure('enabled', 'Schedules');
  return {
    element: h('section', { 'aria-label': 'Figures' }, list),
    update(overview) {
      const { dead = 0, succeeded = 0 } = overview.outcomes;
      const isCut = (name) => overview.at_least.includes(name);
      const due = overview.pending_next_hour.reduce((sum, each) => sum + each, 0);
      overdue(overview.overdue, isCut('overdue'),
        overview.overdue ? 'due and not started' : 'all on time', overview.overdue ? 'warn' : '');
      running(overview.running, isCut('running'), 'at this moment');
      const many = overview.failing.length;
      failing(many, isCut('failing'),
        isCut('failing') ? 'last ones below' : many ? 'see below' : 'none', many ? 'bad' : '');
      const next = count(overview.pending_next_hour[0]);
      hour(due, isCut('pending_next_hour'),
        `${atLeast(isCut('pending_next_hour'), next)} in the next minute`);
      ended(succeeded, isCut('outcomes'), atLeast(isCut('outcomes'), counted(dead, 'dead letter')));
      enabled(overview.enabled, isCut('enabled'),
        `enabled, ${atLeast(isCut('disabled'), count(overview.disabled))} disabled`);
    },
  };
}

/** The next hour, a bar a minute. */
function makeHour() {
  const minutes = 60;
  const [width, height] = [600, 96];
  let counts = new Array(minutes).fill(0);
  let isCut = false;
  let from = now();
  const bars = counts.map((_, index) =>
    svg('rect', { x: index * 10 + 1, width: 8, y: height, height: 0, rx: 1 }));
  const chart = makeChart({
    label: 'Minute of the next hour', describedBy: 'hour-how', many: minutes, width, height, words,
  }, bars);
  const most = h('span', {});
  const hours = [0, 15, 30, 45, 60].map(() => h('span', {}));
  const details = table('Calls due in each minute of the next hour', ['Minute', 'Due']);

  function words(index) {
    const start = from + index * MINUTE;
    const minute = `${clock(start, { seconds: false })}–${clock(start + MINUTE, { seconds: false })}`;
    return [minute, atLeast(isCut, counted(counts[index], 'call'))];
  }
  function drawTable() {
    if (!details.table.parentElement.open) return;
    sync(details.body, counts.map((_, index) => [index, ...words(index)]), ([index]) => `${index}`,
      ([, minute, calls]) => row([['Minute', minute], ['Due', calls]]));
  }
  return {
    element: section('hour', 'The next hour',
      h('p', { class: 'hint', id: 'hour-how' },
        'One bar is one minute. Use the arrow keys or a pointer to read each figure.'),
      h('div', { class: 'scale' }, most, chart.readout),
      chart.element,
      h('div', { class: 'axis', 'aria-hidden': 'true' }, hours),
      h('p', { class: 'axis-name', 'aria-hidden': 'true' }, `Time when calls are due, ${cityOf(HERE)}`),
      h('details', { ontoggle: drawTable }, h('summary', {}, 'As a table'), details.table)),
    update(overview) {
      counts = overview.pending_next_hour;
      isCut = overview.at_least.includes('pending_next_hour');
      from = Date.parse(overview.now);
      const top = Math.max(1, ...counts);
      bars.forEach((bar, index) => {
        const tall = counts[index] && Math.max(2, Math.round(counts[index] / top * height));
        bar.setAttribute('y', height - tall);
        bar.setAttribute('height', tall);
      });
      const fullest = counted(Math.max(...counts), 'call');
      setText(most, isCut
        ? `at least ${fullest} in the fullest minute` : `at most ${fullest} a minute`);
      hours.forEach((label, index) =>
        setText(label, clock(from + index * 15 * MINUTE, { seconds: false })));
      chart.read();
      drawTable();
    },
  };
}

/** How late attempts began: percentiles, and a bar for each bucket. */
function makeLateness() {
  const percentiles = h('dl', { class: 'percentiles' });
  const buckets = table('Attempts by how late they began', ['Late by', 'Attempts', 'Share']);
  const none = h('p', { class: 'empty' }, 'Nothing has run yet.');
  return {
    element: section('lateness', 'Lateness',
      h('p', { class: 'hint' }, 'Time from when a run is due to the start of its attempt, on this node.'),
      percentiles, buckets.table, none),
    update({ lateness }) {
      const all = lateness.histogram.filter(({ count: many }) => many);
      none.hidden = all.length > 0;
      buckets.table.hidden = !all.length;
      percentiles.hidden = !all.length;
      const shown = ['p50', 'p90', 'p99', 'p9999'].map((name) => [name, lateness[name]]);
      sync(percentiles, shown, ([name]) => name, ([name, ms]) => h('div', {},
        h('dt', {}, name.replace('9999', '99.99')),
        h('dd', {}, typeof ms === 'number' ? span(ms) : '–')));
      const sum = all.reduce((total, { count: many }) => total + many, 0);
      const top = Math.max(...all.map(({ count: many }) => many));
      sync(buckets.body, all, ({ le_ms: ms }) => `${ms}`, ({ le_ms: ms, count: many }) => row([
        ['Late by', typeof ms === 'number' ? `≤ ${span(ms)}` : 'more'],
        ['Attempts', count(many)],
        ['Share', [
          svg('svg', {
            class: 'share', viewBox: '0 0 100 8', preserveAspectRatio: 'none', 'aria-hidden': 'true',
          }, svg('rect', { width: Math.max(1, many / top * 100), height: 8 })),
          h('span', { class: 'unseen' }, `${(many / sum * 100).toFixed(1)} %`),
        ]],
      ]));
    },
  };
}

/** The schedules whose runs died within the hour, each with the last of them. */
function makeFailing(frame) {
  const list = table('Failing',
    ['Schedule', 'Last run', 'Dead', 'Last answer', 'Time', 'Actions']);
  const none = h('p', { class: 'empty' }, 'Nothing is failing.');
  return {
    element: section('failing', 'Failing', list.table, none),
    update({ failing }) {
      none.hidden = failing.length > 0;
      list.table.hidden = !failing.length;
      sync(list.body, failing, ({ app, key }) => `${app}/${key}`, failingRow);
    },
  };

  function failingRow(run) {
    return row([
      ['Schedule', scheduleLink(frame, run)],
      ['Last run', runLink(frame, run, stateOf(run))],
      ['Dead', run.dead_runs && h('a', {
        href: frame.link(['dead'], { app: run.app, key: run.key }), 'data-act': 'runs',
      }, counted(run.dead_runs, 'run'))],
      ['Last answer', why(run)],
      ['Time', timeElement(run.recorded ?? run.due ?? run.scheduled_for)],
      ['Actions', canRetry(frame, run) &&
        button('Retry', () => retry(frame, run), { about: run.key })],
    ]);
  }
}

/** The nodes, how long their leases hold, and how far off their clocks are. */
function makeNodes(frame) {
  const list = table('Nodes', ['Node', 'Lease', 'Last beat', 'Clock']);
  const none = h('p', { class: 'empty' }, 'No node has a lease, so no callback is sent.');
  const lease = (node) => {
    if (!frame.isFresh) return badge('unknown', 'Unknown');
    const left = Date.parse(node.expires) - now();
    if (left <= 0) return badge('lost', 'Expired');
    const quiet = now() - Date.parse(node.beat);
    return badge(quiet > 2_500 ? 'late' : 'live', `${Math.ceil(left / 1000)} s left`);
  };
  const offset = (ms) => {
    if (typeof ms !== 'number') return '–';
    const word = `${ms < 0 ? '−' : '+'}${span(Math.abs(ms))}`;
    return Math.abs(ms) > 1000 ? badge('late', word) : word;
  };
  return {
    element: section('nodes', 'Nodes',
      h('p', { class: 'hint' }, 'Each clock is compared with the store’s clock, which decides when a run is due.'),
      list.table, none),
    update({ nodes }) {
      none.hidden = nodes.length > 0;
      list.table.hidden = !nodes.length;
      // A lease is drawn anew each second, whether or not it was renewed.
      const second = Math.floor(now() / 1000);
      sync(list.body, nodes.map((node) => ({ ...node, second, isFresh: frame.isFresh })), ({ id }) => id, (node) => row([
        ['Node', [h('code', { title: node.id }, node.id.slice(0, 8)),
          node.this && h('span', { class: 'tag' }, 'this one')]],
        ['Lease', lease(node)],
        ['Last beat', timeElement(node.beat)],
        ['Clock', offset(node.clock_offset_ms)],
      ]));
    },
  };
}

/** The attempts that ended while one looked on. */
function makeLast(frame) {
  const list = table('Attempts that finished', ['State', 'Schedule', 'Finished', 'Answer']);
  const none = h('p', { class: 'empty' }, 'Attempts appear here as they finish.');
  let seen = [];
  list.table.hidden = true;
  return {
    element: section('last', 'Just finished', list.table, none),
    add(run) {
      const ended = new Date(now()).toISOString();
      seen = [{ ...run, ended }, ...seen].slice(0, LAST);
      none.hidden = true;
      list.table.hidden = false;
      sync(list.body, seen, ({ id, attempts, ended: time }) => `${id}/${attempts}/${time}`,
        (each) => row([
          ['State', runLink(frame, each, stateOf(each))],
          ['Schedule', scheduleLink(frame, each)],
          ['Finished', h('time', { datetime: each.ended }, clock(each.ended, { zone: HERE }))],
          ['Answer', why(each)],
        ]));
    },
  };
}
