/** @file The form of a schedule, with what it would do shown as it is typed. */

import { call, path } from './api.js';
import { cronInWords } from './cron.js';
import { button, field, h, put, section, select, setText } from './dom.js';
import { faultsOf, input, instantPicker, showFaults } from './form.js';
import { makePreview } from './preview.js';
import { attemptParts } from './runs.js';
import { HERE } from './time.js';

/** How long typing gathers before a preview is asked for, in milliseconds. */
const GATHER = 250;
/** How many occurrences are shown. */
const MANY = 6;

const WHENS = [
  ['cron', 'By a cron expression'], ['every', 'At a fixed interval'],
  ['at', 'Once, at a time'], ['after', 'Once, after a delay'],
];
const METHODS = ['POST', 'GET', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'].map((name) => [name, name]);
const MISSED = [
  ['', 'Run once for all of them (default)'], ['skip', 'Skip them'],
  ['catch_up', 'Run the last ones'],
];
const OVERLAP = [
  ['', 'Run both (default)'], ['skip', 'Skip the new run'], ['queue', 'Queue the new run'],
];

/** What the fields of alerts are for. */
const WITHIN = 'A span, such as 25h. Without a success in that time, a notice is sent.';
const IN_A_ROW = 'Number of dead runs in a row.';

/** Whether a text is a number that the API can read. */
const isWhole = (text) => /^\d{1,9}$/.test(text);

/** Lines of `Name: value` as pairs. */
function pairsOf(text) {
  const lines = text.split('\n').filter((line) => line.trim());
  return lines.map((line) => {
    const at = line.indexOf(':');
    return at < 0 ? [line.trim(), ''] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  });
}

/** The same, the other way round. */
function linesOf(pairs) {
  return pairs.map(([name, value]) => `${name}: ${value}`).join('\n');
}

/** Windows as lines, as `tourbillonctl` takes them. */
function windowLines(windows) {
  return windows.map(({ from, until, then }) =>
    `${from}..${until}${then === 'run_at_end' ? '=run-at-end' : ''}`).join('\n');
}

/** The windows of such lines. */
function windowsOf(text) {
  return text.split('\n').map((line) => line.trim()).filter(Boolean).map((line) => {
    const [range, then = 'skip'] = line.split('=');
    const [from, until = ''] = range.split('..');
    return { from: from.trim(), until: until.trim(), then: then.trim().replaceAll('-', '_') };
  });
}

/** What an input is to show of a policy that may carry a number. */
function policyOf(policy) {
  if (policy && typeof policy === 'object') return Object.entries(policy)[0];
  return [policy === 'coalesce' || policy === 'allow' ? '' : policy ?? '', ''];
}

/** What the API shows in place of a value that is not to be seen. */
const MASK = '••••••••';

/** The headers without those whose values are not shown; adds the names of these to `missing`. */
function shownHeaders(headers = {}, missing) {
  return Object.fromEntries(Object.entries(headers).filter(([name, value]) => {
    if (value === MASK) missing.push(name);
    return value !== MASK;
  }));
}

/** A new schedule like another, and what has to be said about it. */
function copyOf({ key, callback = {}, notify, ...rest }) {
  const missing = [];
  return {
    definition: {
      ...rest, key: `${key}-copy`,
      callback: { ...callback, headers: shownHeaders(callback.headers, missing) },
      notify: notify && { ...notify, headers: shownHeaders(notify.headers, missing) },
    },
    remark: missing.length
      ? `The copy is without ${missing.join(', ')}: values that are not shown are not copied.` : '',
  };
}

/** A schedule that works where the service may call itself. */
function example() {
  return {
    definition: {
      key: 'first-example', when: { every: '1m' }, enabled: true,
      callback: { method: 'GET', url: `${location.origin}/healthz` },
    },
    remark: 'This is an example. It calls this service itself each minute, and its runs show how ' +
      'that went. Put in the URL of your own service, or try it as it is.',
  };
}

/** A schedule as the form has it at first. */
function blank() {
  return {
    definition: { when: { cron: '0 2 * * *', zone: HERE }, callback: {}, enabled: true }, remark: '',
  };
}

/** Shows the form, of a new schedule, of one like another, or of one that is there. */
export function show(holder, frame, { app, key, parameters }) {
  put(holder, h('h1', {}, key ? `Edit ${key}` : 'New schedule'));
  if (!frame.allApps.some(frame.canChange)) {
    return void put(holder, h('p', { class: 'empty' }, 'Your token cannot change any app.'));
  }
  if (key && !frame.canChange(app)) {
    return void put(holder, h('p', { class: 'empty' }, `Your token cannot change the app ${app}.`));
  }
  const copied = parameters.get('copy');
  if (!key && !copied) {
    return form(holder, frame, null, parameters.has('example') ? example() : blank());
  }
  let shown = {};
  call('GET', path(['apps', app ?? parameters.get('of') ?? '', 'schedules', key ?? copied])).then(
    (schedule) => {
      shown = key ? form(holder, frame, schedule, { definition: schedule, remark: '' })
        : form(holder, frame, null, copyOf(schedule));
    },
    (error) => put(holder, h('p', { class: 'error' }, error.message)));
  return { close: () => shown.close?.() };
}

function form(holder, frame, old, { definition: was, remark }) {
  const { when, callback = {} } = was;
  const first = WHENS.map(([name]) => name).find((name) => name in when);
  const [missed, missedMany] = policyOf(was.missed);
  const [overlap, overlapMany] = policyOf(was.overlap);
  const retry = was.retry ?? {};
  const app = select(frame.allApps.filter(frame.canChange).map((name) => [name, name]),
    was.app ?? frame.chosen, { disabled: Boolean(old) });
  const defaults = frame.defaultsOf(app.value);
  const headers = Object.entries(callback.headers ?? {});
  const zones = Intl.supportedValuesOf?.('timeZone') ?? [];

  const control = {
    app,
    key: input({ value: was.key, disabled: Boolean(old) }),
    labels: h('textarea', { rows: 2, spellcheck: 'false', class: 'code' },
      linesOf(Object.entries(was.labels ?? {}))),
    cron: input({ value: when.cron ?? '', class: 'code' }),
    zone: input({ value: when.zone ?? 'UTC', list: 'zones' }),
    every: input({ value: when.every ?? '5m' }),
    anchor: instantPicker(when.anchor),
    start: instantPicker(when.start),
    end: instantPicker(when.end),
    excluded: h('textarea', { rows: 2, spellcheck: 'false', class: 'code' },
      windowLines(when.excluded ?? [])),
    at: instantPicker(when.at),
    after: input({ value: when.after ?? '10m' }),
    method: select(METHODS, callback.method ?? 'POST'),
    url: input({ value: callback.url ?? '', inputmode: 'url', placeholder: 'https://…' }),
    headers: h('textarea', { rows: 3, spellcheck: 'false', class: 'code' },
      linesOf(headers.filter(([, value]) => typeof value === 'string'))),
    secrets: h('textarea', { rows: 2, spellcheck: 'false', class: 'code' },
      linesOf(headers.filter(([, value]) => typeof value !== 'string')
        .map(([name, { secret }]) => [name, secret]))),
    body: h('textarea', { rows: 5, spellcheck: 'false', class: 'code' }, callback.body ?? ''),
    timeout: input({ value: callback.timeout ?? '', placeholder: defaults.timeout }),
    success: input({ value: (callback.success ?? []).join(', '), placeholder: '2xx' }),
    completeWithin: input({ value: callback.complete_within ?? '', placeholder: '6h' }),
    attempts: input({
      value: retry.attempts, inputmode: 'numeric', placeholder: `${defaults.retry.attempts}`,
    }),
    first: input({ value: retry.first, placeholder: defaults.retry.first }),
    longest: input({ value: retry.longest, placeholder: defaults.retry.longest }),
    missed: select(MISSED, missed),
    missedMany: input({ value: missedMany, inputmode: 'numeric', placeholder: '10' }),
    within: input({ value: was.on_time_within ?? '', placeholder: defaults.on_time_within }),
    overlap: select(OVERLAP, overlap),
    overlapMany: input({ value: overlapMany, inputmode: 'numeric', placeholder: '10' }),
    lane: input({ value: was.lane ?? '' }),
    notify: input({ value: was.notify?.url ?? '', inputmode: 'url', placeholder: 'https://…' }),
    successWithin: input({ value: was.success_within ?? '' }),
    disableAfter: input({ value: was.disable_after, inputmode: 'numeric' }),
    jitter: input({ value: was.jitter ?? '', placeholder: '0s' }),
    enabled: h('input', { type: 'checkbox', id: 'enabled', checked: was.enabled !== false }),
  };
  // A control has its lines end in its own way.
  const shownBody = control.body.value;
  const shownLabels = control.labels.value;
  const value = (name) => (control[name].instant?.() ?? control[name].value).trim();
  const kinds = WHENS.map(([name, words]) => h('label', { class: 'choice' },
    h('input', { type: 'radio', name: 'when', value: name, checked: name === first }), words));
  const chosen = () => element.querySelector('[name=when]:checked').value;

  const fields = {
    cron: h('div', { class: 'pair' },
      field('Cron expression', control.cron, {
        name: 'when.cron',
        hint: 'Minute, hour, day of month, month, day of week, as in crontab(5).',
      }),
      field('Zone', control.zone, { name: 'when.zone', hint: 'A name such as Europe/Berlin.' })),
    every: h('div', { class: 'pair' },
      field('Interval', control.every,
        { name: 'when.every', hint: 'A span, such as 90s, 1h 30m or PT5M.' }),
      field('Counted from', control.anchor, {
        name: 'when.anchor', hint: `Such as 00:17 on any day, for each hour at :17, by the clock here (${HERE}).`,
      })),
    at: field('Time', control.at, { name: 'when.at', hint: `By the clock here (${HERE}).` }),
    after: field('Delay', control.after,
      { name: 'when.after', hint: 'A span, such as 90s, 1h 30m or PT5M.' }),
  };
  const bounds = h('details', { open: Boolean(when.start || when.end || when.excluded?.length) },
    h('summary', {}, 'Start, end and excluded windows'),
    h('div', { class: 'pair' },
      field('Start', control.start, { name: 'when.start', hint: `The earliest time, by the clock here (${HERE}).` }),
      field('End', control.end, { name: 'when.end', hint: `The latest time, by the clock here (${HERE}).` })),
    field('Excluded windows', control.excluded, {
      name: 'when.excluded',
      hint: 'One per line, as FROM..UNTIL. With =run-at-end, it runs once at the end of the window.',
    }));
  const repeating = h('div', {},
    h('div', { class: 'pair' },
      field('Missed runs', control.missed, { name: 'missed' }),
      field('At most', control.missedMany, { name: 'missed.catch_up' }),
      field('On time within', control.within, { name: 'on_time_within' })),
    h('div', { class: 'pair' },
      field('If the previous run is not finished', control.overlap, { name: 'overlap' }),
      field('At most', control.overlapMany, { name: 'overlap.queue' }),
      field('Random delay of up to', control.jitter, { name: 'jitter', hint: 'Spreads load.' })));
  const watched = h('div', { class: 'pair' },
    field('Has to succeed within', control.successWithin,
      { name: 'success_within', hint: WITHIN }),
    field('Disable after', control.disableAfter,
      { name: 'disable_after', hint: IN_A_ROW }));
  const hasRequest = headers.length > 0 || Boolean(callback.timeout || callback.success?.length ||
    callback.complete_within);
  const preview = makePreview();
  const inWords = h('p', { class: 'in-words' });
  const about = h('p', { class: 'hint', role: 'status' });
  const general = h('p', { class: 'error', role: 'alert' });
  const tested = h('div', { class: 'attempt' });
  const test = button('Send a test now', sendTest);
  const save = h('button', { type: 'submit', class: 'main' }, old ? 'Save' : 'Create');

  const element = h('form', { class: 'edit', novalidate: true, onsubmit: submit, oninput: typed },
    remark && h('p', { class: 'remark' }, remark),
    h('div', { class: 'edit-columns' },
      h('div', {},
        h('div', { class: 'pair' },
          field('App', control.app, { name: 'app' }),
          field('Key', control.key, {
            name: 'key', hint: old ? undefined : 'Its name in the app. If it is empty, the service chooses one.',
          })),
        h('fieldset', {}, h('legend', {}, 'When'),
          h('div', { class: 'choices' }, kinds), Object.values(fields), bounds),
        h('fieldset', {}, h('legend', {}, 'Callback'),
          h('div', { class: 'pair short-first' },
            field('Method', control.method, { name: 'callback.method' }),
            field('URL', control.url, { name: 'callback.url' })),
          field('Body', control.body, {
            name: 'callback.body',
            hint: 'These are replaced: {{key}} {{schedule}} {{app}} {{scheduled_for}} {{attempt}}',
          }),
          h('details', { open: hasRequest },
            h('summary', {}, 'Headers, timeout and success'),
            field('Headers', control.headers, {
              name: 'callback.headers',
              hint: 'One per line, as Name: value. A value of •••••••• is kept as it is.',
            }),
            field('Headers with a secret', control.secrets, {
              name: 'callback.secrets',
              hint: 'One per line.',
            }),
            h('div', { class: 'pair' },
              field('Timeout of an attempt', control.timeout, { name: 'callback.timeout' }),
              field('Statuses of success', control.success,
                { name: 'callback.success', hint: 'A list such as 200, 404.' })),
            field('Completed by a call within', control.completeWithin, {
              name: 'callback.complete_within',
              hint: 'A span, such as 6h. A receiver that answers 202 completes the attempt later.',
            })),
          h('p', {}, test), tested),
        h('details',
          { open: Boolean(was.missed || was.overlap || was.jitter || was.retry || was.lane) },
          h('summary', {}, 'Retries, missed runs and overlaps'),
          field('Lane', control.lane, {
            name: 'lane', hint: 'Runs in the same lane run one at a time, in the order of their times.',
          }),
          h('div', { class: 'pair' },
            field('Attempts', control.attempts, { name: 'retry.attempts' }),
            field('First pause', control.first, { name: 'retry.first' }),
            field('Longest pause', control.longest, { name: 'retry.longest' })),
          repeating),
        h('details', { open: Object.keys(was.labels ?? {}).length > 0 },
          h('summary', {}, 'Labels'),
          field('Labels', control.labels, {
            name: 'labels', hint: 'One per line, as name: value, or a name alone.',
          })),
        h('details', { open: Boolean(was.notify || was.success_within || was.disable_after) },
          h('summary', {}, 'Alerts'),
          field('Notices go to', control.notify, {
            name: 'notify', hint: 'A URL to use in place of the app’s. Its headers and its body are not changed.',
          }),
          watched)),
      h('div', {}, section('preview', 'Preview', inWords, about, preview.element))),
    h('datalist', { id: 'zones' }, zones.map((name) => h('option', { value: name }))),
    h('label', { class: 'choice', for: 'enabled' }, control.enabled, 'Enabled'),
    general,
    h('p', { class: 'buttons' }, save,
      button('Cancel', () => history.back(), { kind: 'plain' })));
  put(holder, element);

  function whenOf() {
    const kind = chosen();
    if (kind === 'at' || kind === 'after') return { [kind]: value(kind) };
    const windows = windowsOf(control.excluded.value);
    return {
      [kind]: value(kind),
      zone: kind === 'cron' ? value('zone') || 'UTC' : undefined,
      anchor: kind === 'every' && value('anchor') || undefined,
      start: value('start') || undefined,
      end: value('end') || undefined,
      excluded: windows.length ? windows : undefined,
    };
  }

  /** What is wrong with the times that are picked here, of those that show; or one fault of theirs. */
  function wrongTimes(only) {
    return ['at', 'anchor', 'start', 'end'].filter((name) => !control[name].closest('[hidden]'))
      .flatMap((name) => faultsOf(control[name], only)
        .map((detail) => ({ field: `when.${name}`, detail })));
  }

  /** What is wrong with lines if one would replace another: each name is sent once. */
  function wrongNames() {
    const headers = pairsOf(control.headers.value);
    const labels = control.labels.value === shownLabels ? [] : pairsOf(control.labels.value);
    return [
      ['labels', labels],
      ['callback.headers', headers],
      ['callback.secrets', pairsOf(control.secrets.value), headers],
    ].flatMap(([name, pairs, before = []]) => {
      const names = [...before, ...pairs].map(([each]) => each);
      const twice = names.find((each, at) => at >= before.length && names.indexOf(each) < at);
      if (twice === undefined) return [];
      const detail = before.some(([each]) => each === twice)
        ? `A header above has the name ${twice}.` : `Two lines have the name ${twice}.`;
      return [{ field: name, detail }];
    });
  }

  /** What is wrong with numbers. */
  function wrongNumbers() {
    const numbers = [
      ['attempts', 'retry.attempts'], ['missedMany', 'missed.catch_up'],
      ['overlapMany', 'overlap.queue'], ['disableAfter', 'disable_after'],
    ].filter(([name]) => value(name) && !isWhole(value(name)) && !control[name].closest('[hidden]'))
      .map(([, field]) => ({ field, detail: 'It is not a whole number.' }));
    return statuses().every(isWhole) ? numbers
      : [...numbers, { field: 'callback.success', detail: 'It is not a list such as 200, 404.' }];
  }

  const statuses = () => value('success').split(/[\s,]+/).filter(Boolean);

  function callbackOf() {
    const secrets = pairsOf(control.secrets.value).map(([name, secret]) => [name, { secret }]);
    return {
      method: value('method'), url: value('url'),
      headers: Object.fromEntries([...pairsOf(control.headers.value), ...secrets]),
      body: control.body.value === shownBody ? callback.body ?? '' : control.body.value,
      timeout: value('timeout') || undefined,
      success: value('success') ? statuses().filter(isWhole).map(Number) : undefined,
      complete_within: value('completeWithin') || undefined,
    };
  }

  /** The request that is tested, as a text. */
  const requestOf = () => JSON.stringify([value('app'), callbackOf()]);
  /** The request whose test is shown, or is sent. */
  let testedRequest = '';

  /** Sends what the form says once, and shows the answer, unless the form says another by then. */
  async function sendTest() {
    const wrong = [...wrongNames(), ...wrongNumbers()]
      .filter(({ field: name }) => name.startsWith('callback.'));
    if (wrong.length) {
      blame(wrong, '', 'callback');
      element.querySelector('[aria-invalid]').focus();
      return;
    }
    test.disabled = true;
    testedRequest = requestOf();
    tested.replaceChildren(h('p', { class: 'hint' }, 'Sending …'));
    try {
      const ended = await call('POST', path(['apps', value('app'), 'test']), { body: callbackOf() });
      const said = ended.error ? `The test failed: ${ended.error}` : 'The test succeeded.';
      if (requestOf() !== testedRequest) {
        frame.say(`${said} The request has changed since.`);
        return;
      }
      blame([], '', 'callback');
      tested.replaceChildren(...attemptParts(ended, ended.error ? 'Test failed' : 'Test succeeded'));
      frame.say(said);
    } catch (error) {
      tested.replaceChildren();
      blameCallback((error.errors ?? [])
        .map((each) => ({ ...each, field: `callback.${each.field}` })), error.message, 'callback');
    } finally {
      const isLost = [document.body, test].includes(document.activeElement);
      test.disabled = false;
      if (isLost) (element.querySelector('[aria-invalid]') ?? test).focus();
    }
  }

  /** As {@link blame}; a header with a secret has a field of its own. */
  function blameCallback(errors, rest, prefix) {
    const named = pairsOf(control.secrets.value).map(([name]) => `callback.headers.${name}`);
    blame(errors.map((each) =>
      named.includes(each.field) ? { ...each, field: 'callback.secrets' } : each), rest, prefix);
  }

  /** What the form says. Fields of their own are left out if they are empty. */
  function definition() {
    const text = (name) => value(name) || undefined;
    const number = (name, missing) => isWhole(value(name)) ? Number(value(name)) : missing;
    const repeats = ['cron', 'every'].includes(chosen());
    const policy = (name, counted) => value(name) === counted
      ? { [counted]: number(`${name}Many`, 10) } : text(name);
    const retries = value('attempts') || value('first') || value('longest');
    return {
      when: whenOf(),
      callback: callbackOf(),
      labels: control.labels.value === shownLabels
        ? was.labels : Object.fromEntries(pairsOf(control.labels.value)),
      missed: repeats ? policy('missed', 'catch_up') : undefined,
      on_time_within: repeats ? text('within') : undefined,
      overlap: repeats ? policy('overlap', 'queue') : undefined,
      jitter: repeats ? text('jitter') : undefined,
      lane: text('lane'),
      notify: value('notify') ? { ...was.notify, url: value('notify') } : undefined,
      success_within: repeats ? text('successWithin') : undefined,
      disable_after: repeats ? number('disableAfter') : undefined,
      retry: retries
        ? { attempts: number('attempts'), first: text('first'), longest: text('longest') }
        : undefined,
      enabled: control.enabled.checked,
    };
  }

  /** Shows what is wrong beside the fields it is about, as {@link showFaults}. */
  function blame(...faults) {
    showFaults(element, general, ...faults);
  }

  /** Shows what holds of the alerts where a field is empty. */
  function showAlerts({ success_within: within, disable_after: count }) {
    for (const [element, hint, holds, none] of [
      [control.successWithin, WITHIN, within, '0s'], [control.disableAfter, IN_A_ROW, count, '0'],
    ]) {
      element.placeholder = holds ?? '';
      setText(element.parentElement.querySelector('.hint'),
        holds ? `${hint} If it is empty, the app’s ${holds} holds; ${none} is for none.` : hint);
    }
  }

  let latest = 0;
  let gathering;
  function typed() {
    if (tested.childElementCount && requestOf() !== testedRequest) tested.replaceChildren();
    for (const [name, part] of Object.entries(fields)) part.hidden = name !== chosen();
    repeating.hidden = !['cron', 'every'].includes(chosen());
    bounds.hidden = repeating.hidden;
    watched.hidden = repeating.hidden;
    control.missedMany.parentElement.hidden = value('missed') !== 'catch_up';
    const names = frame.secretsOf(value('app'));
    control.secrets.parentElement.hidden = !names.length && !value('secrets');
    setText(control.secrets.parentElement.querySelector('.hint'),
      'One per line, as Name: the name of a secret, whose value is put in when the request is sent. ' +
      `Secrets: ${names.join(', ') || 'none'}.`);
    control.overlapMany.parentElement.hidden = value('overlap') !== 'queue';
    showAlerts(frame.defaultsOf(value('app')));
    clearTimeout(gathering);
    gathering = setTimeout(look, GATHER);
  }

  async function look() {
    latest += 1;
    const mine = latest;
    const late = wrongTimes('rangeOverflow');
    if (late.length) {
      unseen(late);
      return;
    }
    const asked = whenOf();
    if (!asked[chosen()]) {
      preview.element.hidden = true;
      setText(inWords, '');
      setText(about, 'Enter when it runs to see the next times here.');
      return;
    }
    try {
      const toCome = await call('POST', '/v1/preview', { body: { when: asked, count: MANY } });
      if (mine !== latest) return;
      blame([], '', 'when');
      preview.draw(toCome);
      const words = asked.cron && cronInWords(asked.cron);
      setText(inWords, words ? `${words}, by the clock of ${asked.zone}.` : '');
      setText(about, toCome.items.length ? 'It would run at:' : 'It would never run.');
    } catch (error) {
      if (mine === latest) unseen(error.errors ?? [], error.message);
    }
  }

  /** Says that there is no preview, and why. */
  function unseen(errors, why) {
    preview.element.hidden = true;
    setText(inWords, '');
    setText(about, 'There is no preview for that.');
    blame(errors, errors.length ? '' : why, 'when');
  }

  async function submit(event) {
    event.preventDefault();
    latest += 1;
    clearTimeout(gathering);
    const wrong = [...wrongTimes(), ...wrongNames(), ...wrongNumbers()];
    // The service finds the other faults, and keeps nothing.
    const check = wrong.length ? true : undefined;
    save.disabled = true;
    try {
      const app = value('app');
      const body = definition();
      const kept = old
        ? await call('PUT', path(['apps', app, 'schedules', old.key], { check }),
          { body, headers: { 'If-Match': `${old.version}` } })
        : await call('POST', path(['apps', app, 'schedules'], { check }),
          { body: { ...body, key: value('key') || undefined } });
      if (check) {
        blame(wrong);
        element.querySelector('[aria-invalid]')?.focus();
        return;
      }
      frame.say(`${kept.key} is ${old ? 'saved' : 'created'}.`);
      frame.go(frame.link(['schedules', kept.app ?? app, kept.key]));
    } catch (error) {
      const isKnown = ({ field: name }) => wrong.some((own) => own.field === name);
      const others = (error.errors ?? []).filter((each) => !isKnown(each));
      blameCallback([...wrong, ...others], check && error.errors?.length ? '' : error.message);
      (element.querySelector('[aria-invalid]') ?? save).focus();
    } finally {
      save.disabled = false;
    }
  }

  typed();
  return {
    close() {
      latest += 1;
      clearTimeout(gathering);
    },
  };
}
