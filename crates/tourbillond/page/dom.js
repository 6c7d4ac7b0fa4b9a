/** @file Elements and lists of them. All text is text: nothing here parses markup. */

import { stateInWords } from './words.js';

const SVG = 'http://www.w3.org/2000/svg';

/**
 * Makes an element. A child that is `null`, `undefined` or `false` is left out.
 *
 * @param {string} name
 * @param {Object<string, *>} [attributes] `onclick` and the like are listeners; `true` is the bare
 *   attribute; `false`, `null` and `undefined` leave it out.
 * @param {...*} children Nodes, texts, or lists of them.
 * @returns {HTMLElement}
 */
export function h(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** As {@link h}, of SVG. */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  return put(element, ...children);
}

/** Appends children, as {@link h} takes them, and returns `parent`. */
export function put(parent, ...children) {
  parent.append(...children.flat(Infinity).filter((child) => child || child === 0));
  return parent;
}

/** Sets the text of an element if it is another, so that nothing is announced or drawn twice. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Whether what was last drawn for a child of {@link sync} is what is to be drawn now. */
const drawn = new WeakMap();

/**
 * Makes the children of `parent` those of `items`, in that order. What is the same stays as it is,
 * and the focus stays where it was, on the control of the same `data-act`.
 *
 * @template T
 * @param {Element} parent
 * @param {T[]} items
 * @param {(item: T) => string} keyOf Unique among the items.
 * @param {(item: T) => Element} render
 */
export function sync(parent, items, keyOf, render) {
  const old = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  const focusedKey = focused?.closest('[data-key]')?.dataset.key;
  const open = new Set([...parent.querySelectorAll('details[open]')]
    .map((details) => details.closest('[data-key]').dataset.key));
  let at = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    const text = JSON.stringify(item);
    let child = old.get(key);
    old.delete(key);
    if (!child || drawn.get(child) !== text) {
      const made = render(item);
      made.dataset.key = key;
      drawn.set(made, text);
      if (open.has(key)) made.querySelector('details').open = true;
      if (child) {
        if (at === child) at = made;
        child.replaceWith(made);
      }
      child = made;
    }
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
  }
  for (const child of old.values()) child.remove();
  if (focused && !focused.isConnected) {
    const row = [...parent.children].find((child) => child.dataset.key === focusedKey);
    const again = row?.querySelector(`[data-act="${CSS.escape(focused.dataset.act)}"]`);
    (again ?? row?.querySelector('a, button') ?? document.querySelector('h1')).focus();
  }
}

/** Shapes of states, in a square of 12. The first part is filled, the second is drawn as a line. */
const SHAPES = {
  dot: ['M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9z', ''],
  ring: ['', 'M6 2a4 4 0 1 0 0 8a4 4 0 1 0 0-8z'],
  clock: ['', 'M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9zM6 3.5V6l2 1.5'],
  bars: ['M2.5 2h2.5v8H2.5zM7 2h2.5v8H7z', ''],
  play: ['M3 1.5v9l7.5-4.5z', ''],
  check: ['', 'M1.5 6.5l3 3l6-7'],
  cross: ['', 'M2 2l8 8M10 2l-8 8'],
  dash: ['', 'M2 6h8'],
  triangle: ['M6 .8l5.6 10.4H.4z', ''],
};

/** How each state looks: shape and tone. */
const STATES = {
  enabled: ['dot', 'good'],
  disabled: ['ring', 'mute'],
  paused: ['bars', 'mute'],
  pending: ['clock', 'calm'],
  running: ['play', 'accent'],
  waiting: ['clock', 'accent'],
  retrying: ['triangle', 'warn'],
  succeeded: ['check', 'good'],
  dead: ['cross', 'bad'],
  skipped: ['dash', 'mute'],
  cancelled: ['dash', 'mute'],
  live: ['dot', 'good'],
  late: ['triangle', 'warn'],
  lost: ['cross', 'bad'],
  connecting: ['ring', 'mute'],
};

