/** @file Runs: by schedule, state and time; attempts and answers; dead letters with retry. */

import { call, lists, pages, path, reads } from './api.js';
import { makeFailures } from './bulk.js';
import {
  badge, button, field, h, known, put, row, section, select, setText, sync, table,
} from './dom.js';
import { clock, count, counted, dated, now, span, timeElement } from './time.js';
import { reasonInWords, stateOptions } from './words.js';

/** How many runs are read at a time. */
const PAGE = 50;

const STATES =
  ['pending', 'running', 'waiting', 'succeeded', 'dead', 'skipped', 'cancelled'];
const OPTIONS = stateOptions(STATES, 'Finished');
const HOUR = 3_600_000;
const SPANS = [['', 'Any time'], ['1', 'Last hour'], ['24', 'Last day'], ['168', 'Last week']];

/** The state as it is shown: what waits for another attempt is retrying. */
export function stateOf(run) {
  return run.state === 'pending' && run.failures ? 'retrying' : run.state;
}

/** The state, as a link to the run. */
export function runLink(frame, run, state = stateOf(run)) {
  return h('a', { href: frame.link(['runs', run.app, run.id]), class: 'state', 'data-act': 'run' },
    badge(state));
}

/** The key, as a link to the schedule; with its app if several are shown. */
export function scheduleLink(frame, { app, key }) {
  return h('a', { href: frame.link(['schedules', app, key]), class: 'key', 'data-act': 'schedule' },
    !frame.chosen && frame.allApps.length > 1 && h('span', { class: 'in-app' }, `${app}/`), key);
}

/** In a line: what the last attempt was answered, or why there was none. */
export function why(run) {
  const last = run.ended_attempts.at(-1);
  if (!last) return run.reason ? reasonInWords(run.reason) : '–';
  return h('span', { class: 'why' }, [
    // An error that is an answer names its status.
    last.status && !last.error && h('b', {}, `${last.status}`),
    last.error ?? (last.status ? '' : '–'),
  ].filter(Boolean).flatMap((part, index) => index ? [' ', part] : [part]));
}

/** Whether there is a button for it. */
export function canRetry(frame, run) {
  return run.can_retry && frame.canChange(run.app);
}

/** Makes a new run of a dead one. */
export async function retry(frame, run) {
  try {
    await call('POST', path(['apps', run.app, 'runs', run.id, 'retry']));
    frame.say(`${run.key} is retried.`);
    return true;
  } catch (error) {
    frame.say(`${run.key} is not retried. ${error.message}`);
    return false;
  }
}

/** The order of the API's lists: what is over, newest first; what is not, as it is due. */
function order(a, b) {
  if (a.recorded) return Date.parse(b.recorded) - Date.parse(a.recorded);
  return Date.parse(a.due ?? a.scheduled_for) - Date.parse(b.due ?? b.scheduled_for);
}

/** Shows all runs. */
export function show(holder, frame, { parameters }) {
  return list(holder, frame, parameters, { head: 'Runs', none: 'No runs match.' });
}

/** Shows what was given up. */
export function showDead(holder, frame, { parameters }) {
  return list(holder, frame, parameters, {
    head: 'Dead letters', state: 'dead', none: 'No dead letters.',
    hint: 'All attempts of these runs failed. A retry makes a new run with the same request.',
  });
}

