// The retry policy of a topic as users write it: "2n+1", a ladder of waits, or a formula. Reads and writes it; the arithmetic
// is retry-policy.ts.

import type { Complaints } from '../complaints.ts';
import { formatDuration } from '../duration.ts';
import { limits } from '../limits.ts';
import { duration, type FieldParser, fraction } from './field-parsers.ts';
import type { Backoff } from './topic.ts';

const step = duration(1, limits.backoffStepMsMax);

export const backoff: FieldParser<Backoff> = (value, field, complaints) => {
  if (value === '2n+1') return { type: 'odd' };
  if (Array.isArray(value)) return ladder(value, field, complaints);
  if (typeof value === 'object' && value !== null && 'type' in value && value.type === 'exponential')
    return exponential(value, field, complaints);
  return complaints.refuse(
    field,
    'must be "2n+1", a list of waits such as ["15s","3m"], or {"type":"exponential","base":"10s","factor":2,"cap":"1h"}',
  );
};

function ladder(steps: readonly unknown[], field: string, complaints: Complaints): Backoff | undefined {
  if (steps.length === 0 || steps.length > limits.backoffStepsMax)
    return complaints.refuse(field, `must be 1 to ${limits.backoffStepsMax} waits`);
  const stepsMs = steps.map((wait, index) => step(wait, `${field}[${index}]`, complaints));
  return stepsMs.includes(undefined) ? undefined : { type: 'ladder', stepsMs: stepsMs as number[] };
}

function exponential(value: object, field: string, complaints: Complaints): Backoff | undefined {
  const { type: _, base, factor, cap, ...rest } = value as Record<string, unknown>;
  for (const name of Object.keys(rest)) complaints.refuse(`${field}.${name}`, 'is no field of a formula');
  const baseMs = step(base, `${field}.base`, complaints);
  const power = fraction(1, limits.backoffFactorMax)(factor, `${field}.factor`, complaints);
  const capMs = step(cap, `${field}.cap`, complaints);
  if (baseMs === undefined || power === undefined || capMs === undefined) return undefined;
  if (capMs < baseMs) return complaints.refuse(`${field}.cap`, 'must not be below the base');
  return Object.keys(rest).length > 0 ? undefined : { type: 'exponential', baseMs, factor: power, capMs };
}

export function printBackoff(policy: Backoff): unknown {
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