/**
 * A state, by shape and word as well as by colour.
 *
 * @param {string} state
 * @param {string} [word] In place of the state's own.
 */
export function badge(state, word = stateInWords(state)) {
  const [shape, tone] = STATES[state] ?? ['ring', 'mute'];
  const [solid, line] = SHAPES[shape];
  return h('span', { class: `badge ${tone}` },
    svg('svg', { viewBox: '0 0 12 12', 'aria-hidden': 'true' },
      solid && svg('path', { d: solid, class: 'solid' }),
      line && svg('path', { d: line, class: 'line' })),
    h('span', {}, word));
}

/**
 * An empty table with its roles written out: they outlast a `display` that is not a table's.
 *
 * @param {string} caption For those who do not see what it is under.
 * @param {string[]} columns
 * @param {boolean} [cards] Whether its rows become cards where there is little room.
 * @returns {{table: HTMLElement, body: HTMLElement}}
 */
export function table(caption, columns, cards = columns.length > 3) {
  const body = h('tbody', { role: 'rowgroup' });
  const heads = columns.map((column) => h('th', { role: 'columnheader', scope: 'col' }, column));
  return {
    body,
    table: h('table', { role: 'table', class: cards && 'cards' },
      h('caption', { class: 'unseen' }, caption),
      h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, heads)),
      body),
  };
}

/** A row of a {@link table}; each cell is `[column, content]`, and the first one heads the row. */
export function row(cells) {
  return h('tr', { role: 'row' }, cells.map(([column, content], index) => {
    const inside = content && h('div', {}, content);
    return index
      ? h('td', { role: 'cell', 'data-column': column }, inside)
      : h('th', { role: 'rowheader', scope: 'row', 'data-column': column }, inside);
  }));
}

/** A button that does something to what is named `about`, which those hear who do not see the row. */
export function button(word, onclick, { about, act = word.toLowerCase(), kind = '' } = {}) {
  return h('button', { type: 'button', class: kind, 'data-act': act, onclick },
    word, about && h('span', { class: 'unseen' }, ` ${about}`));
}

/** What can be done with what is named `about`, behind a button; Escape closes it. */
export function menu(about, ...children) {
  const opener = h('summary', { 'data-act': 'menu', 'aria-label': `Actions on ${about}` }, '⋯');
  const element = h('details', { class: 'menu', onkeydown: close, onfocusout: leave },
    opener, h('div', {}, children));
  function close({ key }) {
    if (key !== 'Escape') return;
    element.open = false;
    opener.focus();
  }
  function leave({ relatedTarget: to }) {
    // A dialog gives the focus back.
    if (to && !element.contains(to) && !to.closest('dialog')) element.open = false;
  }
  return element;
}

/** A part of a view, under a heading. */
export function section(id, heading, ...children) {
  return h('section', { 'aria-labelledby': id, class: `part ${id}` },
    h('h2', { id }, heading), children);
}

/** A label over its control, and room for what is wrong with it. */
export function field(label, control, { hint, name } = {}) {
  const id = control.id || `f-${name}`;
  control.id = id;
  if (name) control.dataset.field = name;
  control.setAttribute('aria-describedby', `${hint ? `${id}-hint ` : ''}${id}-error`);
  return h('div', { class: 'field' },
    h('label', { for: id }, label),
    control,
    hint && h('p', { class: 'hint', id: `${id}-hint` }, hint),
    h('p', { class: 'error', id: `${id}-error` }));
}

/** A value that is one of the options `[value, words]`; the empty one for any other. */
export function known(options, value) {
  return options.some(([option]) => option === value) ? value : '';
}

/** A choice among `[value, words]`. */
export function select(options, chosen, attributes = {}) {
  return h('select', attributes, options.map(([value, words]) =>
    h('option', { value, selected: value === chosen }, words)));
}
