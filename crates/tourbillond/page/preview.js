/** @file Occurrences to come, in their own zone and the viewer's, with what becomes of each. */

import { h, row, sync, table } from './dom.js';
import { cityOf, dated, HERE, timeElement } from './time.js';

/** What is said of a time, by its note: a title, and what becomes of it. */
const NOTES = {
  gap: ['Daylight saving', 'The clock skips this time. It runs as soon as the clock has moved on.'],
  fold: ['Daylight saving', 'The clock shows this time twice. It runs the first time.'],
  fold_twice: ['Daylight saving', 'The clock shows this time twice. It runs both times.'],
  excluded: ['Excluded', 'It is in an excluded window, so it does not run.'],
  run_at_end: ['End of a window', 'It runs once for the times that the window excludes.'],
  paused: ['Paused', 'The schedule is paused then, so it does not run.'],
};

/** What is said of an expression that other schedulers read in another way, by its note. */
const DIALECTS = {
  either_day: 'Both fields for days are set: days match that match either of the two. Some other ' +
    'schedulers ask for both.',
  both_days: 'Both fields for days are set, and one begins with *: days match that match both. Some ' +
    'other schedulers take either.',
  weekday_numbers: 'Day 0 or 7 of the week is Sunday. In Quartz it is 1.',
};

/** A note in words. */
function noteOf(name) {
  const [title, text] = NOTES[name] ?? ['Note', name];
  return h('p', { class: 'note-dst' }, h('b', {}, title), ' ', text);
}

/** `Mon 23 Nov, 02:00:00 +01:00`, from what the server says the zone's clock shows. */
function local({ local: wall, offset }) {
  return `${dated(`${wall.slice(0, 19)}Z`, 'UTC')} ${offset}`;
}

/** A table of occurrences, and a way to draw others into it. */
export function makePreview() {
  const list = table('Next occurrences', ['From now', 'In its zone', `Here (${cityOf(HERE)})`], true);
  // An empty table says nothing, and is none to those who hear it.
  list.table.hidden = true;
  const about = h('div', {});
  const element = h('div', { hidden: true }, about, list.table);
  return {
    element,
    draw({ items: occurrences, notes = [] }) {
      element.hidden = list.table.hidden = !occurrences.length;
      sync(about, notes, (name) => name, (name) => h('p', { class: 'note-dst' },
        h('b', {}, 'Other schedulers'), ' ', DIALECTS[name] ?? name));
      sync(list.body, occurrences, ({ at }) => at, (occurrence) => row([
        ['From now', timeElement(occurrence.at)],
        ['In its zone', [local(occurrence), occurrence.note && noteOf(occurrence.note)]],
        ['Here', dated(occurrence.at)],
      ]));
    },
  };
}
