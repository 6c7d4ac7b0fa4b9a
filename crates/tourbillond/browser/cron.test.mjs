/** @file Cron expressions in words: what is said, and where nothing is. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

const source = readFileSync(new URL('../page/cron.js', import.meta.url), 'utf8');
const { cronInWords } = await import(`data:text/javascript,${encodeURIComponent(source)}`);

const SAID = {
  // Often.
  '* * * * *': 'Every minute',
  '* * * * * *': 'Every second',
  '15 * * * * *': 'Every minute, at second 15',
  '*/10 * * * * *': 'Every 10 seconds',
  '*/30 * 8-17 * * *': 'Every 30 seconds from 08:00:00 to 17:59:30',
  '*/15 * * * *': 'Every 15 minutes',
  '*/15 8-17 * * 1-5': 'Every 15 minutes from 08:00 to 17:45, Monday to Friday',
  '*/5 22 * * *': 'Every 5 minutes from 22:00 to 22:55',
  '5-59/15 * * * *': 'At 5, 20, 35 and 50 minutes past every hour',
  '1 * * * *': 'At 1 minute past every hour',
  '0 * * * *': 'Every hour, on the hour',
  '0-59 * * * *': 'Every minute',
  '0 */2 * * *': 'Every 2 hours from 00:00 to 22:00',
  '*/20 * 1 * *': 'Every 20 minutes on the 1st of every month',
  '* * * 6 *': 'Every minute in June',
  // Times of day.
  '0 2 * * *': 'At 02:00 every day',
  '  0  2 * * * ': 'At 02:00 every day',
  '30 0 2 * * *': 'At 02:00:30 every day',
  '30 9,17 * * *': 'At 09:30 and 17:30 every day',
  '0 0,5,10 * * *': 'At 00:00, 05:00 and 10:00 every day',
  // Days of the week.
  '0 9 * * mon-fri': 'At 09:00, Monday to Friday',
  '0 9 ? * FRI-SUN': 'At 09:00, Friday to Sunday',
  '0 9 * * 5-7': 'At 09:00, Friday to Sunday',
  '0 9 * * 6,0': 'At 09:00, Saturday and Sunday',
  '0 9 * jun-aug 7': 'At 09:00, Sunday in June to August',
  '30 17 * * FRI#2': 'At 17:30 on the second Friday of every month',
  '0 9 * 1 mon#1,mon#3': 'At 09:00 on the first Monday and third Monday of January',
  '0 9 * * 5L': 'At 09:00 on the last Friday of every month',
  '0 9 * * fri#l': 'At 09:00 on the last Friday of every month',
  // Days of the month.
  '0 0 1 * *': 'At 00:00 on the 1st of every month',
  '0 0 2,3,22 * *': 'At 00:00 on the 2nd, 3rd and 22nd of every month',
  '0 0 11 1,7 *': 'At 00:00 on the 11th of January and July',
  '0 0 31 * *': 'At 00:00 on the 31st of every month, where there is one',
  '0 0 31 1,3 *': 'At 00:00 on the 31st of January and March',
  '0 0 29 2 *': 'At 00:00 on the 29th of February, where there is one',
  '0 0 1-7 * *': 'At 00:00, from the 1st to the 7th of every month',
  '0 0 15-31 * *': 'At 00:00, from the 15th to the last day of every month',
  '0 0 29-31 1 *': 'At 00:00, from the 29th to the last day of January',
  '0 0 */2 * *': 'At 00:00 on every 2nd day from the 1st of every month',
  '0 0 1-15/3 * *': 'At 00:00 on the 1st, 4th, 7th, 10th and 13th of every month',
  '0 0 L * *': 'At 00:00 on the last day of every month',
  '0 0 L,15 * *': 'At 00:00 on the 15th and last day of every month',
  '0 0 L-3 * *': 'At 00:00 on the 3rd day before the last of every month',
  '0 0 15,LW * *': 'At 00:00 on the 15th and last weekday of every month',
  '0 0 LW * *': 'At 00:00 on the last weekday of every month',
  '0 0 15W * *': 'At 00:00 on the weekday nearest to the 15th of every month',
  // One of the two suffices, unless one begins with a star.
  '0 0 13 * fri': 'At 00:00 on the 13th of every month, and also every Friday',
  '0 9 */2 * mon': 'At 09:00 on every 2nd day from the 1st of every month, if it is a Monday',
  // Nicknames.
  '@daily': 'At 00:00 every day',
  '@Weekly': 'At 00:00, Sunday',
  '@yearly': 'At 00:00 on the 1st of January',
  '@every 1h30m': 'Every 1 h 30 min',
  '@every 90s': 'Every 90 s',
};

const UNSAID = [
  // Wrong.
  '', 'nonsense', '* * *', '* * * * * * *', '61 * * * *', '5/15 * * * *', '0 22-2 * * *',
  '*/0 * * * *', '1-2-3 * * * *', '0 0 L/2 * *', '0 0 32W * *', '0 0 * * 8L', '0 0 * * mon#6',
  '0 0 * * monday', '0 mon * * *', '@reboot', '@every', '@every 0s', '1,,2 * * * *',
  // Fixed times are not every hour: they skip one that the clock shows twice.
  '0 0-23 * * *', '0 8-17 * * *', '0-59 0-23 * * *', '0-59 0-59 0-23 * * *',
  // At an interval, and not at the same times on each day.
  '*/30 2 * * *', '0 */5 * * *', '0 */12 * * *',
  // Lists in which it is not clear what belongs to what.
  '0 0 5,L-3 * *', '0 0 L-3,L * *', '0 0 15W,L-3 * *', '0 0 L,LW * *',
  // Not every month has the first of these days.
  '0 0 29-31 * *', '0 0 29-31 2 *',
  // Right, and too long or too subtle for a line.
  '*/7 * * * *', '0,30 8-18/2 * * *', '*/10 5 * * * *', '0 0 30,31 * *', '0 0 31W * *',
  '0 0 L-30 * *', '0 0 * * FRI#5', '0 0 1 * mon,tue', '0 0 31 * fri', '0 0 1 * fri#2',
];

test('an expression is said in words', () => {
  for (const [expression, words] of Object.entries(SAID)) {
    assert.equal(cronInWords(expression), words, expression);
  }
});

test('nothing is said of what is wrong, or has no short words that are exact', () => {
  for (const expression of UNSAID) assert.equal(cronInWords(expression), null, expression);
});
