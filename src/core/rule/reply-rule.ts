// The rules of a topic (retryIf, deadIf, againIf): parsed at registration, evaluated for replies. No eval, no
// function or regular expression of the user. Evaluation never throws and costs at most nodes × reply. Also
// the wait of a snooze (againAfter): a duration, or one reference into the reply with a unit. Pure.

import { parseDuration } from '../duration.ts';
import { limits } from '../limits.ts';
import { type Comparison, parseTree, type RuleNode } from './parser.ts';
import { compareOrder, identical, isContainer, isTruthy, looselyEqual, memberOf } from './php-compare.ts';
import { type Reference, RuleMistake } from './tokens.ts';

export interface Rule {
  readonly source: string;
  readonly root: RuleNode;
  /** each once, in order of appearance */
  readonly references: readonly Reference[];
}

type ParsedRule =
  | { readonly ok: true; readonly rule: Rule }
  | { readonly ok: false; readonly message: string; readonly position: number };

/** The reply as input of a rule. */
export interface ReplyView {
  readonly status: number;
  /** number of this attempt, from 1 */
  readonly attempt: number;
  /** the body, decoded; '' when empty */
  readonly text: string;
  /** by lower-case name; null when absent */
  header(name: string): string | null;
}

/** `position` counts characters (code points) from 0. Rejects an empty source: callers skip topics without a
 *  rule. */
export function parseRule(source: string): ParsedRule {
  const max = limits.ruleCharsMax;
  if (source.length > 2 * max || characters(source) > max)
    return { ok: false, message: `the rule is too long; write at most ${max} characters`, position: max };
  try {
    return { ok: true, rule: { source, ...parseTree(source) } };
  } catch (error) {
    if (!(error instanceof RuleMistake)) throw error;
    return { ok: false, message: error.message, position: characters(source.slice(0, error.at)) };
  }
}

function characters(text: string): number {
  return [...text].length;
}

/** Whether a rule can read members of this reply. */
export function isJsonReply(text: string): boolean {
  return parseReply(text) !== null;
}

/** false: the rule reads only the status, headers and the number of the attempt */
export function readsBody(rule: Rule): boolean {
  return rule.references.some(({ from }) => from === 'reply');
}

/** Whether the rule is true of the reply. */
export function evaluateRule(rule: Rule, reply: ReplyView | ReplyFacts): boolean {
  return isTruthy(resolve(rule.root, reply instanceof ReplyFacts ? reply : new ReplyFacts(reply)));
}

/** The value of each reference, by its text (`{res.code}`). Replaces values nested deeper than
 *  limits.ruleDepthMax by "…": JSON.stringify overflows on a deep reply. */
export function ruleValues(rule: Rule, reply: ReplyView | ReplyFacts): Record<string, unknown> {
  const facts = reply instanceof ReplyFacts ? reply : new ReplyFacts(reply);
  return Object.fromEntries(
    rule.references.map((reference) => [
      reference.text,
      cutDeeper(facts.valueOf(reference), limits.ruleDepthMax),
    ]),
  );
}

function cutDeeper(value: unknown, depth: number): unknown {
  if (!isContainer(value)) return value;
  if (depth === 0) return '…';
  if (Array.isArray(value)) return value.map((item) => cutDeeper(item, depth - 1));
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, cutDeeper(item, depth - 1)]));
}

/** The values of references. Parses the reply once, at the first reference into it by any rule. */
export class ReplyFacts {
  readonly #reply: ReplyView;
  #json: { readonly value: unknown } | null = null;

  constructor(reply: ReplyView) {
    this.#reply = reply;
  }

  /** null for a missing value. */
  valueOf(reference: Reference): unknown {
    switch (reference.from) {
      case 'status':
        return this.#reply.status;
      case 'attempt':
        return this.#reply.attempt;
      case 'header':
        return this.#reply.header(reference.path[0] ?? '');
      case 'reply':
        return this.#lookUp(reference.path);
    }
  }

  #lookUp(path: readonly string[]): unknown {
    // The rule decides what null means.
    this.#json ??= parseReply(this.#reply.text) ?? { value: null };
    let value = this.#json.value;
    for (const step of path) {
      value = memberOf(value, step);
      if (value === undefined) return null;
    }
    return value;
  }
}

/** null for text that is not JSON, and for JSON too deep for the parser (RangeError). */
function parseReply(text: string): { readonly value: unknown } | null {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return null; // the receiver wrote it
  }
}

/** The rule's depth bounds the recursion. */
function resolve(node: RuleNode, facts: ReplyFacts): unknown {
  switch (node.kind) {
    case 'literal':
      return node.value;
    case 'reference':
      return facts.valueOf(node);
    case 'not':
      return !isTruthy(resolve(node.operand, facts));
    case 'all':
      return node.operands.every((operand) => isTruthy(resolve(operand, facts)));
    case 'any':
      return node.operands.some((operand) => isTruthy(resolve(operand, facts)));
    case 'compare':
      return holds(node.operator, resolve(node.left, facts), resolve(node.right, facts));
  }
}

function holds(operator: Comparison, left: unknown, right: unknown): boolean {
  switch (operator) {
    case '==':
      return looselyEqual(left, right);
    case '!=':
      return !looselyEqual(left, right);
    case '===':
      return identical(left, right);
    case '!==':
      return !identical(left, right);
  }
  const order = compareOrder(left, right);
  if (order === null) return false;
  switch (operator) {
    case '<':
      return order < 0;
    case '<=':
      return order <= 0;
    case '>':
      return order > 0;
    case '>=':
      return order >= 0;
  }
}

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
