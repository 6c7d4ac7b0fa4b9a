/** @file Dialogs about a schedule's times: a pause until an instant, and a backfill of the past. */

import { call, path } from './api.js';
import { button, field, h, setText } from './dom.js';
import { faultsOf, input, instantPicker, showFaults } from './form.js';
import { stillRunning, zoneOf } from './schedules.js';
import { atLeast, count, counted, dated, HERE, now } from './time.js';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** How long typing gathers before the effect is looked up, in milliseconds. */
const GATHER = 250;
/** How many occurrences of a range are looked at: as many as the API shows. */
const LOOKED_AT = 1_000;
/** How many runs a backfill creates at most, unless it says so. */
const LIMIT = 100;

/** An instant by the clock here, and by that of another zone if that shows another time. */
function inBoth(time, zone) {
  const [here, there] = [dated(time), dated(time, zone)];
  return here === there ? here : `${here} (${there} in ${zone})`;
}

/** An instant in milliseconds since the epoch, in RFC 3339. */
function rfc3339(ms) {
  return new Date(ms).toISOString().replace('.000Z', 'Z');
}

/**
 * Opens a dialog with a form: what it would do is said as it is filled in, and what is wrong with
 * it is shown beside its fields.
 *
 * @param {HTMLElement} holder The view. The dialog goes with it.
 * @param {Object} frame
 * @param {Object} form
 * @param {string} form.act Of the button that opens it, which has the focus again afterwards.
 * @param {string} form.head
 * @param {string} form.word What is on the button that sends it.
 * @param {Object<string, HTMLInputElement>} form.pickers Its instants, by the names of fields.
 * @param {Node[]} form.fields
 * @param {() => Object[]} [form.wrong] Faults other than those of the instants.
 * @param {() => Promise<string>} form.effect What it would do, in words.
 * @param {() => Promise<{said: string, isDone: boolean}>} form.send Sends it. Resolves with what
 *   was done, in words; the dialog stays if that is not all.
 */
function open(holder, frame, { act, head, word, pickers, fields, wrong = () => [], effect, send }) {
  const about = h('p', { role: 'status' });
  const done = h('p', { class: 'remark', role: 'status', hidden: true });
  const general = h('p', { class: 'error', role: 'alert' });
  const leave = button('Cancel', () => dialog.close());
  const go = h('button', { type: 'submit', class: 'main' }, word);
  const element = h('form', { novalidate: true, onsubmit: submit, oninput: typed },
    h('h2', { id: `${act}-head` }, head), fields, done, about, general,
    h('p', { class: 'buttons' }, leave, go));
  const dialog = h('dialog', { 'aria-labelledby': `${act}-head`, onclose: closed }, element);
  let latest = 0;
  let gathering;
  let isBusy = false;

  function faults() {
    const picked = Object.entries(pickers).flatMap(([name, picker]) =>
      faultsOf(picker).map((detail) => ({ field: name, detail })));
    return [...picked, ...wrong()];
  }

  /** Whether it is still there: it may have been cancelled, or another view is shown. */
  function isShown() {
    return dialog.open && dialog.isConnected;
  }

  function typed() {
    showFaults(element, general, []);
    clearTimeout(gathering);
    gathering = setTimeout(look, GATHER);
  }

  /** Says what it would do. */
  async function look() {
    latest += 1;
    const mine = latest;
    let text = '';
    if (!faults().length && Object.values(pickers).every((picker) => picker.instant())) {
      text = await effect().catch((error) => `What it would do is not known: ${error.message}`);
    }
    if (mine === latest) setText(about, text);
  }

  async function submit(event) {
    event.preventDefault();
    const found = faults();
    showFaults(element, general, found);
    if (isBusy || found.length) {
      element.querySelector('[aria-invalid]')?.focus();
      return;
    }
    isBusy = true;
    go.setAttribute('aria-busy', 'true');
    try {
      const { said, isDone } = await send();
      if (isDone || !isShown()) {
        dialog.close();
        frame.say(said);
        return;
      }
      done.hidden = false;
      setText(done, said);
      setText(leave, 'Close');
      await look();
    } catch (error) {
      if (!isShown()) {
        frame.say(`${head}: ${error.message}`);
        return;
      }
      showFaults(element, general, error.errors ?? [], error.message);
      (element.querySelector('[aria-invalid]') ?? go).focus();
    } finally {
      isBusy = false;
      go.removeAttribute('aria-busy');
    }
  }

  function closed() {
    latest += 1;
    clearTimeout(gathering);
    dialog.remove();
    // The button that had the focus may have been drawn again meanwhile.
    if (document.activeElement === document.body) {
      holder.querySelector(`[data-act="${act}"]`)?.focus();
    }
  }

  holder.append(dialog);
  dialog.showModal();
  look();
}

