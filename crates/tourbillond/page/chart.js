/** @file Charts of bars, whose parts are read one at a time by pointer, arrow keys or ear. */

import { h, setText, svg } from './dom.js';

/**
 * Makes a chart of bars over a slider.
 *
 * @param {Object} options
 * @param {string} options.label What the slider moves along.
 * @param {string} options.describedBy Identity of the text that says how it is used.
 * @param {number} options.many How many parts there are.
 * @param {number} options.width Of the drawing, in its own units; as is `height`.
 * @param {number} options.height
 * @param {(index: number) => [string, string]} options.words A part, and what it has.
 * @param {(index: number) => void} [options.open] Shows more of a part, at a click or Enter.
 * @param {...Element} drawn
 * @returns {{element: HTMLElement, readout: HTMLElement, read: () => void}} `read` says the part
 *   anew, once `words` has others.
 */
export function makeChart({ label, describedBy, many, width, height, words, open }, ...drawn) {
  const wide = width / many;
  let at = 0;
  const mark = svg('rect', { class: 'mark', x: 0, y: 0, width: wide, height });
  const readout = h('p', { class: 'readout', 'aria-hidden': 'true' });
  const element = h('div', {
    class: 'chart', role: 'slider', tabindex: 0, 'aria-label': label,
    'aria-valuemin': 0, 'aria-valuemax': many - 1, 'aria-describedby': describedBy,
    onkeydown: key, onpointermove: point, onpointerdown: point, onclick: () => open?.(at),
  }, svg('svg', {
    viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', 'aria-hidden': 'true',
  }, mark, drawn));

  function read() {
    const [part, figure] = words(at);
    setText(readout, `${part}: ${figure}`);
    element.setAttribute('aria-valuenow', at);
    element.setAttribute('aria-valuetext', `${part}, ${figure}`);
    mark.setAttribute('x', at * wide);
  }
  function move(to) {
    at = Math.max(0, Math.min(many - 1, to));
    read();
  }
  function key(event) {
    if (event.key === 'Enter') open?.(at);
    const steps = {
      ArrowRight: at + 1, ArrowUp: at + 1, ArrowLeft: at - 1, ArrowDown: at - 1,
      PageUp: at + 10, PageDown: at - 10, Home: 0, End: many - 1,
    };
    if (!(event.key in steps)) return;
    event.preventDefault();
    move(steps[event.key]);
  }
  function point(event) {
    const box = element.getBoundingClientRect();
    move(Math.floor((event.clientX - box.left) / box.width * many));
  }
  return { element, readout, read };
}