function list(holder, frame, parameters, { head, hint, none, state }) {
  const instant = (name) => Date.parse(parameters.get(name)) ? parameters.get(name) : '';
  const chosen = {
    key: parameters.get('key') ?? '',
    search: parameters.get('search') ?? '',
    since: instant('since'),
    until: instant('until'),
    state: state ?? known(OPTIONS, parameters.get('state')),
    hours: known(SPANS, parameters.get('hours')),
  };
  const runs = table(head,
    ['Schedule', 'State', 'Scheduled for', 'Started', 'Duration', 'Attempts', 'Answer', 'Actions']);
  runs.table.classList.add('dense', 'runs');
  holder.classList.add('tight');
  const empty = h('p', { class: 'empty' }, 'Reading …');
  const status = h('p', { class: 'hint' });
  const more = button('Show more', () => reading.start({ more: true }), { act: 'more' });
  const all = button('Retry all of these', retryAll, { act: 'all' });
  more.hidden = true;
  all.hidden = true;
  runs.table.hidden = true;
  const notDone = makeFailures();
  let isClosed = false;
  const isRetried = (run) => canRetry(frame, run);
  const shown = pages(() => PAGE, () => {
    const { key, search, state: of, hours, until } = chosen;
    const since = hours ? new Date(now() - hours * HOUR).toISOString() : chosen.since;
    return lists(frame.apps, 'runs', { key, search, state: of, since, until }, order);
  });
  const reading = reads(shown.read, draw, failed);

  const key = field('Schedule', h('input', {
    type: 'search', id: 'runs-key', value: chosen.key || chosen.search, placeholder: 'part of the key',
    autocomplete: 'off', spellcheck: 'false',
  }));
  const states = field('State', select(OPTIONS, chosen.state, { id: 'runs-state' }));
  const hours = field('When', select(SPANS, chosen.hours, { id: 'runs-hours' }));
  const filters = h('form', { class: 'filters', role: 'search', 'aria-label': head,
    onsubmit: (event) => { event.preventDefault(); filter(); }, onchange: filter },
  key, !state && states, hours);

  const range = h('p', { class: 'hint' });
  put(holder, h('h1', {}, head), hint && h('p', { class: 'hint' }, hint), filters, range,
    h('div', { class: 'over' }, status, all, notDone.element), runs.table, empty, h('p', {}, more));

  function filter() {
    const typed = key.querySelector('input').value.trim();
    // A link names a whole key, and who types a part.
    if (typed !== chosen.key) [chosen.key, chosen.search] = ['', typed];
    if (!state) chosen.state = states.querySelector('select').value;
    chosen.hours = hours.querySelector('select').value;
    if (chosen.hours) [chosen.since, chosen.until] = ['', ''];
    frame.go(address(chosen), { replace: true });
    drawRange();
    notDone.clear();
    reading.start({ first: true });
  }

  function address(those) {
    return frame.link([state ? 'dead' : 'runs'], { ...those, state: state ? '' : those.state });
  }

  /** Says between which times the runs finished, if a bar of a chart was opened. */
  function drawRange() {
    const { since, until } = chosen;
    range.replaceChildren();
    if (!since && !until) return;
    const parts = [since && `from ${dated(since)}`, until && `until ${dated(until)}`];
    put(range, `Finished ${parts.filter(Boolean).join(' ')}. `,
      h('a', { href: address({ ...chosen, since: '', until: '' }) }, 'Any time'));
  }

  function draw() {
    const { items } = shown;
    more.hidden = !shown.more;
    all.hidden = state !== 'dead' || items.filter(isRetried).length < 2;
    runs.table.hidden = !items.length;
    empty.hidden = items.length > 0;
    setText(empty, shown.more
      ? 'None of those looked at so far matches. “Show more” looks further.' : none);
    setText(status, `${counted(items.length, 'run')}${shown.more ? ' and more' : ''}, ` +
      `as of ${clock(now())}.`);
    sync(runs.body, items, (run) => `${run.app}/${run.id}`, drawRow);
  }

  function failed(error) {
    setText(status,
      `Not read: ${error.message} ${shown.items.length ? 'What follows is older.' : ''}`);
    empty.hidden = true;
  }

  function drawRow(run) {
    const last = run.ended_attempts.at(-1);
    return row([
      ['Schedule', scheduleLink(frame, run)],
      ['State', runLink(frame, run)],
      ['Scheduled for', timeElement(run.scheduled_for, dated(run.scheduled_for))],
      ['Started', last ? timeElement(last.started, dated(last.started)) : '–'],
      ['Duration', last ? span(last.ms) : '–'],
      ['Attempts', count(run.attempts)],
      ['Answer', why(run)],
      ['Actions', canRetry(frame, run) && button('Retry', () => again(run), { about: run.key })],
    ]);
  }

  async function again(run) {
    if (await retry(frame, run)) reading.again();
  }

  async function retryAll() {
    const those = shown.items.filter(isRetried);
    const text = 'Each makes a new run, sent as soon as limits allow, with the same request.';
    const many = counted(those.length, 'dead letter');
    if (!await frame.sure(`Retry ${many}?`, text, 'Retry') || isClosed) return;
    all.disabled = true;
    notDone.clear();
    let done = 0;
    for (const run of those) {
      if (isClosed) break;
      try {
        await call('POST', path(['apps', run.app, 'runs', run.id, 'retry']));
        done += 1;
      } catch (error) {
        notDone.add(run.key, error.message);
      }
    }
    all.disabled = false;
    frame.say(done === those.length ? `${many} retried.` : `${count(done)} of ${many} retried.`);
    reading.again();
  }

  /** Whether it is read again by itself. What was looked for further and further is not. */
  function isLive() {
    return !((chosen.state === 'waiting' || chosen.search) && shown.times > 1);
  }

  drawRange();
  reading.start();
  return {
    refresh: () => { if (isLive()) reading.again(); },
    run: (run) => {
      if (isLive() && run.key.includes(chosen.search) && [run.key, ''].includes(chosen.key)) {
        reading.soon();
      }
    },
    close() {
      isClosed = true;
      reading.close();
    },
  };
}