/**
 * Asks until when a schedule is to be paused, and pauses it.
 *
 * @param {HTMLElement} holder
 * @param {Object} frame
 * @param {Object} schedule
 * @param {() => void} done What is to happen after that.
 */
export function askPause(holder, frame, schedule, done) {
  const { app, key } = schedule;
  const inAnHour = rfc3339(Math.ceil(now() / MINUTE) * MINUTE + HOUR);
  const until = instantPicker(schedule.paused_until ?? inAnHour);
  open(holder, frame, {
    act: 'pause-until',
    head: `Pause ${key}`,
    word: 'Pause',
    pickers: { until },
    fields: [field('Until', until, { name: 'until', hint: `By the clock of ${HERE}.` })],
    async effect() {
      const time = until.instant();
      if (Date.parse(time) <= now()) return '';
      return `No new run starts before ${inBoth(time, zoneOf(schedule))}. Runs that wait are ` +
        'cancelled. During the pause, “Run now” and “Backfill” still work. ' +
        '“End pause” ends it earlier.';
    },
    async send() {
      const answer = await call('POST', path(['apps', app, 'schedules', key, 'pause']),
        { body: { until: until.instant() } });
      done();
      const said = `${key} is paused until ${dated(until.instant())}. ${stillRunning(answer)}`;
      return { said, isDone: true };
    },
  });
}

/** Whether runs of a schedule wait for each other. */
function isInTurn({ overlap = 'allow', lane }) {
  return overlap !== 'allow' || Boolean(lane);
}

/**
 * Asks for the range whose missing runs are to be created, and creates them.
 *
 * @param {HTMLElement} holder
 * @param {Object} frame
 * @param {Object} schedule
 * @param {() => void} done What is to happen after each part of them.
 */
export function askBackfill(holder, frame, schedule, done) {
  const { app, key } = schedule;
  const parts = ['apps', app, 'schedules', key];
  const end = Math.floor(now() / MINUTE) * MINUTE;
  const since = instantPicker(rfc3339(end - DAY));
  const until = instantPicker(rfc3339(end));
  const limit = input({ type: 'number', placeholder: `${LIMIT}` });
  const most = () => limit.value === '' ? LIMIT : Number(limit.value);

  /** How many times of the schedule are in the range, and whether that is not all of them. */
  async function timesOf([from, to]) {
    // The API lists times after an instant, and the range has its first one.
    const { items: found } = await call('GET',
      path([...parts, 'preview'], { from: rfc3339(from - 1), count: LOOKED_AT }));
    const within = found.filter(({ at, note }) =>
      Date.parse(at) >= from && Date.parse(at) < to && note !== 'excluded');
    return [within.length, found.length === LOOKED_AT && Date.parse(found.at(-1).at) < to];
  }

  open(holder, frame, {
    act: 'backfill',
    head: `Backfill ${key}`,
    word: 'Create runs',
    pickers: { since, until },
    fields: [
      h('p', { class: 'hint' }, `Times are by the clock of ${HERE}.`),
      field('From', since, { name: 'since' }),
      field('Until before', until, { name: 'until' }),
      field('At most', limit, {
        name: 'limit', hint: `Number of runs to create: ${LIMIT} unless you say so.`,
      }),
    ],
    wrong: () => ['badInput', 'stepMismatch'].some((fault) => limit.validity[fault])
      ? [{ field: 'limit', detail: 'It is not a whole number.' }] : [],
    async effect() {
      const range = [since, until].map((picker) => Date.parse(picker.instant()));
      if (range[0] >= range[1]) return '';
      const [times, isCut] = await timesOf(range);
      const [first, last] = range.map((time) => inBoth(time, zoneOf(schedule)));
      const text = `From ${first} until before ${last}, the schedule has ` +
        `${times ? atLeast(isCut, counted(times, 'time')) : 'no time'}.`;
      if (!times) return text;
      return `${text} The runs that are missing are created, oldest first, ` +
        `at most ${count(most())} at once. They start now` +
        `${isInTurn(schedule) ? ', one after another.' : ' if the app’s limits allow.'} ` +
        'What has run or was cancelled is not run again; what was skipped is.';
    },
    async send() {
      const body = {
        since: since.instant(), until: until.instant(),
        limit: limit.value === '' ? undefined : most(),
      };
      const { made, existed, rest } = await call('POST', path([...parts, 'backfill']), { body });
      done();
      const said = `${key}: ${counted(made, 'run')} created, ${count(existed)} existed.`;
      if (!rest) return { said, isDone: true };
      since.pick(rest);
      return { said: `${said} More may be missing from ${dated(rest)} on.`, isDone: false };
    },
  });
}
