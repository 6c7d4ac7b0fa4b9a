/** @file Times and spans as people read them. The store's clock is the clock. */

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const own = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** The viewer's own zone; UTC where the browser does not know it, as all that names it then says. */
export const HERE = own && own !== 'Etc/Unknown' ? own : 'UTC';

/** `New York`, of `America/New_York`. */
export function cityOf(zone) {
  return zone.split('/').at(-1).replaceAll('_', ' ');
}

/** How far the store's clock is ahead of this device's, in milliseconds. */
let ahead = 0;

/** Learns the store's clock from what it showed at this moment. */
export function setClock(time) {
  ahead = Date.parse(time) - Date.now();
}

/** What the store's clock shows, in milliseconds since the epoch. */
export function now() {
  return Date.now() + ahead;
}

/** How far this device's clock is ahead of the store's, in milliseconds. */
export function deviceAhead() {
  return -ahead;
}

const formats = new Map();

function format(zone, options) {
  const key = zone + JSON.stringify(options);
  if (!formats.has(key)) {
    try {
      formats.set(key, new Intl.DateTimeFormat('en-GB', { timeZone: zone, ...options }));
    } catch {
      return format('UTC', options);
    }
  }
  return formats.get(key);
}

const DATED = {
  weekday: 'short', day: 'numeric', month: 'short',
  hour: '2-digit', minute: '2-digit', second: '2-digit',
};

/** `Mon 23 Nov, 02:00:00`, with the year if it is not this one. */
export function dated(time, zone = HERE) {
  const date = new Date(time);
  const year = { year: 'numeric' };
  const same = format(zone, year).format(date) === format(zone, year).format(new Date(now()));
  return format(zone, same ? DATED : { ...DATED, ...year }).format(date);
}

/** `02:00:00`, or `02:00` without seconds. */
export function clock(time, { zone = HERE, seconds = true } = {}) {
  const options = { hour: '2-digit', minute: '2-digit' };
  return format(zone, seconds ? { ...options, second: '2-digit' } : options).format(new Date(time));
}

/** What an input of the type `datetime-local` shows of an instant, by the clock here. */
export function localOf(time) {
  const date = new Date(time);
  return new Date(date - date.getTimezoneOffset() * MINUTE).toISOString().slice(0, 19);
}

/** The instant that such an input means, in RFC 3339. */
export function instantOf(local) {
  return new Date(local).toISOString().replace('.000Z', 'Z');
}

/** A span of milliseconds in one or two units: `3.2 ms`, `12 s`, `2 h 5 min`. */
export function span(ms) {
  if (ms < 10) return `${Number(ms.toFixed(1))} ms`;
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < 10 * SECOND) return `${Number((ms / SECOND).toFixed(1))} s`;
  if (ms < MINUTE) return `${Math.round(ms / SECOND)} s`;
  const units = [[DAY, 'd'], [HOUR, 'h'], [MINUTE, 'min'], [SECOND, 's']];
  const first = units.findIndex(([unit]) => ms >= unit);
  const [unit, name] = units[first];
  const [smaller, smallerName] = units[first + 1] ?? [];
  const rest = smaller && ms < 10 * unit ? Math.floor((ms % unit) / smaller) : 0;
  return `${Math.floor(ms / unit)} ${name}${rest ? ` ${rest} ${smallerName}` : ''}`;
}

/** `in 12 s`, `4 min ago`, `now`: as of the store's clock. */
function relative(time) {
  const ms = Date.parse(time) - now();
  if (Math.abs(ms) < SECOND) return 'now';
  const whole = Math.abs(ms) < MINUTE ? Math.floor(Math.abs(ms) / SECOND) * SECOND : Math.abs(ms);
  return ms > 0 ? `in ${span(whole)}` : `${span(whole)} ago`;
}

/** A `<time>` that shows `text`; with `data-relative`, {@link tick} keeps it up to date. */
export function timeElement(time, text) {
  const element = document.createElement('time');
  element.dateTime = time;
  element.title = `${dated(time)} ${HERE}; ${new Date(time).toISOString()}`;
  if (text === undefined) element.dataset.relative = '';
  element.textContent = text ?? relative(time);
  return element;
}

/** Renews all relative times of the page. */
export function tick() {
  for (const element of document.querySelectorAll('time[data-relative]')) {
    const text = relative(element.dateTime);
    if (element.textContent !== text) element.textContent = text;
  }
}

/** A whole number with spaces between thousands. */
export function count(number) {
  return new Intl.NumberFormat('en-GB').format(number).replaceAll(',', '\u202f');
}

/** `at least 8` of a figure that is cut: more was not counted. */
export function atLeast(isCut, figure) {
  return isCut ? `at least ${figure}` : figure;
}

/** `1 call`, `2 calls`. */
export function counted(number, one) {
  return `${count(number)} ${one}${number === 1 ? '' : 's'}`;
}
