/** @file One schedule: what it is, when it runs next, and its runs. */

import { call, path, reads } from './api.js';
import { askBackfill, askPause } from './dialogs.js';
import { badge, button, h, put, row, section, setText, sync, table } from './dom.js';
import { makeHistory } from './history.js';
import { makePreview } from './preview.js';
import { runLink, why } from './runs.js';
import { actions, canSwitch, labelLinks, stateOf, target, when, xtimerOf } from './schedules.js';
import { counted, dated, now, timeElement } from './time.js';
import { policyInWords } from './words.js';

/** How many occurrences to come, and how many runs, are shown. */
const MANY = 10;

/** Whether it is no one-shot. */
function isRepeated({ when: { cron, every } }) {
  return Boolean(cron || every);
}

/** An alert that holds, of the schedule or else of its app, as a fact. Zero is none. */
function alertOf(term, own, ofApp, words = String) {
  const holds = own ?? ofApp;
  if (holds === undefined) return undefined;
  const shown = /[1-9]/.test(holds) ? words(holds) : 'None';
  return [term, own === undefined ? `${shown} (app)` : shown];
}

/** A time of a one-shot, as an occurrence. */
function inUtc(at) {
  return { at, local: at.slice(0, 19), offset: 'UTC' };
}

/** Shows the view. */
export function show(holder, frame, { app, key }) {
  const parts = ['apps', app, 'schedules', key];
  const inside = h('div', { class: 'gap' }, h('p', { class: 'empty' }, 'Reading …'));
  const preview = makePreview();
  const history = makeHistory(frame, [app], key);
  const nothing = h('p', { class: 'empty' });
  const runs = table('Last runs', ['State', 'Scheduled for', 'Answer']);
  const noRuns = h('p', { class: 'empty', hidden: true }, 'No runs yet.');
  // Unread runs are not described.
  runs.table.hidden = true;
  const facts = h('div', {});
  const about = section('about-it', 'Definition', facts);
  const reading = reads(read, () => {}, failed);
  const again = () => reading.again();
  /** Until when what is shown is paused, in milliseconds since the epoch. */
  let pausedUntil = Infinity;
  put(holder, h('h1', {}, key), inside);

  async function read(signal) {
    const schedule = await call('GET', path(parts), { signal });
    signal.throwIfAborted();
    pausedUntil = Date.parse(schedule.paused_until) || Infinity;
    if (!facts.isConnected) {
      inside.replaceChildren(about,
        h('div', { class: 'columns' },
          section('next', 'Next', preview.element, nothing),
          section('last-runs', 'Last runs', runs.table, noRuns,
            h('p', {}, h('a', { href: frame.link(['runs'], { app, key }) }, 'All runs')))),
        history.element);
    }
    const isToCome = canSwitch(schedule) && schedule.state !== 'disabled' && !schedule.unreadable;
    sync(facts, [schedule], () => 'facts', draw);
    const [toCome, { items }] = await Promise.all([
      isToCome && isRepeated(schedule)
        ? call('GET', path([...parts, 'preview'], { count: MANY }), { signal })
        : { items: isToCome ? schedule.next.map(inUtc) : [] },
      call('GET', path(['apps', app, 'runs'], { key, limit: MANY }), { signal }),
    ]);
    signal.throwIfAborted();
    preview.draw(toCome);
    nothing.hidden = toCome.items.length > 0;
    setText(nothing, schedule.state === 'disabled'
      ? 'Disabled: no run starts until it is enabled.'
      : schedule.unreadable ? 'No run starts on this node, which cannot read the schedule.'
        : 'No further runs.');
    runs.table.hidden = !items.length;
    noRuns.hidden = items.length > 0;
    sync(runs.body, items, ({ id }) => id, (run) => row([
      ['State', runLink(frame, run)],
      ['Scheduled for', [dated(run.scheduled_for), ' ',
        h('span', { class: 'soft' }, timeElement(run.scheduled_for))]],
      ['Answer', why(run)],
    ]));
  }

  function failed(error) {
    inside.replaceChildren(h('p', { class: 'error' }, error.message),
      h('p', {}, button('Try again', again)));
  }

  function draw(schedule) {
    const { callback = {} } = schedule;
    const defaults = frame.defaultsOf(app);
    const { attempts, first, longest } = schedule.retry ?? defaults.retry;
    const headers = Object.entries(callback.headers ?? {});
    const list = [
      ['State', badge(stateOf(schedule))],
      ['App', app],
      schedule.xtimer && ['XTimer', xtimerOf(schedule)],
      schedule.labels && ['Labels', labelLinks(frame, schedule)],
      ['When', when(schedule)],
      schedule.unreadable && ['Does not run', h('span', { class: 'error' }, schedule.unreadable)],
      schedule.paused_until && ['Paused until', [dated(schedule.paused_until), ' ',
        h('span', { class: 'soft' }, timeElement(schedule.paused_until))]],
      schedule.when.start && ['Start', dated(schedule.when.start)],
      schedule.when.end && ['End', dated(schedule.when.end)],
      schedule.when.excluded?.length && ['Excluded', schedule.when.excluded.map((window) =>
        h('div', {}, `${dated(window.from)} to ${dated(window.until)}`,
          window.then === 'run_at_end' && ', then one run'))],
      schedule.lane && ['Lane', schedule.lane],
      schedule.notify && ['Notices go to', h('span', { class: 'url' }, schedule.notify.url)],
      isRepeated(schedule) &&
        alertOf('Has to succeed within', schedule.success_within, defaults.success_within),
      isRepeated(schedule) && alertOf('Disable after', schedule.disable_after,
        defaults.disable_after, (count) => `${counted(count, 'dead run')} in a row`),
      schedule.disabled_by && ['Disabled by',
        `${counted(schedule.disabled_by.dead_runs, 'dead run')}, ${dated(schedule.disabled_by.at)}`],
      ['Request', h('span', { class: 'url' }, target(schedule))],
      headers.length && ['Headers', headers.map(([name, value]) =>
        h('div', {}, h('code', {}, `${name}: `),
          typeof value === 'string' ? h('code', {}, value) : `the secret ${value.secret}`))],
      callback.body && ['Body', h('pre', { tabindex: 0, 'aria-label': 'Body' }, callback.body)],
      callback.success && ['Statuses of success', callback.success.join(', ')],
      ['Timeout', callback.timeout ?? defaults.timeout],
      ['Retry', `${counted(attempts, 'attempt')}, pauses from ${first} to ${longest}`],
      isRepeated(schedule) && ['Missed runs', policyInWords(schedule.missed, 'coalesce')],
      isRepeated(schedule) && ['Overlap', policyInWords(schedule.overlap, 'allow')],
      schedule.jitter && ['Jitter', schedule.jitter],
      ['Version', `${schedule.version}`],
    ].filter(Boolean);
    return h('div', { class: 'gap' },
      h('p', { class: 'buttons' },
        actions(frame, schedule, again),
        frame.canChange(app) && isRepeated(schedule) && schedule.state === 'enabled' && [
          button('Pause until', () => askPause(holder, frame, schedule, again),
            { act: 'pause-until' }),
          button('Backfill', () => askBackfill(holder, frame, schedule, again)),
        ],
        frame.canChange(app) && canSwitch(schedule) && [
          h('a', { href: frame.link(['edit', app, key]), class: 'button', 'data-act': 'edit' }, 'Edit'),
          button('Delete', remove, { kind: 'bad' }),
        ],
        frame.canChange(app) && h('a', {
          href: frame.link(['edit'], { of: app, copy: key }), class: 'button', 'data-act': 'copy',
        }, 'Duplicate')),
      h('dl', { class: 'facts' }, list.map(([term, what]) =>
        h('div', {}, h('dt', {}, term), h('dd', {}, what)))));
  }

  async function remove() {
    const text = 'No new run starts after that. Its past runs stay in the list of runs.';
    if (!await frame.sure(`Delete ${key}?`, text, 'Delete')) return;
    try {
      await reading.endBy(() => call('DELETE', path(parts)));
      frame.say(`${key} is deleted.`);
      frame.go(frame.link(['schedules']));
    } catch (error) {
      frame.say(`${key} is not deleted. ${error.message}`);
    }
  }

  reading.start();
  return {
    refresh: again,
    /** A pause ends without a run. */
    overview() {
      if (now() < pausedUntil) return;
      pausedUntil = Infinity;
      again();
    },
    run: (run) => { if (run.app === app && run.key === key) reading.soon(); },
    close() {
      reading.close();
      history.close();
    },
  };
}
