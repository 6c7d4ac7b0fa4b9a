/** @file Cron expressions in words: exact ones, or none. */

const NICKNAMES = {
  '@yearly': '0 0 1 1 *', '@annually': '0 0 1 1 *', '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0', '@daily': '0 0 * * *', '@midnight': '0 0 * * *', '@hourly': '0 * * * *',
};
const MONTHS = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August',
  'September', 'October', 'November', 'December'];
/** The most days that each month has. */
const LENGTHS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const NTH = ['first', 'second', 'third', 'fourth', 'fifth'];
/** The most times of day that are listed one by one. */
const LISTED = 6;

/** The fields: lowest and highest value, and the names of values. */
const FIELDS = {
  second: { min: 0, max: 59 },
  minute: { min: 0, max: 59 },
  hour: { min: 0, max: 23 },
  day: { min: 1, max: 31 },
  month: { min: 1, max: 12, names: MONTHS },
  weekday: { min: 0, max: 7, names: DAYS },
};

/** The number of a value, which may be a name of three letters; NaN if it is none. */
function valueOf(text, { min, max, names = [] }) {
  const named = names.findIndex((name) => name.slice(0, 3).toUpperCase() === text.toUpperCase());
  const value = named >= 0 ? min + named : /^\d+$/.test(text) ? Number(text) : NaN;
  return value >= min && value <= max ? value : NaN;
}

