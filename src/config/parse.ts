// A given value, before its check and after it. The readers of the file, the environment and the command line
// return given values and problems; load.ts has each value parsed. Pure: knows the kinds of options, no files
// and no other option. A message names mistake and remedy and never repeats a secret.

import { isAbsolute, resolve } from 'node:path';
import { formatDuration, type Parsed, parseDuration, wrong } from '../core/duration.ts';
import { type Option, standardOutput } from './options.ts';

export interface Given {
  /** dotted name as the user wrote it: `server.port` */
  readonly name: string;
  /** text from flags and environment, a YAML value from the file */
  readonly raw: unknown;
  readonly source: 'flag' | 'environment' | 'file';
  /** `dq.yaml:3:5`, `DQ_SERVER__PORT`, `--port` */
  readonly where: string;
  /** absolute directory for relative paths */
  readonly base: string;
}

export interface ConfigProblem {
  readonly where: string;
  readonly message: string;
}

/** `file:line:col  message`, which editors can open. */
export function formatProblem(problem: ConfigProblem): string {
  return problem.where === 'default' ? problem.message : `${problem.where}  ${problem.message}`;
}

const unitBytes: Readonly<Record<string, number>> = { b: 1, kib: 1024, mib: 1024 ** 2, gib: 1024 ** 3 };

/** `raw`: text from flags and environment, a YAML value from the file; every source may use both forms. */
export function parseValue(option: Option, raw: unknown, base: string): Parsed<unknown> {
  if (raw === null || raw === undefined) return wrong('has no value');
  switch (option.kind) {
    case 'text':
      return parseText(raw);
    case 'path':
      return then(parseText(raw), (text) =>
        right(
          isAbsolute(text) || (option.orStandardOutput && text === standardOutput)
            ? text
            : resolve(base, text),
        ),
      );
    case 'port':
    case 'count':
      return then(parseWhole(raw), (n) => inRange(option, n, String));
    case 'bytes':
      return then(parseBytes(raw), (n) => inRange(option, n, formatBytes));
    case 'duration':
      return then(parseDuration(raw), (n) => inRange(option, n, formatDuration));
    case 'boolean':
      if (raw === true || raw === 'true') return right(true);
      if (raw === false || raw === 'false') return right(false);
      return wrong('must be true or false');
    case 'choice':
      return option.choices?.includes(String(raw))
        ? right(raw)
        : wrong(`must be one of ${(option.choices ?? []).join(', ')}`);
    case 'list':
      return parseList(raw, option.separator);
  }
}

/** 262144 → "256KiB": the shortest text that parses back. */
export function formatBytes(bytes: number): string {
  for (const [unit, size] of [
    ['GiB', 1024 ** 3],
    ['MiB', 1024 ** 2],
    ['KiB', 1024],
  ] as const)
    if (bytes >= size && bytes % size === 0) return `${bytes / size}${unit}`;
  return String(bytes);
}

function parseText(raw: unknown): Parsed<string> {
  if (typeof raw !== 'string') return wrong('must be text');
  if (raw.trim() === '') return wrong('must not be empty');
  if (/[\u0000-\u001f\u007f]/.test(raw)) return wrong('must not contain control characters');
  return right(raw);
}

function parseWhole(raw: unknown): Parsed<number> {
  const text = typeof raw === 'number' ? String(raw) : raw;
  if (typeof text !== 'string' || !/^\d{1,15}$/.test(text)) return wrong('must be a whole number');
  return right(Number(text));
}

function parseBytes(raw: unknown): Parsed<number> {
  const text = typeof raw === 'number' ? String(raw) : raw;
  const match = typeof text === 'string' ? /^(\d{1,12})(?: ?(B|KiB|MiB|GiB))?$/i.exec(text) : null;
  if (match === null) return wrong('must be a number of bytes such as 262144, "256KiB", "16MiB"');
  return right(Number(match[1]) * (unitBytes[(match[2] ?? 'b').toLowerCase()] ?? 1));
}

function parseList(raw: unknown, separator: RegExp | string = ','): Parsed<readonly string[]> {
  const items =
    typeof raw === 'string'
      ? raw
          .split(separator)
          .map((item) => item.trim())
          .filter((item) => item !== '')
      : raw;
  if (!Array.isArray(items)) return wrong('must be a list');
  const bad = items.findIndex((item) => !parseText(item).ok);
  return bad < 0 ? right(Object.freeze(items)) : wrong(`item ${bad + 1} must be text`);
}

function inRange({ min, max }: Option, n: number, format: (n: number) => string): Parsed<number> {
  if ((min === undefined || n >= min) && (max === undefined || n <= max)) return right(n);
  const bounds = [
    min === undefined ? '' : `at least ${format(min)}`,
    max === undefined ? '' : `at most ${format(max)}`,
  ];
  return wrong(`must be ${bounds.filter((bound) => bound !== '').join(' and ')}, not ${format(n)}`);
}

function right<T>(value: T): Parsed<T> {
  return { ok: true, value };
}

function then<T, U>(parsed: Parsed<T>, next: (value: T) => Parsed<U>): Parsed<U> {
  return parsed.ok ? next(parsed.value) : parsed;
}
