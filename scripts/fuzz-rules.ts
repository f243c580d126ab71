// Evaluates random rules on random replies: `npm run fuzz [-- --rules 100000 --seed 1]`. Parsing returns a
// rule or a mistake with its place, evaluation returns a boolean, and no rule takes longer than hangCpuMs.
// Related rules must agree: a rule and its negation, `==` and `!=`, both sides swapped. A well-formed rule
// must parse.

import { limits } from '../src/core/limits.ts';
import {
  evaluateRule,
  parseRule,
  type ReplyView,
  type Rule,
  ruleValues,
} from '../src/core/rule/reply-rule.ts';
import { words } from '../test/support/words.ts';
import { Dice } from './dice.ts';
import { failUsage, readFlags } from './flags.ts';

/** Processor time of one rule with its reply: thousands of times the slowest rule, so a busy machine stays
 *  below. */
const hangCpuMs = 2_000;

export interface FuzzReport {
  readonly rules: number;
  readonly parsed: number;
  readonly rejected: number;
  readonly retries: number;
  /** each with the source and the reply that reproduce it; at most 20 */
  readonly failures: readonly string[];
}

export function fuzzRules(rules: number, seed: number): FuzzReport {
  const dice = new Dice(seed);
  const replies = fixedReplies();
  const count = { rules, parsed: 0, rejected: 0, retries: 0 };
  const failures: string[] = [];
  for (let i = 0; i < rules && failures.length < 20; i++) {
    const { source, wellFormed } = makeSource(dice);
    const text = dice.chance(0.3) ? dice.pick(replies) : jsonOf(dice, 4);
    const reply: ReplyView = {
      status: dice.pick([200, 204, 404, 500]),
      attempt: 1 + dice.below(10),
      text,
      header: (name) => (name.length % 2 === 0 ? null : name),
    };
    const before = process.cpuUsage();
    try {
      const verdict = check(source, wellFormed, reply);
      if (verdict === 'rejected') count.rejected += 1;
      else {
        count.parsed += 1;
        if (verdict) count.retries += 1;
      }
    } catch (error) {
      failures.push(
        `${String(error)}\n  rule  ${JSON.stringify(source)}\n  reply ${JSON.stringify(text.slice(0, 500))}`,
      );
    }
    const spent = process.cpuUsage(before);
    if ((spent.user + spent.system) / 1000 > hangCpuMs)
      failures.push(`took more than ${hangCpuMs} ms: ${JSON.stringify(source)} on ${text.length} characters`);
  }
  return { ...count, failures };
}

/** Throws on anything but a parse error or a boolean, and on two contradicting answers. */
function check(source: string, wellFormed: boolean, reply: ReplyView): boolean | 'rejected' {
  const parsed = parseRule(source);
  if (!parsed.ok) {
    const end = Math.min([...source].length, limits.ruleCharsMax);
    if (parsed.message === '' || !(parsed.position >= 0 && parsed.position <= end))
      throw new Error(`mistake with an invalid position: ${parsed.position} ${parsed.message}`);
    if (wellFormed && !parsed.message.includes('at most'))
      throw new Error(`well-formed, but rejected: ${parsed.message} at ${parsed.position}`);
    return 'rejected';
  }
  const retry = evaluateRule(parsed.rule, reply);
  if (typeof retry !== 'boolean') throw new Error(`answered ${String(retry)}`);
  JSON.stringify(ruleValues(parsed.rule, reply));
  expectAnswer(`!(${source})`, reply, !retry);
  expectAnswer(`(${source})&&true`, reply, retry);
  checkPairs(parsed.rule, reply);
  return retry;
}

/** The first two references against each other, in both directions. */
function checkPairs(rule: Rule, reply: ReplyView): void {
  const [a, b] = rule.references;
  if (a === undefined || b === undefined) return;
  const loosely = ask(`${a.text}==${b.text}`, reply);
  expectAnswer(`${a.text}!=${b.text}`, reply, !loosely);
  expectAnswer(`${b.text}==${a.text}`, reply, loosely);
  const same = ask(`${a.text}===${b.text}`, reply);
  expectAnswer(`${b.text}===${a.text}`, reply, same);
  expectAnswer(`${a.text}!==${b.text}`, reply, !same);
  if (same && !loosely) throw new Error(`${a.text} and ${b.text} are identical and not equal`);
  expectAnswer(`${b.text}>${a.text}`, reply, ask(`${a.text}<${b.text}`, reply));
  expectAnswer(`${b.text}>=${a.text}`, reply, ask(`${a.text}<=${b.text}`, reply));
}

