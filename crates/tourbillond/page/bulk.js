/** @file Actions on several schedules: one request each, with progress, and a way to stop. */

import { call, path } from './api.js';
import { button, h, setText } from './dom.js';
import { counted } from './time.js';

/** What can be done: the word, what was done, and how it is asked for. */
const ACTIONS = [
  { word: 'Enable', done: 'enabled', method: 'POST', step: 'enable',
    text: 'They run at their times from then on.' },
  { word: 'Disable', done: 'disabled', method: 'POST', step: 'disable',
    text: 'No new run of them starts until they are enabled.' },
  { word: 'Run now', done: 'started', method: 'POST', step: 'run-now',
    text: 'Each sends its request at once.' },
  { word: 'Delete', done: 'deleted', method: 'DELETE', kind: 'bad',
    text: 'No new run of them starts after that. Their past runs stay in the list of runs.' },
];

/** How many schedules are named when it is asked whether to act on them. */
const NAMED = 5;

/** What names a schedule among those of all apps. */
export const idOf = ({ app, key }) => `${app}/${key}`;

/** The keys of the first schedules, and how many more there are. */
function named(schedules) {
  const keys = schedules.slice(0, NAMED).map(({ key }) => key).join(', ');
  const more = schedules.length - NAMED;
  return more > 0 ? `${keys} and ${more} more` : keys;
}

/** Makes a list of what was not done, and why; each is read out as it is added. */
export function makeFailures() {
  const list = h('ul');
  return {
    element: h('div', { class: 'failed', role: 'log', 'aria-label': 'Not done' }, list),
    isEmpty: () => !list.childElementCount,
    add: (key, why) => list.append(h('li', {}, h('code', {}, key), ` ${why}`)),
    clear: () => list.replaceChildren(),
  };
}

/**
 * Makes the bar over a list of schedules.
 *
 * @param {Object} frame
 * @param {() => Object[]} shown The schedules that can be selected.
 * @param {() => void} done What is to happen after an action.
 */
export function makeBulk(frame, shown, done) {
  /** The selected schedules by what names them. */
  const selected = new Map();
  let boxes = [];
  let isStopped = false;
  let isBusy = false;
  let isClosed = false;
  const all = h('input', { type: 'checkbox', 'data-act': 'select-all', onchange: selectAll });
  const many = h('span', { class: 'soft' });
  const buttons = ACTIONS.map((action) => button(action.word, () => ask(action),
    { act: `all-${action.word.toLowerCase()}`, kind: action.kind, about: 'selected schedules' }));
  const bar = h('progress', { 'aria-label': 'Schedules done', value: 0 });
  const count = h('span', {});
  const stop = button('Stop', () => { isStopped = true; });
  const progress = h('p', { class: 'progress', hidden: true }, bar, count, stop);
  const failed = makeFailures();
  const element = h('div', { class: 'bulk', role: 'group', 'aria-label': 'Selected schedules' },
    h('label', { class: 'choice' }, all, 'Select all shown'), many,
    h('div', { class: 'buttons' }, buttons), progress, failed.element);

  /** Those that are shown and may be changed. */
  function selectable() {
    return shown().filter(({ app }) => frame.canChange(app));
  }

  function selectAll() {
    for (const schedule of selectable()) {
      if (all.checked) selected.set(idOf(schedule), schedule);
      else selected.delete(idOf(schedule));
    }
    draw();
  }

  /** Draws how many are selected. What is not shown any more, or is another under its key, is not. */
  function draw() {
    const there = selectable();
    const ids = new Map(there.map((schedule) => [idOf(schedule), schedule.id]));
    for (const [name, { id }] of selected) if (ids.get(name) !== id) selected.delete(name);
    boxes = boxes.filter((box) => box.isConnected);
    for (const box of boxes) box.checked = selected.has(box.value);
    element.hidden = !there.length && !isBusy && failed.isEmpty();
    all.checked = there.length > 0 && there.every((schedule) => selected.has(idOf(schedule)));
    all.indeterminate = selected.size > 0 && !all.checked;
    setText(many, selected.size ? `${selected.size} selected` : '');
    for (const each of buttons) each.hidden = !selected.size || isBusy;
    all.disabled = isBusy;
  }

  async function ask(action) {
    const those = [...selected.values()];
    if (!those.length) return;
    const what = counted(those.length, 'schedule');
    const text = `${named(those)}. ${action.text}`;
    if (!await frame.sure(`${action.word}: ${what}?`, text, action.word) || isClosed) return;
    isBusy = true;
    isStopped = false;
    failed.clear();
    progress.hidden = false;
    bar.max = those.length;
    draw();
    stop.focus();
    let good = 0;
    let tried = 0;
    const report = () => {
      bar.value = tried;
      setText(count, `${tried} of ${those.length}`);
    };
    report();
    for (const schedule of those) {
      if (isStopped) break;
      const { app, key } = schedule;
      try {
        const parts = ['apps', app, 'schedules', key, action.step].filter(Boolean);
        await call(action.method, path(parts));
        good += 1;
        selected.delete(idOf(schedule));
      } catch (error) {
        failed.add(key, error.message);
      }
      tried += 1;
      report();
    }
    isBusy = false;
    const isLost = [document.body, stop].includes(document.activeElement);
    progress.hidden = true;
    frame.say(`${good} of ${what} ${action.done}${isStopped ? ', then stopped' : ''}.`);
    draw();
    // The focus was on a row that is hidden now.
    if (isLost) all.focus();
    done();
  }

  return {
    element,
    draw,
    /** The box that selects a schedule; none if it may not be changed. */
    box(schedule) {
      if (!frame.canChange(schedule.app)) return null;
      const id = idOf(schedule);
      const box = h('input', {
        type: 'checkbox', value: id, checked: selected.has(id), 'data-act': 'select',
        'aria-label': `Select ${schedule.key}`,
        onchange() {
          if (box.checked) selected.set(id, schedule);
          else selected.delete(id);
          draw();
        },
      });
      boxes.push(box);
      return box;
    },
    /** Forgets what is selected: other schedules are shown. */
    clear() {
      selected.clear();
      failed.clear();
      draw();
    },
    close() {
      isStopped = true;
      isClosed = true;
    },
  };
}
