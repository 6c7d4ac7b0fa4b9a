/** @file What runs came to: the last ones in a line, and counts over a day or a week. */

import { call, path, reads } from './api.js';
import { makeChart } from './chart.js';
import { field, h, row, section, select, setText, svg, sync, table } from './dom.js';
import { atLeast, cityOf, clock, count, counted, dated, HERE, now } from './time.js';
import { stateInWords } from './words.js';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/** Spans of the chart: how many parts, and how many hours each has. */
const SPANS = { day: [24, 1], week: [28, 6] };
/** How often the chart is read again while it is looked at, in milliseconds. */
const AGAIN = 30_000;

/** The least height of a bar that stands for any runs, of the 120 of the chart. */
const LEAST = 2;

/** How many runs a line shows. */
export const LAST_RUNS = 20;
/** Outcomes in the order in which they are listed, and stacked from the line up, but for `dead`. */
const OUTCOMES = ['succeeded', 'skipped', 'cancelled', 'dead'];

/** `18 succeeded, 2 dead`, of counts by outcome. */
function outcomesInWords(counts, figure = (number) => `${number}`) {
  const words = OUTCOMES.filter((outcome) => counts[outcome])
    .map((outcome) => `${figure(counts[outcome])} ${stateInWords(outcome).toLowerCase()}`);
  return words.join(', ') || 'none';
}

/**
 * The last runs in a line, the newest on the right: up is a success, down is dead, and a dot on the
 * line did not run.
 *
 * @param {{state: string}[]} runs Newest first.
 */
export function sparkline(runs) {
  const [wide, middle] = [5, 8];
  const counts = {};
  for (const { state } of runs) counts[state] = (counts[state] ?? 0) + 1;
  const bars = runs.map(({ state }, index) => {
    const x = (LAST_RUNS - 1 - index) * wide + 1;
    const [y, height] = { succeeded: [0, middle], dead: [middle, middle] }[state] ?? [middle - 1, 2];
    return svg('rect', { x, y, width: wide - 2, height, class: state });
  });
  return h('span', { class: 'sparkline' }, svg('svg', {
    viewBox: `0 0 ${LAST_RUNS * wide} ${2 * middle}`, role: 'img',
    'aria-label': `Last ${counted(runs.length, 'run')}: ${outcomesInWords(counts)}`,
  }, svg('rect', { class: 'base', x: 0, y: middle - 0.5, width: LAST_RUNS * wide, height: 1 }), bars));
}

/**
 * Makes a part of a view with the runs that finished over a day or a week, until now.
 *
 * @param {Object} frame
 * @param {string[]} apps
 * @param {string} [key] Of one schedule alone.
 */
export function makeHistory(frame, apps, key) {
  const element = h('div', { class: 'history' });
  const said = h('p', { class: 'hint', id: 'history-how' });
  const span = select([['day', 'Last day'], ['week', 'Last week']], 'day',
    { id: 'history-span', onchange: choose });
  let chart;
  let found;
  const reading = reads(read, () => chart.draw(found, said),
    (error) => setText(said, `Not read: ${error.message}`));

  /** Draws an empty chart of the chosen span, and reads it. */
  function choose() {
    chart = makeBars(...SPANS[span.value], open);
    element.replaceChildren(chart.element);
    setText(said, '');
    reading.start();
  }

  /** Lists the runs of a bar. */
  function open(since, until) {
    const [from, to] = [since, until].map((time) => new Date(time).toISOString());
    frame.go(frame.link(['runs'],
      { app: apps.length === 1 ? apps[0] : '', key, since: from, until: to }));
  }

  async function read(signal) {
    const [many, hours] = SPANS[span.value];
    const until = end();
    const [since, last] = [until - many * hours * HOUR, until]
      .map((time) => new Date(time).toISOString());
    const all = await Promise.all(apps.map((app) => call('GET',
      path(['apps', app, 'history'], { since, until: last, buckets: many, key }), { signal })));
    const cuts = all.map(({ counted_since: cut }) => cut ? Date.parse(cut) : 0);
    found = { start: Date.parse(since), counts: add(all), countedSince: Math.max(...cuts) };
  }

  choose();
  const timer = setInterval(() => { if (!document.hidden) reading.again(); }, AGAIN);
  return {
    element: section('history', 'Finished runs', field('Span', span), said, element),
    refresh: () => reading.again(),
    close() {
      reading.close();
      clearInterval(timer);
    },
  };
}

/** The counts of several apps as one. */
function add(histories) {
  return histories[0].buckets.map((_, index) => Object.fromEntries(OUTCOMES.map((outcome) =>
    [outcome, histories.reduce((sum, { buckets }) => sum + buckets[index][outcome], 0)])));
}

/** The end of the chart: now, at the end of a minute, so that many viewers ask for the same. */
function end() {
  return Math.ceil(now() / MINUTE) * MINUTE;
}

