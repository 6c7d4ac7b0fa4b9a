/** @file Occurrences to come, in their own zone and the viewer's, with what daylight saving does. */

import { h, row, sync, table } from './dom.js';
import { dated, HERE, timeElement } from './time.js';

/** What becomes of a time that the zone's clock skips or shows twice. */
const NOTES = {
  gap: 'The clock skips the time asked for: it runs as soon as that is skipped.',
  fold: 'The clock shows this time twice: it runs at the first.',
};

/** `Mon 23 Nov, 02:00:00 +01:00`, from what the server says the zone's clock shows. */
function local({ local: wall, offset }) {
  return `${dated(`${wall.slice(0, 19)}Z`, 'UTC')} ${offset}`;
}

/** `New York`, of `America/New_York`. */
const CITY = HERE.split('/').at(-1).replaceAll('_', ' ');

/** A table of occurrences, and a way to draw others into it. */
export function makePreview() {
  const list = table('Next occurrences', ['From now', 'In its zone', `Here (${CITY})`], true);
  // An empty table says nothing, and is none to those who hear it.
  list.table.hidden = true;
  return {
    element: list.table,
    draw(occurrences) {
      list.table.hidden = !occurrences.length;
      sync(list.body, occurrences, ({ at }) => at, (occurrence) => row([
        ['From now', timeElement(occurrence.at)],
        ['In its zone', [local(occurrence), occurrence.note && h('p', { class: 'note-dst' },
          h('b', {}, 'Daylight saving'), ' ', NOTES[occurrence.note] ?? occurrence.note)]],
        ['Here', dated(occurrence.at)],
      ]));
    },
  };
}
