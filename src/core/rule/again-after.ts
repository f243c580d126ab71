// againAfter: the wait of a snooze, as a duration or as one reference into the reply with a unit. Pure.

import { parseDuration } from '../duration.ts';
import { limits } from '../limits.ts';
import { parseRule, type ReplyFacts } from './reply-rule.ts';
import type { Reference } from './tokens.ts';

export type AgainAfter =
  | { readonly kind: 'fixed'; readonly ms: number }
  | { readonly kind: 'read'; readonly reference: Reference; readonly unitMs: number };

const unitMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** null: neither of both. */
export function parseAgainAfter(text: string): AgainAfter | null {
  const [, source = '', unit = ''] = /^(\{[^}]*\})(ms|[smhd])$/.exec(text) ?? [];
  if (source !== '') {
    const parsed = parseRule(source);
    if (!parsed.ok || parsed.rule.root.kind !== 'reference') return null;
    return { kind: 'read', reference: parsed.rule.root, unitMs: unitMs[unit as keyof typeof unitMs] };
  }
  const duration = parseDuration(text);
  return duration.ok ? { kind: 'fixed', ms: duration.value } : null;
}

/** `isCut`: of half a body nothing is read. A value that is not a number ≥ 0 means one minute. */
export function waitOf(after: AgainAfter, facts: ReplyFacts, isCut: boolean): number {
  if (after.kind === 'fixed') return clamped(after.ms);
  const value = isCut && after.reference.from === 'reply' ? null : facts.valueOf(after.reference);
  const isNumber = typeof value === 'number' || (typeof value === 'string' && /^\d+(\.\d+)?$/.test(value));
  const number = isNumber ? Number(value) : Number.NaN;
  return clamped(number >= 0 ? number * after.unitMs : limits.againMsDefault);
}

/** Whole ms within the bounds of a snooze. */
export const clamped = (ms: number): number =>
  Math.min(Math.max(Math.ceil(ms), limits.againMsMin), limits.againMsMax);