/** Bars of so many parts, each of some hours; `open` is called with the span of one. */
function makeBars(many, hours, open) {
  const [wide, height] = [20, 120];
  let buckets = Array.from({ length: many }, () => null);
  let countedSince = 0;
  let from = end() - many * hours * HOUR;
  const line = svg('rect', { class: 'base', x: 0, width: many * wide, height: 1 });
  const bars = buckets.map((_, index) => OUTCOMES.map((outcome) =>
    svg('rect', { class: outcome, x: index * wide + 3, width: wide - 6, height: 0 })));
  const chart = makeChart({
    label: 'Bar of the chart', describedBy: 'history-how', many, width: many * wide, height, words,
    open: (index) => open(from + index * hours * HOUR, from + (index + 1) * hours * HOUR),
  }, line, bars);
  const axis = [0, 0.25, 0.5, 0.75, 1].map(() => h('span', {}));
  const head = OUTCOMES.map((outcome) => stateInWords(outcome));
  const details = table('Runs that finished in each part of the span', ['Time', ...head]);

  function partOf(index) {
    const start = from + index * hours * HOUR;
    const begin = hours > 1 ? dated(start).slice(0, -3) : clock(start, { seconds: false });
    return `${begin}–${clock(start + hours * HOUR, { seconds: false })}`;
  }
  /** Whether older runs of a part are not counted; of one that has any, it has at least those. */
  function isCut(index) {
    return from + index * hours * HOUR < countedSince;
  }
  function isCounted(index) {
    return !isCut(index) || from + (index + 1) * hours * HOUR > countedSince &&
      Object.values(buckets[index]).some((figure) => figure > 0);
  }
  function words(index) {
    if (!buckets[index]) return [partOf(index), 'not read yet'];
    return [partOf(index), isCounted(index)
      ? outcomesInWords(buckets[index], (figure) => atLeast(isCut(index), count(figure)))
      : 'not counted'];
  }
  function drawTable() {
    if (!details.table.parentElement.open || !buckets[0]) return;
    // Two parts have the same words in the night in which the clock is set back.
    const parts = buckets.map((bucket, index) => [index, partOf(index), ...OUTCOMES.map((outcome) =>
      isCounted(index) ? atLeast(isCut(index), count(bucket[outcome])) : 'not counted')]);
    sync(details.body, parts, ([index]) => `${index}`, ([, part, ...figures]) => row([
      ['Time', part], ...figures.map((figure, index) => [head[index], figure])]));
  }
  return {
    element: h('div', {},
      chart.readout, chart.element,
      h('div', { class: 'axis', 'aria-hidden': 'true' }, axis),
      h('p', { class: 'axis-name', 'aria-hidden': 'true' }, `Time when runs finished, ${cityOf(HERE)}`),
      h('details', { ontoggle: drawTable }, h('summary', {}, 'As a table'), details.table)),
    /** Draws counts that begin at `start`, and writes their sum into `said`. */
    draw({ start, counts, countedSince: since }, said) {
      [from, buckets, countedSince] = [start, counts, since];
      const cut = isCut(0);
      const sums = Object.fromEntries(OUTCOMES.map((outcome) =>
        [outcome, counts.reduce((sum, bucket) => sum + bucket[outcome], 0)]));
      setText(said, `${outcomesInWords(sums, (figure) => atLeast(cut, count(figure)))}. ` +
        `${cut ? `Runs before ${dated(since)} are not all counted. ` : ''}` +
        'Succeeded runs are above the line, skipped and cancelled ones are outlines on top, and ' +
        'dead ones are below the line. A click or Enter lists the runs of a bar.');
      const ups = counts.map(({ dead, ...rest }) => Object.values(rest).reduce((a, b) => a + b, 0));
      const downs = counts.map(({ dead }) => dead);
      const [up, down] = [Math.max(...ups), Math.max(...downs)];
      const unit = height / Math.max(1, up + down);
      const middle = up + down ? Math.min(up * unit, height - (down && LEAST)) : height - 1;
      line.setAttribute('y', middle);
      counts.forEach((bucket, index) => {
        let y = middle;
        OUTCOMES.forEach((outcome, which) => {
          const tall = bucket[outcome] && Math.max(LEAST, bucket[outcome] * unit);
          y -= outcome === 'dead' ? y - middle : tall;
          bars[index][which].setAttribute('y', y);
          bars[index][which].setAttribute('height', tall);
        });
      });
      axis.forEach((label, index) => {
        const time = from + index * many * hours * HOUR / 4;
        setText(label, index === 4 ? 'now'
          : hours > 1 ? dated(time).slice(0, -3) : clock(time, { seconds: false }));
      });
      chart.read();
      drawTable();
    },
  };
}
