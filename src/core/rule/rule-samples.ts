// Replies that try a retry rule: each value that the rule compares takes the literals of the rule, and one
// other value. Says where a rule is probably true of successes. Pure.

import { limits } from '../limits.ts';
import type { RuleNode } from './parser.ts';
import { evaluateRule, type Rule } from './reply-rule.ts';
import type { Literal, Reference } from './tokens.ts';

type Value = Literal['value'];

/** A value of the reply that a rule compares with a literal; operator null: the rule reads its truth. */
interface Comparison {
  readonly reference: Reference;
  readonly operator: string | null;
  readonly value: Value;
}

/** The values that a sample gives to references, by the text of the reference. */
type Values = ReadonlyMap<string, { readonly reference: Reference; readonly value: Value }>;

export interface RuleSample {
  /** `{"code":0}`, `status 503`, `x-busy: 1` */
  readonly name: string;
  readonly status: number;
  readonly attempt: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly text: string;
}

/** At most ruleSamplesMax. Empty for a rule without a literal that a reply can have. */
export function samplesOf(rule: Rule): readonly RuleSample[] {
  const samples = combinationsOf(comparisonsOf(rule.root)).map(sampleOf);
  return samples.filter(({ name }) => name !== '');
}

interface UsualSuccess {
  /** the replies that usually mean success */
  readonly names: readonly string[];
  /** the conditions that are true for all other replies */
  readonly proposal: string;
}

/** null unless the rule is true of a value that usual receivers send for success, whatever else they reply,
 *  and false of another value. */
export function successOf(rule: Rule): UsualSuccess | null {
  const comparisons = comparisonsOf(rule.root);
  const combinations = combinationsOf(comparisons);
  const isTrue = (values: Values, reference: Reference, value: Value): boolean =>
    evaluateRule(rule, viewOf(sampleOf(withValue(values, reference, value))));
  const found = comparisons.filter(({ reference, value }) => {
    if (!isUsualSuccess(reference, value)) return false;
    const [other] = othersOf(reference, comparisons);
    if (other === undefined) return false;
    return (
      combinations.every((values) => isTrue(values, reference, value)) &&
      combinations.some((values) => !isTrue(values, reference, other))
    );
  });
  if (found.length === 0) return null;
  return {
    names: found.map(({ reference, value }) => sampleOf(withValue(new Map(), reference, value)).name),
    proposal: found.map(invertedText).join(' && '),
  };
}

/** Without comparisons of two references. The depth of a rule bounds the recursion. */
function comparisonsOf(node: RuleNode): readonly Comparison[] {
  switch (node.kind) {
    case 'literal':
      return [];
    case 'reference':
      return [{ reference: node, operator: null, value: true }];
    case 'not':
      return comparisonsOf(node.operand);
    case 'all':
    case 'any':
      return node.operands.flatMap(comparisonsOf);
    case 'compare': {
      const { operator, left, right } = node;
      if (left.kind === 'reference' && right.kind === 'literal')
        return [{ reference: left, operator, value: right.value }];
      if (left.kind === 'literal' && right.kind === 'reference')
        return [{ reference: right, operator, value: left.value }];
      return [left, right].flatMap((side) => (side.kind === 'reference' ? [] : comparisonsOf(side)));
    }
  }
}

/** Each value of each reference with those of the others, as far as ruleSamplesMax reaches. */
function combinationsOf(comparisons: readonly Comparison[]): readonly Values[] {
  let combinations: readonly Values[] = [new Map()];
  const references = new Map(comparisons.map(({ reference }) => [reference.text, reference]));
  for (const reference of references.values()) {
    const all = valuesOf(reference, comparisons);
    if (all.length === 0) continue;
    const some = all.slice(0, Math.floor(limits.ruleSamplesMax / combinations.length));
    combinations = combinations.flatMap((values) => some.map((value) => withValue(values, reference, value)));
  }
  return combinations;
}

const withValue = (values: Values, reference: Reference, value: Value): Values =>
  new Map([...values, [reference.text, { reference, value }]]);