/** A special day, as {@link daysInWords} takes it; `undefined` if it is none. */
function specialOf(text, name) {
  const upper = text.toUpperCase();
  if (name === 'day') {
    const [, nearest] = /^(\d+)W$/.exec(upper) ?? [];
    const [, before] = /^L-(\d+)$/.exec(upper) ?? [];
    if (upper === 'L') return { last: 0 };
    if (upper === 'LW') return { lastWeekday: true };
    if (nearest) return { nearest: valueOf(nearest, FIELDS.day) };
    return before && { last: Number(before) };
  }
  if (name !== 'weekday') return undefined;
  const [, weekday, nth] = /^(\w+?)(?:#([1-5L])|(?<=.)L)$/.exec(upper) ?? [];
  if (weekday === undefined) return undefined;
  const on = valueOf(weekday, FIELDS.weekday) % 7;
  return { on, nth: nth === undefined || nth === 'L' ? 'L' : Number(nth) };
}

/**
 * Reads a field as the service does.
 *
 * @returns {{starred: boolean, values: number[], special: Object[]}} `null` if it is wrong.
 */
function read(text, name) {
  const limits = FIELDS[name];
  const { min, max } = limits;
  const values = new Set();
  const special = [];
  const isAny = (base) => base === '*' || base === '?' && ['day', 'weekday'].includes(name);
  for (const item of text.split(',')) {
    const [base, stepText = '1', ...rest] = item.split('/');
    const step = /^\d+$/.test(stepText) ? Number(stepText) : 0;
    const day = specialOf(base, name);
    if (rest.length || !step) return null;
    if (day) {
      if (item !== base || Object.values(day).some(Number.isNaN)) return null;
      special.push(day);
      continue;
    }
    const ends = base.split('-').map((end) => valueOf(end, limits));
    let [from, to = from] = isAny(base) ? [min, max] : ends;
    if (name === 'weekday' && to === 0 && from > 0) to = 7;
    // A step needs a range.
    const isRange = isAny(base) || ends.length === 2;
    if (ends.length > 2 || !(from <= to) || !isRange && item !== base) return null;
    for (let value = from; value <= to; value += step) {
      values.add(name === 'weekday' ? value % 7 : value);
    }
  }
  return {
    starred: text.startsWith('*') || isAny(text),
    values: [...values].sort((a, b) => a - b),
    special,
  };
}

const isEach = ({ values, special }, name) =>
  !special.length && values.length === (name === 'weekday' ? 7 : FIELDS[name].max - FIELDS[name].min + 1);

/** `a, b and c`. */
function list(words) {
  return words.length < 2 ? words.join() : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;
}

/** The distance between neighbours, if all have the same; 0 otherwise. */
function stepOf(values) {
  const step = values[1] - values[0];
  return values.slice(1).every((value, index) => value - values[index] === step) ? step : 0;
}

const two = (number) => `${number}`.padStart(2, '0');

/** `1st`, `22nd`. */
function ordinal(number) {
  const teen = number % 100 > 10 && number % 100 < 14;
  return `${number}${!teen && ['', 'st', 'nd', 'rd'][number % 10] || 'th'}`;
}

/** A range from three neighbours on; otherwise a list. */
function rangesOrList(values, wordOf) {
  return values.length > 2 && stepOf(values) === 1
    ? `${wordOf(values[0])} to ${wordOf(values.at(-1))}` : list(values.map(wordOf));
}

/**
 * `[words, isOften]` of the time of day; `null` if there are no exact ones.
 *
 * If none of the fields begins with a star, the times are fixed ones, and otherwise at an interval:
 * they differ on the days on which the clock is changed. So fixed times are listed, and only what
 * is at an interval is said to be every hour or every minute.
 */
function timeInWords(second, minute, hour) {
  const isInterval = [second, minute, hour].some(({ starred }) => starred);
  const { values: seconds } = second;
  const { values: minutes } = minute;
  const { values: hours } = hour;
  const isAllDay = isEach(hour, 'hour');
  const withSeconds = seconds.length > 1 || seconds[0] !== 0;
  const clock = (h, m, s) => `${two(h)}:${two(m)}${withSeconds ? `:${two(s)}` : ''}`;
  const from = clock(hours[0], minutes[0], seconds[0]);
  const to = clock(hours.at(-1), minutes.at(-1), seconds.at(-1));
  const between = isAllDay ? '' : ` from ${from} to ${to}`;
  const isRow = hours.length === 1 || stepOf(hours) === 1;

  if (seconds.length > 1) {
    if (!isInterval) return null;
    // Every some seconds, in hours that follow one another.
    const step = stepOf(seconds);
    const isEven = seconds[0] === 0 && step && 60 % step === 0 && seconds.length === 60 / step;
    if (!isEven || !isEach(minute, 'minute') || !isRow) return null;
    return [`every ${step === 1 ? 'second' : `${step} seconds`}${between}`, true];
  }
  const many = minutes.length * hours.length;
  if (many <= LISTED) {
    if (isInterval) return null;
    const each = hours.flatMap((h) => minutes.map((m) => clock(h, m, seconds[0])));
    return [`at ${list(each)}`, false];
  }
  if (!isInterval) return null;
  if (minutes.length > 1) {
    const step = stepOf(minutes);
    const isEven = step && 60 % step === 0 && minutes.length === 60 / step;
    if (isEven && isRow && (minutes[0] === 0 && seconds[0] === 0 || !isAllDay)) {
      return [`every ${step === 1 ? 'minute' : `${step} minutes`}${between}`, true];
    }
    if (isAllDay && seconds[0] === 0 && minutes.length <= LISTED) {
      return [`at ${list(minutes.map(String))} minutes past every hour`, true];
    }
    if (isEven && minutes[0] === 0 && step === 1 && isAllDay) {
      return [`every minute, at second ${seconds[0]}`, true];
    }
    return null;
  }
  if (isAllDay) {
    if (seconds[0] !== 0) return null;
    return [minutes[0] === 0 ? 'every hour, on the hour'
      : `at ${minutes[0]} minute${minutes[0] === 1 ? '' : 's'} past every hour`, true];
  }
  const step = stepOf(hours);
  return step ? [`every ${step === 1 ? 'hour' : `${step} hours`}${between}`, true] : null;
}

/** What months there are, as `of every month` or `of June`. */
function ofMonths({ values }) {
  return values.length === 12 ? 'of every month'
    : `of ${rangesOrList(values, (month) => MONTHS[month - 1])}`;
}

/** `[words, isEverywhere]` of days of the month; `null` if there are no exact ones. */
function datesInWords({ values, special }, month) {
  const shortest = Math.min(...month.values.map((each) => each === 2 ? 28 : LENGTHS[each - 1]));
  const isThere = (day) => day <= shortest;
  const words = special.map(({ last, lastWeekday, nearest }) => {
    if (last === 0) return 'last day';
    if (lastWeekday) return 'last weekday';
    // In a month without that day nothing is said.
    if (nearest) return nearest > shortest ? null : `weekday nearest to the ${ordinal(nearest)}`;
    return last < shortest ? `${ordinal(last)} day before the last` : null;
  });
  if (words.includes(null)) return null;
  // In a list it is not clear how far `before the last` goes, nor which `last` is meant.
  const isBefore = ({ last }) => last > 0;
  if (values.length + special.length > 1 && special.some(isBefore)) return null;
  if (words.includes('last day') && words.includes('last weekday')) return null;
  const step = stepOf(values);
  if (!special.length && values.length > 2 && step && values.at(-1) + step > 31) {
    if (!isThere(values[0])) return null;
    return step === 1
      ? `from the ${ordinal(values[0])} to the last day`
      : `on every ${ordinal(step)} day from the ${ordinal(values[0])}`;
  }
  if (!values.every(isThere) && values.length + words.length > 1) return null;
  if (!special.length && values.length > 2 && step === 1) {
    return `from the ${ordinal(values[0])} to the ${ordinal(values.at(-1))}`;
  }
  if (values.length > LISTED) return null;
  return `on the ${list([...values.map(ordinal), ...words])}`;
}

/** Days of the week, such as `Monday to Friday`; in the singular, after `a`, if `one` is set. */
function weekdaysInWords({ values, special }) {
  if (special.length && values.length) return null;
  if (special.length) {
    if (special.some(({ nth }) => nth === 5)) return null;
    return `on the ${list(special.map(({ on, nth }) =>
      `${nth === 'L' ? 'last' : NTH[nth - 1]} ${DAYS[on]}`))}`;
  }
  const days = [1, 2, 3, 4, 5, 6, 0].filter((day) => values.includes(day));
  const isRow = days.length > 2 && stepOf(days.map((day) => day || 7)) === 1;
  return isRow ? `${DAYS[days[0]]} to ${DAYS[days.at(-1)]}` : list(days.map((day) => DAYS[day]));
}

/** The days in words, with what goes before them; `null` if there are no exact ones. */
function daysInWords(day, month, weekday, isOften) {
  const isAnyDay = day.starred && isEach(day, 'day');
  const isAnyWeekday = weekday.starred && isEach(weekday, 'weekday');
  const isAnyMonth = month.values.length === 12;
  const inMonths = isAnyMonth ? '' : ` in ${rangesOrList(month.values, (each) => MONTHS[each - 1])}`;
  if (isAnyDay && isAnyWeekday) return isOften ? inMonths : ` every day${inMonths}`;
  const dates = isAnyDay ? '' : datesInWords(day, month);
  const days = isAnyWeekday ? '' : weekdaysInWords(weekday);
  if (dates === null || days === null) return null;
  const highest = Math.max(0, ...day.values);
  const isPartly = dates.startsWith('on the') && month.values.some((each) => highest > LENGTHS[each - 1])
    || day.values.length === 1 && highest === 29 && month.values.includes(2);
  const ofEach = `${ofMonths(month)}${isPartly ? ', where there is one' : ''}`;
  const daysOfMonths = weekday.special.length ? ` ${days} ${ofMonths(month)}` : `, ${days}${inMonths}`;
  if (isAnyDay) return daysOfMonths;
  if (isAnyWeekday) return `${dates.startsWith('from') ? ',' : ''} ${dates} ${ofEach}`;
  // Both restrict the days: one of the two suffices, unless one begins with a star.
  if (weekday.special.length || weekday.values.length > 1 || isPartly) return null;
  const one = DAYS[weekday.values[0]];
  const both = `${dates.startsWith('from') ? ',' : ''} ${dates} ${ofMonths(month)}`;
  return day.starred || weekday.starred
    ? `${both}, if it is a ${one}`
    : `${both}, and also every ${one}${inMonths}`;
}

/** `Every 1 h 30 min`, of `1h30m`. */
function periodInWords(period) {
  const parts = [...period.matchAll(/(\d+)([hms])/g)].map(([, number, unit]) =>
    `${Number(number)} ${unit === 'm' ? 'min' : unit}`);
  return `Every ${parts.join(' ')}`;
}

/**
 * Says a cron expression in words, such as `At 02:00 every day`.
 *
 * @param {string} expression As the service takes it, with five fields or six, or a nickname.
 * @returns {?string} `null` if it is wrong, or has no short words that are exact.
 */
export function cronInWords(expression) {
  const text = expression.trim();
  const [, period] = /^@[Ee]very\s+((?:\d*[1-9]\d*[hms])+)$/.exec(text) ?? [];
  if (period) return periodInWords(period);
  const words = (NICKNAMES[text.toLowerCase()] ?? text).split(/\s+/);
  if (words.length === 5) words.unshift('0');
  const names = Object.keys(FIELDS);
  if (words.length !== names.length) return null;
  const fields = names.map((name, index) => read(words[index], name));
  if (fields.includes(null)) return null;
  const [second, minute, hour, day, month, weekday] = fields;
  const time = timeInWords(second, minute, hour);
  const days = time && daysInWords(day, month, weekday, time[1]);
  if (!time || days === null) return null;
  const said = `${time[0]}${days}`;
  return said[0].toUpperCase() + said.slice(1);
}