function ask(source: string, reply: ReplyView): boolean {
  const parsed = parseRule(source);
  if (!parsed.ok) throw new Error(`${source} was rejected: ${parsed.message}`);
  return evaluateRule(parsed.rule, reply);
}

/** Wrapping a rule can exceed a limit; only then may the parser reject it. */
function expectAnswer(source: string, reply: ReplyView, answer: boolean): void {
  const parsed = parseRule(source);
  if (!parsed.ok) {
    if (parsed.message.includes('at most')) return;
    throw new Error(`${source} was rejected: ${parsed.message}`);
  }
  if (evaluateRule(parsed.rule, reply) !== answer) throw new Error(`${source} is not ${answer}`);
}

const operators = ['==', '!=', '===', '!==', '<', '<=', '>', '>='];
const steps = [...words`a b code data 0 1 00 length __proto__ constructor 返回`, 'a b', '-1'];
const literals = [
  ...words`0 -0 1 200 -1.5 .5 1. 1e3 1e999 -1e999 123456789012345678901234567890 true FALSE Null`,
  ...["''", "'0'", "'abc'", "'1e3'", "' 1'", "'it\\'s'", "'返回失败'", "'{res.a}'"],
  ...['"a\\n"', '"\\u{1F600}"', '"$x"', '"\\""', "'INF'", "'1.0E+15x'"],
];
const scraps = [
  ...words`( ) ! && || & | = <> <=> { } ' "`,
  '\\',
  ...words`. , ; + - _ and or xor not res res.a {res} {} {res.} {res..a} {header} {foo}`,
  ...words`0x1A 007 1_000 1e eval(1) $a /* //`,
  ...['\0', '\n', '\u00a0', '\u3000', '\ud800', '😀', '“'],
];

/** `wellFormed`: the parser may reject it only for a limit. */
function makeSource(dice: Dice): { readonly source: string; readonly wellFormed: boolean } {
  switch (dice.below(6)) {
    case 0:
    case 1:
      return { source: condition(dice, 1 + dice.below(5)), wellFormed: true };
    case 2:
      return { source: mutate(dice, condition(dice, 1 + dice.below(3))), wellFormed: false };
    case 3:
      return { source: soup(dice), wellFormed: false };
    case 4:
      return { source: nest(dice), wellFormed: false };
    default:
      return { source: noise(dice), wellFormed: false };
  }
}

function condition(dice: Dice, depth: number): string {
  const blank = () => dice.pick(['', '', ' ', '\t', '\n ']);
  if (depth <= 1) return `${operand(dice)}${blank()}${dice.pick(operators)}${blank()}${operand(dice)}`;
  switch (dice.below(5)) {
    case 0:
      return `!${blank()}(${blank()}${condition(dice, depth - 1)})`;
    case 1:
      return `(${condition(dice, depth - 1)}${blank()})${blank()}${dice.pick(operators)} ${operand(dice)}`;
    case 2:
      return operand(dice);
    default: {
      const sign = dice.pick(['&&', '||']);
      return `${condition(dice, depth - 1)}${blank()}${sign}${blank()}${condition(dice, depth - 1)}`;
    }
  }
}

function operand(dice: Dice): string {
  if (dice.chance(0.4)) return dice.pick(literals);
  if (dice.chance(0.1)) return dice.pick(['{status}', '{ attempt }', '{header.x}', '{header.Content-Type}']);
  const path = Array.from({ length: 1 + dice.below(3) }, () => dice.pick(steps)).join('.');
  return dice.chance(0.2) ? `{ res.${path}\t}` : `{res.${path}}`;
}

function mutate(dice: Dice, source: string): string {
  let text = source;
  for (let i = 1 + dice.below(4); i > 0; i--) {
    const at = dice.below(text.length + 1);
    const removed = dice.below(3);
    const added = dice.pick(['', dice.pick(scraps), dice.pick(literals), text.slice(0, dice.below(8))]);
    text = text.slice(0, at) + added + text.slice(at + removed);
  }
  return text;
}

