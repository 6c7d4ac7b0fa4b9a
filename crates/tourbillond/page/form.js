/** @file Parts of forms: inputs of texts and of instants, and what is wrong with them. */

import { h, setText } from './dom.js';
import { instantOf, localOf } from './time.js';

/** What can be wrong with an instant that is picked, by the browser's name of it. */
const FAULTS = {
  badInput: 'It lacks a part of the date or of the time.',
  rangeOverflow: 'It is after the year 9999.',
};

/** An input of a line of text. */
export function input(attributes = {}) {
  return h('input', { type: 'text', autocomplete: 'off', spellcheck: 'false', ...attributes });
}

/**
 * An input of an instant, by the clock here. `pick` sets what it shows, and `instant` is what is
 * picked in RFC 3339: what was set, as it was, if it is not changed.
 *
 * @param {string} [time] In RFC 3339; nothing is picked without one.
 */
export function instantPicker(time = '') {
  const element = input({ type: 'datetime-local', step: 1, max: '9999-12-31T23:59:59' });
  let picked;
  let shown;
  element.pick = (other) => {
    element.value = other && localOf(other);
    // The browser leaves out seconds that are zero.
    [picked, shown] = [other, element.value];
  };
  element.instant = () => element.value === shown
    ? picked : element.value && instantOf(element.value);
  element.pick(time);
  return element;
}

/** What is wrong with the instant that is picked; or one fault of it. */
export function faultsOf(picker, only) {
  return Object.entries(FAULTS)
    .filter(([fault]) => picker.validity[fault] && (!only || fault === only))
    .map(([, detail]) => detail);
}

/**
 * Shows all that is wrong beside the fields of a form it is about; what is about none, in `general`.
 * What was shown before goes, where the field's name begins with `prefix`.
 *
 * @param {HTMLElement} form
 * @param {HTMLElement} general
 * @param {{field: string, detail: string}[]} faults
 */
export function showFaults(form, general, faults, rest = '', prefix = '') {
  for (const each of form.querySelectorAll(`[data-field${prefix && `^="${prefix}"`}]`)) {
    each.removeAttribute('aria-invalid');
    setText(form.querySelector(`[id="${each.id}-error"]`), '');
  }
  const others = [];
  for (const { field: name, detail } of faults) {
    const found = [...form.querySelectorAll('[data-field]')]
      .filter((each) => `${name.replaceAll('[', '.')}.`.startsWith(`${each.dataset.field}.`))
      .sort((a, b) => b.dataset.field.length - a.dataset.field.length)
      .find((each) => !each.closest('[hidden]'));
    if (!found) {
      others.push(`${name}: ${detail}`);
      continue;
    }
    found.setAttribute('aria-invalid', 'true');
    // A field can have several parts, such as headers.
    const part = name.slice(found.dataset.field.length).replace(/^\./, '');
    const said = form.querySelector(`[id="${found.id}-error"]`);
    setText(said, [said.textContent, part ? `${part}: ${detail}` : detail].filter(Boolean).join(' '));
    const details = found.closest('details');
    if (details) details.open = true;
  }
  setText(general, [rest, ...others].filter(Boolean).join(' '));
}
