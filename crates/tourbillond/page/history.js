/** @file What runs came to: the last ones in a line, and counts over a day or a week. */

import { h, svg } from './dom.js';
import { counted } from './time.js';
import { stateInWords } from './words.js';

/** How many runs a line shows. */
export const LAST_RUNS = 20;
/** Outcomes in the order in which they are listed. */
export const OUTCOMES = ['succeeded', 'skipped', 'cancelled', 'dead'];

/** `18 succeeded, 2 dead`, of counts by outcome. */
export function outcomesInWords(counts, figure = (number) => `${number}`) {
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