function soup(dice: Dice): string {
  const words = Array.from({ length: dice.below(60) }, () => {
    const kind = dice.below(4);
    return kind === 0 ? operand(dice) : kind === 1 ? dice.pick(operators) : dice.pick(scraps);
  });
  return words.join(dice.pick(['', ' ']));
}

function nest(dice: Dice): string {
  const depth = dice.below(dice.chance(0.1) ? 20_000 : 80);
  const [open, close] = dice.pick([
    ['(', ')'],
    ['!', ''],
    ['!(', ')'],
    ['(1==', ')'],
    ['{res.a', '}'],
    ['{res.a}==1||', ''],
    ["'", "'"],
  ] as const);
  return open.repeat(depth) + operand(dice) + close.repeat(dice.chance(0.8) ? depth : dice.below(depth + 1));
}

function noise(dice: Dice): string {
  const most = dice.pick([0x80, 0x3000, 0x10000]);
  const units = Array.from({ length: dice.below(120) }, () => dice.below(most));
  return String.fromCharCode(...units) + (dice.chance(0.3) ? dice.pick(literals) : '');
}

function jsonOf(dice: Dice, depth: number): string {
  if (depth === 0 || dice.chance(0.3)) return scalarOf(dice);
  const items = Array.from({ length: dice.below(4) }, () => jsonOf(dice, depth - 1));
  if (dice.chance(0.4)) return `[${items.join(',')}]`;
  return `{${items.map((item) => `${JSON.stringify(dice.pick(steps))}:${item}`).join(',')}}`;
}

const scalarTexts = [
  ...['', '0', '1', ' 1', '1 ', ...words`200 2e2 abc 返回失败 😀`],
  ...['\ue000', ...words`0x1A 1e999 . -0`],
];
const scalars = words`null true false 0 -0 1 200 2.5 1e15 1e999 -1e999 0.00001`;

const scalarOf = (dice: Dice): string =>
  dice.chance(0.5) ? JSON.stringify(dice.pick(scalarTexts)) : dice.pick(scalars);

/** Replies that a random generator seldom makes: deep, long, broken. Each fits into a reply. */
function fixedReplies(): readonly string[] {
  const fill = (n: number, open: string, core: string, close: string) =>
    open.repeat(n) + core + close.repeat(n);
  const both = (a: string, b = a) => `{"a":${a},"b":${b}}`;
  return [
    ...['', ' ', ...words`null 5 "x" [] {} OK {"a":1 {'a':1}`],
    ...['\ufeff{"a":1}', '\0', '<html></html>'],
    both(fill(7_000, '[', '1', ']'), fill(7_000, '[', '"1"', ']')),
    both(fill(4_000, '{"a":', '1', '}')),
    fill(32_000, '[', '', ']'),
    '['.repeat(65_000),
    both(JSON.stringify('9'.repeat(30_000)), JSON.stringify(`+${'0'.repeat(2_000)}${'9'.repeat(28_000)}`)),
    both(
      JSON.stringify(`${' '.repeat(30_000)}x`),
      JSON.stringify(`${'1'.repeat(15_000)}${' '.repeat(15_000)}x`),
    ),
    both(JSON.stringify(`0.${'1'.repeat(30_000)}`), JSON.stringify(`1e${'1'.repeat(30_000)}`)),
    both(`[${Array(12_000).fill('1').join(',')}]`, `[${Array(6_000).fill('"1 "').join(',')}]`),
    both(`${'9'.repeat(30_000)}`),
    '{"__proto__":{"a":1},"constructor":{"prototype":{"a":1}},"a":{"__proto__":[1]}}',
    '{"a":"\\ud800","b":"\\udfff"}',
  ];
}

if (process.argv[1] === import.meta.filename) {
  const usage = 'usage: npm run fuzz -- [--rules N] [--seed N]';
  const { values } = readFlags({ rules: { type: 'string' }, seed: { type: 'string' } }, usage);
  const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 32));
  const rules = Number(values.rules ?? 100_000);
  if (!Number.isSafeInteger(seed) || !(Number.isSafeInteger(rules) && rules > 0)) {
    failUsage('not whole numbers', usage);
  }
  console.log(`seed ${seed}`);
  const report = fuzzRules(rules, seed);
  for (const failure of report.failures) console.error(failure);
  console.log(
    `${report.rules} rules: ${report.parsed} parsed (${report.retries} said retry), ${report.rejected} rejected, ${report.failures.length} failures`,
  );
  if (report.failures.length > 0) process.exit(1);
}