/** The first literal, another value, the other literals. */
function valuesOf(reference: Reference, comparisons: readonly Comparison[]): readonly Value[] {
  const literals = literalsOf(reference, comparisons);
  const others = othersOf(reference, comparisons);
  const values = [...literals.slice(0, 1), ...others, ...literals.slice(1)];
  return [...new Set(values)].filter((value) => isPossible(reference, value));
}

const literalsOf = (reference: Reference, comparisons: readonly Comparison[]): readonly Value[] =>
  comparisons.filter((one) => one.reference.text === reference.text).map(({ value }) => value);

/** Values of the kind of the first literal that the rule does not name. Empty when a reply cannot have
 *  one. */
function othersOf(reference: Reference, comparisons: readonly Comparison[]): readonly Value[] {
  const literals = literalsOf(reference, comparisons);
  const [first = null] = literals;
  const isOrdered = comparisons.some(
    ({ reference: { text }, operator }) => text === reference.text && /^[<>]/.test(operator ?? ''),
  );
  const choices =
    typeof first === 'boolean'
      ? [!first]
      : typeof first !== 'number'
        ? ['other', 'another']
        : isOrdered
          ? [first - 1, first + 1]
          : // One more than there are literals: one of them is not a literal.
            Array.from({ length: literals.length + 1 }, (_, n) => n);
  const free = choices.filter((choice) => !literals.includes(choice) && isPossible(reference, choice));
  return isOrdered ? free : free.slice(0, 1);
}

function isPossible({ from }: Reference, value: Value): boolean {
  if (from === 'reply' || from === 'header') return true;
  const [min, max] = from === 'status' ? [100, 599] : [1, limits.attemptsMax];
  return Number.isInteger(value) && Number(value) >= min && Number(value) <= max;
}

function sampleOf(values: Values): RuleSample {
  let [status, attempt] = [200, 1];
  const headers = new Map<string, string>();
  // Without prototypes: __proto__ is a member like others.
  const body: Record<string, unknown> = Object.create(null);
  const names: string[] = [];
  for (const { reference, value } of values.values()) {
    const [header = ''] = reference.path;
    switch (reference.from) {
      case 'status':
        status = Number(value);
        names.push(`status ${status}`);
        break;
      case 'attempt':
        attempt = Number(value);
        names.push(`attempt ${attempt}`);
        break;
      case 'header':
        headers.set(header, String(value));
        names.push(`${header}: ${value}`);
        break;
      case 'reply':
        setMember(body, reference.path, value);
    }
  }
  const text = JSON.stringify(body);
  if (text !== '{}') names.push(text);
  return { name: names.join(', '), status, attempt, headers, text };
}

function setMember(body: Record<string, unknown>, path: readonly string[], value: Value): void {
  let inner = body;
  for (const step of path.slice(0, -1)) {
    const next = inner[step];
    const object = typeof next === 'object' && next !== null ? next : Object.create(null);
    inner[step] = object;
    inner = object as Record<string, unknown>;
  }
  inner[path.at(-1) ?? ''] = value;
}

const viewOf = ({ headers, ...sample }: RuleSample) => ({
  ...sample,
  header: (name: string) => headers.get(name) ?? null,
});

const resultNames = /(?:code|errno|status|ret|result|rc|err|errors?)$/i;
const successNames = /^(?:is_?)?(?:ok|success|succeeded|successful|done|result)$/i;

/** 0 is the success of a result code, and the failure of a member such as `success`. */
function isUsualSuccess({ from, path }: Reference, value: Value): boolean {
  if (from !== 'reply') return false;
  const name = path.at(-1) ?? '';
  const text = String(value).toLowerCase();
  if (['200', 'ok', 'success', 'succeeded'].includes(text)) return true;
  return text === '0' ? resultNames.test(name) : /^(?:true|1)$/.test(text) && successNames.test(name);
}

/** `!==` where the literal is 0: to `!=` a missing member is 0. */
function invertedText({ reference: { text }, operator, value }: Comparison): string {
  if (operator === null) return `!${text}`;
  const isStrict = value === 0 || operator.length === 3;
  return `${text}${isStrict ? '!==' : '!='}${typeof value === 'string' ? `'${value}'` : value}`;
}