/** Steps of an attempt, in their order. */
const STEPS = [
  ['resolve_ms', 'Name'], ['connect_ms', 'Connection'], ['tls_ms', 'TLS'],
  ['first_byte_ms', 'First byte'],
];

/** The request of an attempt, its steps and the headers of its answer, as far as they are kept. */
function carried({ request, headers = {}, timing = {}, ms }) {
  const lines = (pairs) => Object.entries(pairs ?? {}).map(([name, value]) =>
    h('div', {}, h('code', {}, `${name}: ${value}`)));
  const exactly = (time) => `${count(time)} ms`;
  const steps = STEPS.filter(([name]) => typeof timing[name] === 'number')
    .map(([name, word]) => [word, timing[name]]);
  const rest = Math.max(0, ms - steps.reduce((sum, [, time]) => sum + time, 0));
  const facts = [
    request && ['Request', [h('span', { class: 'url' }, `${request.method} ${request.url}`),
      lines(request.headers)]],
    steps.length && ['Time of', [...steps, ['Rest', rest], ['All', ms]].map(([word, time]) =>
      h('div', {}, `${word}: ${exactly(time)}`))],
    Object.keys(headers).length && ['Answer', lines(headers)],
  ].filter(Boolean);
  return facts.length > 0 && h('dl', { class: 'facts' }, facts.map(([term, what]) =>
    h('div', {}, h('dt', {}, term), h('dd', {}, what))));
}

/** In a line: how the receiver completed an attempt that it had answered 202, or did not yet. */
function completed({ state, until, called, text }) {
  const when = state === 'waiting' ? `Waiting for completion until ${dated(until)}`
    : called ? `Completed ${dated(called)}` : `Not completed by ${dated(until)}`;
  return h('p', { class: 'hint' }, text ? `${when}: ${text}` : when);
}

/** What is shown of an attempt that has ended, under the name `title`. */
export function attemptParts(attempt, title) {
  const { completion } = attempt;
  const outcome = attempt.error ? 'dead'
    : completion?.state === 'waiting' ? 'waiting'
      : completion?.state === 'superseded' ? 'cancelled' : 'succeeded';
  return [
    h('p', {}, badge(outcome, title), ' ',
      attempt.status && h('b', {}, `${attempt.status}`), ' ', attempt.error),
    completion && completed(completion),
    h('p', { class: 'hint' }, `${dated(attempt.started)}, took ${span(attempt.ms)}`),
    carried(attempt),
    attempt.answer && h('pre', { tabindex: 0, 'aria-label': `Answer: ${title}` }, attempt.answer),
  ].filter(Boolean);
}

/** Shows one run, with all attempts that are kept. */
export function showOne(holder, frame, { app, id }) {
  const inside = h('div', { class: 'gap' }, h('p', { class: 'empty' }, 'Reading …'));
  put(holder, h('h1', {}, 'Run'), inside);
  let run;
  const reading = reads(async (signal) => {
    run = await call('GET', path(['apps', app, 'runs', id]), { signal });
  }, draw, (error) => inside.replaceChildren(h('p', { class: 'error' }, error.message)));

  function draw() {
    setText(holder.querySelector('h1'), `Run of ${run.key}`);
    const facts = [
      ['State', badge(stateOf(run))],
      run.reason && ['Reason', reasonInWords(run.reason)],
      ['Schedule', scheduleLink(frame, run)],
      ['Scheduled for', [dated(run.scheduled_for), ' ', timeElement(run.scheduled_for)]],
      run.due && ['Due', [dated(run.due), ' ', timeElement(run.due)]],
      run.recorded && ['Finished', [dated(run.recorded), ' ', timeElement(run.recorded)]],
      ['Attempts', `${count(run.attempts)}, ${count(run.failures)} failed`],
      run.node && ['Node', h('code', {}, run.node)],
      ['Identity', h('code', {}, run.id)],
    ].filter(Boolean);
    const attempts = run.ended_attempts.map((each) =>
      h('li', { class: 'attempt' }, attemptParts(each, `Attempt ${each.attempt}`)));
    inside.replaceChildren(
      h('p', { class: 'buttons' },
        canRetry(frame, run) && button('Retry', async () => { await retry(frame, run); reading.again(); },
          { kind: 'main' })),
      section('about-it', 'Details', h('dl', { class: 'facts' },
        facts.map(([term, what]) => h('div', {}, h('dt', {}, term), h('dd', {}, what))))),
      section('attempts', 'Attempts', attempts.length
        ? h('ol', { class: 'attempts' }, attempts) : h('p', { class: 'empty' }, 'No attempt has finished yet.')));
  }

  reading.start();
  return {
    refresh: () => reading.again(),
    run: (ended) => { if (ended.id === id) reading.soon(); },
    close: reading.close,
  };
}
