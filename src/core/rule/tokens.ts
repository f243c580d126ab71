// Splits the source of a retry rule into tokens. A message names the replacement of PHP syntax that dq
// lacks, because users bring rules from PHP. Bounded by limits.ruleCharsMax.

import { limits } from '../limits.ts';

/** A reference to a value of the reply's JSON, or of the call itself. */
export interface Reference {
  readonly kind: 'reference';
  readonly from: 'reply' | 'status' | 'attempt' | 'header';
  /** steps into the reply, or the name of a header */
  readonly path: readonly string[];
  /** as written, blanks removed: `{res.data.status}` */
  readonly text: string;
}

export interface Literal {
  readonly kind: 'literal';
  readonly value: null | boolean | number | string;
}

/** `end` follows the last one. `at`: UTF-16 units from 0. */
export type Token = { readonly at: number; readonly source: string } & (
  | { readonly kind: 'operand'; readonly operand: Reference | Literal }
  | { readonly kind: 'sign' }
  | { readonly kind: 'end' }
);

/** A mistake in a rule and its place. Only the parser throws it; parseRule returns it as a value. */
export class RuleMistake extends Error {
  readonly at: number;
  constructor(message: string, at: number) {
    super(message);
    this.at = at;
  }
}

const blanks = /[ \t\n\r\v\f]*/y;
const sign = /===|!==|<=>|==|!=|<>|<=|>=|&&|\|\||[<>!()]/y;
const number = /[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?/y;
const word = /[\p{L}\p{N}\p{M}_$][\p{L}\p{N}\p{M}_$.]*/uy;
const braces = /\{([^{}]*)\}/y;
const quoted = /'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"/sy;
const edgeBlanks = /^[ \t\n\r\v\f]+|[ \t\n\r\v\f]+$/g;
/** field-name of RFC 9110 */
const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

const words: Readonly<Record<string, null | boolean>> = { true: true, false: false, null: null };
const replacements: Readonly<Record<string, string>> = {
  '<>': '"<>" is not available; write "!="',
  '<=>': '"<=>" is not available; write "<", "==" or ">"',
  '=': 'a single "=" is not a comparison; write "=="',
  '&': 'a single "&" is not available; write "&&"',
  '|': 'a single "|" is not available; write "||"',
  and: '"and" is not available; write "&&"',
  or: '"or" is not available; write "||"',
  xor: '"xor" is not available; write "!=" between two conditions in parentheses',
  not: '"not" is not available; write "!"',
};

function take(pattern: RegExp, source: string, at: number): string | null {
  pattern.lastIndex = at;
  return pattern.exec(source)?.[0] ?? null;
}

/** Throws RuleMistake. */
export function readTokens(source: string): readonly Token[] {
  const tokens: Token[] = [];
  for (let at = skipBlanks(source, 0); at < source.length; ) {
    const token = readToken(source, at);
    tokens.push(token);
    at = skipBlanks(source, at + token.source.length);
  }
  tokens.push({ kind: 'end', at: source.length, source: '' });
  return tokens;
}

function skipBlanks(source: string, at: number): number {
  return at + (take(blanks, source, at)?.length ?? 0);
}

function readToken(source: string, at: number): Token {
  const first = source[at] ?? '';
  if (first === '{') return readReference(source, at);
  if (first === "'" || first === '"') return readText(source, at);
  const digits = take(number, source, at);
  if (digits !== null) return readNumber(source, at, digits);
  const name = take(word, source, at);
  if (name !== null) return readWord(name, at);
  const found = take(sign, source, at);
  const mistake = replacements[found ?? first];
  if (mistake !== undefined) throw new RuleMistake(mistake, at);
  if (found === null) throw new RuleMistake(unknownCharacter(source, at), at);
  return { kind: 'sign', source: found, at };
}

function unknownCharacter(source: string, at: number): string {
  const character = String.fromCodePoint(source.codePointAt(at) ?? 0);
  if (/[+\-*/%]/.test(character))
    return 'arithmetic is not available; write a sign directly before its number';
  if (/[“”‘’「」＂＇]/.test(character)) return 'write text in straight quotes: \'…\' or "…"';
  const code = character.codePointAt(0) ?? 0;
  return `the character ${JSON.stringify(character)} (U+${code.toString(16).toUpperCase().padStart(4, '0')}) is not part of a rule; write text in quotes`;
}

function readWord(name: string, at: number): Token {
  const lower = name.toLowerCase();
  if (Object.hasOwn(words, lower))
    return {
      kind: 'operand',
      operand: { kind: 'literal', value: words[lower] ?? null },
      source: name,
      at,
    };
  if (Object.hasOwn(replacements, lower)) throw new RuleMistake(replacements[lower] ?? '', at);
  if (/^(?:res|header)\.|^(?:status|attempt)$/.test(lower))
    throw new RuleMistake(`a reference needs braces; write {${name}}`, at);
  const member = name.replace(/^(?:json|body|reply|resp|response)\./i, '');
  throw new RuleMistake(
    `unknown word ${JSON.stringify(name)}; write {res.${member}} for a member of the reply, and text in quotes`,
    at,
  );
}

function readNumber(source: string, at: number, digits: string): Token {
  const rest = take(/[\p{L}\p{N}\p{M}_$.]+/uy, source, at + digits.length) ?? '';
  const unsigned = digits.replace(/^[+-]/, '');
  if (unsigned === '0' && /^[xob]/i.test(rest)) {
    const value = Number(unsigned + rest);
    const decimal = Number.isNaN(value) ? 'it in decimal' : value;
    throw new RuleMistake(`hexadecimal, octal and binary numbers are not available; write ${decimal}`, at);
  }
  if (rest.startsWith('_')) throw new RuleMistake('a number cannot contain "_"; write the digits alone', at);
  if (rest !== '')
    throw new RuleMistake(`invalid number ${JSON.stringify(digits + rest)}; write text in quotes`, at);
  if (/^0\d/.test(unsigned))
    throw new RuleMistake(
      `a number cannot have leading zeros; write ${unsigned.replace(/^0+(?=\d)/, '')}, or text in quotes`,
      at,
    );
  const value = Number(digits);
  // In PHP -0 is the integer 0; only -0.0 is a negative zero.
  const whole = /^[+-]?\d+$/.test(digits);
  return {
    kind: 'operand',
    operand: { kind: 'literal', value: whole && value === 0 ? 0 : value },
    source: digits,
    at,
  };
}

function readText(source: string, at: number): Token {
  const found = take(quoted, source, at);
  if (found === null) throw new RuleMistake(`the text that starts here has no closing ${source[at]}`, at);
  const inner = found.slice(1, -1);
  const value =
    found[0] === "'"
      ? // As in PHP, any other backslash is literal.
        inner.replace(/\\(['\\])/g, '$1')
      : inner.replace(/\\(u\{[^}]*\}?|.)/gsu, (_, name: string, offset: number) =>
          escapedCharacter(name, at + 1 + offset),
        );
  return { kind: 'operand', operand: { kind: 'literal', value }, source: found, at };
}

/** `name`: the text after the backslash. */
function escapedCharacter(name: string, at: number): string {
  switch (name) {
    case '"':
    case '\\':
      return name;
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
  }
  const code = /^u\{([0-9A-Fa-f]+)\}$/.exec(name)?.[1];
  const point = code === undefined ? Number.NaN : Number.parseInt(code, 16);
  if (point <= 0x10ffff && !(point >= 0xd800 && point <= 0xdfff)) return String.fromCodePoint(point);
  if (name.startsWith('u'))
    throw new RuleMistake('write a character as \\u{…} with the hexadecimal digits of its code point', at);
  throw new RuleMistake('unknown escape; write \\" \\\\ \\n \\r \\t or \\u{…}, and \\\\ for a backslash', at);
}

function readReference(source: string, at: number): Token {
  const found = take(braces, source, at);
  if (found === null) throw new RuleMistake('the reference that starts here has no closing }', at);
  const inner = found.slice(1, -1).replace(edgeBlanks, '');
  return {
    kind: 'operand',
    operand: { kind: 'reference', text: `{${inner}}`, ...referTo(inner, at) },
    source: found,
    at,
  };
}

function referTo(inner: string, at: number): Pick<Reference, 'from' | 'path'> {
  if (inner === 'status' || inner === 'attempt') return { from: inner, path: [] };
  const [head = '', ...steps] = inner.split('.');
  if (head === 'res') return { from: 'reply', path: checkPath(steps, at) };
  if (head === 'header') {
    const name = inner.slice('header.'.length);
    if (headerName.test(name)) return { from: 'header', path: [name.toLowerCase()] };
    throw new RuleMistake('name a header of the reply; write {header.content-type}', at);
  }
  throw new RuleMistake(`unknown reference {${inner}}; write {res.…}, {status}, {attempt} or {header.…}`, at);
}

function checkPath(steps: readonly string[], at: number): readonly string[] {
  if (steps.length === 0) throw new RuleMistake('{res} needs a member; write {res.code}', at);
  if (steps.includes('')) throw new RuleMistake('a step of the path is empty; write {res.a.b}', at);
  if (steps.length > limits.rulePathStepsMax)
    throw new RuleMistake(`a path has at most ${limits.rulePathStepsMax} steps`, at);
  return steps;
}
