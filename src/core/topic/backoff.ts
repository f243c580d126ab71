// The backoff of a topic as users write it: "2n+1", a ladder of waits, or an exponential formula. Reads and
// prints it; retry-policy.ts computes waits from it.

import { formatDuration } from '../duration.ts';
import type { FieldErrors } from '../errors.ts';
import { unknownName } from '../suggest.ts';
import { durationSchema, type More, readDuration, readNumber, type TopicField } from './field-kinds.ts';

/** The wait after failed attempt n+1 (n = failed attempts before it), without jitter. */
export type Backoff =
  /** (2n+1) × retry.unit: 1, 3, 5 … minutes */
  | { readonly type: 'odd' }
  /** one step after the other, the last repeats */
  | { readonly type: 'ladder'; readonly stepsMs: readonly number[] }
  /** min(cap, base × factor^n) */
  | {
      readonly type: 'exponential';
      readonly baseMs: number;
      readonly factor: number;
      readonly capMs: number;
    };

/** As users write it, with durations. */
export type BackoffJson =
  | '2n+1'
  | readonly string[]
  | { readonly type: 'exponential'; readonly base: string; readonly factor: number; readonly cap: string };

const stepsMax = 50;
/** The longest single wait: 10 days. */
const stepMsMax = 10 * 86_400_000;
/** From 100 on the second wait is the cap. */
const factorMax = 100;

export function backoff(help: string, more: More): TopicField<Backoff, BackoffJson> {
  return {
    ...more,
    help,
    default: { type: 'odd' },
    kind: 'backoff',
    bounds: `\`"2n+1"\`, a ladder of 1 to ${stepsMax} waits, or a formula; waits of 1ms to ${formatDuration(stepMsMax)}, or 0s in a ladder of a pull topic`,
    schema: {
      anyOf: [
        { const: '2n+1' },
        { type: 'array', items: durationSchema, minItems: 1, maxItems: stepsMax },
        {
          type: 'object',
          properties: {
            type: { const: 'exponential' },
            base: durationSchema,
            factor: { type: 'number', minimum: 1, maximum: factorMax },
            cap: durationSchema,
          },
          required: ['type', 'base', 'factor', 'cap'],
          additionalProperties: false,
        },
      ],
    },
    parse: parseBackoff,
    print: printBackoff,
  };
}

/** The JSON of a backoff as a flag or a query writes it: "15s,3m" and "15s" are ladders, text that begins as
 *  JSON is JSON, and one word stays text, whose rejection shows all forms. Throws SyntaxError. */
export function backoffJson(text: string): unknown {
  if (text === '2n+1' || /^[a-z]+$/i.test(text)) return text;
  return /^\s*[[{]/.test(text) ? JSON.parse(text) : text.split(',').map((wait) => wait.trim());
}

/** Of JSON as the API writes it. Rejects a wrong one under `field`. */
export function parseBackoff(value: unknown, field: string, errors: FieldErrors): Backoff | undefined {
  if (value === '2n+1') return { type: 'odd' };
  if (Array.isArray(value)) return ladder(value, field, errors);
  if (typeof value === 'object' && value !== null && 'type' in value && value.type === 'exponential')
    return exponential(value, field, errors);
  return errors.reject(
    field,
    'must be "2n+1", a list of waits such as ["15s","3m"], or {"type":"exponential","base":"10s","factor":2,"cap":"1h"}',
  );
}

function ladder(steps: readonly unknown[], field: string, errors: FieldErrors): Backoff | undefined {
  if (steps.length === 0 || steps.length > stepsMax)
    return errors.reject(field, `must be 1 to ${stepsMax} waits, not ${steps.length}`);
  const stepsMs = steps.map((wait, index) => readWait(wait, `${field}[${index}]`, errors, 0));
  return stepsMs.includes(undefined) ? undefined : { type: 'ladder', stepsMs: stepsMs as number[] };
}

function exponential(value: object, field: string, errors: FieldErrors): Backoff | undefined {
  const { type: _, base, factor, cap, ...rest } = value as Record<string, unknown>;
  for (const name of Object.keys(rest))
    errors.reject(
      `${field}.${name}`,
      unknownName('member', name, ['base', 'factor', 'cap'], 'write type, base, factor and cap'),
    );
  const baseMs = readWait(base, `${field}.base`, errors);
  const power = readNumber(factor, `${field}.factor`, errors, 1, factorMax);
  const capMs = readWait(cap, `${field}.cap`, errors);
  if (baseMs === undefined || power === undefined || capMs === undefined) return undefined;
  if (capMs < baseMs)
    return errors.reject(`${field}.cap`, `must be at least the base, ${formatDuration(baseMs)}`);
  return Object.keys(rest).length > 0 ? undefined : { type: 'exponential', baseMs, factor: power, capMs };
}

/** `leastMs`: 0 for a ladder, whose pull topic may want its next attempt at once. */
function readWait(value: unknown, field: string, errors: FieldErrors, leastMs = 1): number | undefined {
  return readDuration(value, field, errors, leastMs, stepMsMax);
}

export function printBackoff(policy: Backoff): BackoffJson {
  switch (policy.type) {
    case 'odd':
      return '2n+1';
    case 'ladder':
      return policy.stepsMs.map(formatDuration);
    case 'exponential':
      return {
        type: 'exponential',
        base: formatDuration(policy.baseMs),
        factor: policy.factor,
        cap: formatDuration(policy.capMs),
      };
  }
}
