/** @file The API's names of states, reasons and policies, in plain words. */

const STATES = {
  enabled: 'Enabled',
  disabled: 'Disabled',
  paused: 'Paused',
  pending: 'Waiting',
  running: 'Running',
  waiting: 'Waiting for completion',
  retrying: 'Retrying',
  succeeded: 'Succeeded',
  dead: 'Dead',
  skipped: 'Skipped',
  cancelled: 'Cancelled',
};

const REASONS = {
  failed: 'All attempts failed',
  'given up': 'The answer rules out a retry',
  missed: 'No node was running in time',
  coalesced: 'A later run stands for it',
  overlap: 'An earlier run was not finished',
  cancelled: 'Cancelled by request',
  disabled: 'The schedule was disabled',
  replaced: 'The schedule was changed',
  removed: 'The schedule was deleted',
  excluded: 'In an excluded window',
  paused: 'The schedule was paused',
};

const POLICIES = {
  coalesce: 'Run once for all of them', skip: 'Skip', catch_up: 'Run the last ones',
  allow: 'Run both', queue: 'Queue',
};

/** A state in words. */
export function stateInWords(state) {
  return STATES[state] ?? state;
}

/** The reason why a run did not succeed, in words. */
export function reasonInWords(reason) {
  return REASONS[reason] ?? reason;
}

/** A choice of states; the empty one is called `any`. */
export function stateOptions(states, any) {
  return [['', any], ...states.map((state) => [state, stateInWords(state)])];
}

/** A policy in words: a name, or a name with a number; `missing` if there is none. */
export function policyInWords(policy, missing) {
  const [name, many] = typeof policy === 'object' && policy
    ? Object.entries(policy)[0] : [policy ?? missing];
  return `${POLICIES[name] ?? name}${many === undefined ? '' : `, at most ${many}`}`;
}
