// Prints which functions and lines of the parts under test no simulated world reached: from the counts of V8
// (NODE_V8_COVERAGE) and the source map of the bundle. A line counts as reached when any code of it ran.

import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type LuaLines, root } from './bundle.ts';

/** What the worlds are to reach. */
const parts = [
  'src/store/sqlite/engine/',
  'src/store/sqlite/owner/',
  'src/store/sqlite/client/',
  'src/store/redis/',
  'src/timer/',
  'src/notifier/',
  'src/use-cases/',
  'src/upkeep/',
  'src/master/',
];

interface Range {
  readonly startOffset: number;
  readonly endOffset: number;
  readonly count: number;
}
interface ScriptCoverage {
  readonly url: string;
  readonly functions: readonly { readonly functionName: string; readonly ranges: readonly Range[] }[];
}
interface SourceMap {
  readonly sources: readonly string[];
  readonly mappings: string;
}

/** A place of the bundle and the line that it comes from. */
interface Mapping {
  readonly offset: number;
  readonly source: string;
  readonly line: number;
}

/** `directory`: of NODE_V8_COVERAGE, with what each process of the worlds wrote; `lua`: lines with a note. */
export function reportUnreached(directory: string, bundle: string, lua: LuaLines): void {
  const scripts = scriptsOf(directory, bundle);
  const text = readFileSync(bundle, 'utf8');
  const map = JSON.parse(readFileSync(`${bundle}.map`, 'utf8')) as SourceMap;
  const mappings = readMappings(map, text).map((mapping) => ({
    ...mapping,
    source: relative(root, resolve(dirname(bundle), mapping.source)),
  }));
  const counts = scripts.map((script) => countsOf(script, text.length));
  const files = new Map<string, Map<number, boolean>>();
  for (const { offset, source, line } of mappings) {
    if (!parts.some((part) => source.startsWith(part))) continue;
    const lines = files.get(source) ?? new Map<number, boolean>();
    files.set(source, lines);
    lines.set(line, lines.get(line) === true || counts.some((each) => each[offset] === 1));
  }
  addLua(files, directory, lua);
  const unreached = functionsWithoutCalls(scripts, mappings);
  let [all, reached] = [0, 0];
  for (const source of [...files.keys()].sort()) {
    const lines = files.get(source) as Map<number, boolean>;
    const missing = [...lines]
      .flatMap(([line, isReached]) => (isReached ? [] : [line]))
      .sort((a, b) => a - b);
    all += lines.size;
    reached += lines.size - missing.length;
    if (missing.length === 0) continue;
    const share = Math.round((100 * (lines.size - missing.length)) / lines.size);
    const names = unreached.get(source) ?? [];
    const functions = names.length === 0 ? '' : `; functions ${names.join(', ')}`;
    console.log(`${source}: ${share} % of the lines; not reached: ${spansOf(missing)}${functions}`);
  }
  const absent = parts.flatMap((part) => sourcesUnder(part)).filter((source) => !files.has(source));
  if (absent.length > 0) console.log(`not part of the worlds: ${absent.join(', ')}`);
  console.log(`coverage: ${reached} of ${all} lines in ${files.size} files`);
}

function sourcesUnder(part: string): readonly string[] {
  const names = readdirSync(join(root, part), { recursive: true, encoding: 'utf8' });
  return names.flatMap((name) => (name.endsWith('.ts') ? [join(part, name)] : [])).sort();
}

/** Of all processes that ran worlds. */
function scriptsOf(directory: string, bundle: string): readonly ScriptCoverage[] {
  const url = pathToFileURL(bundle).href;
  const names = readdirSync(directory).filter((name) => name.startsWith('coverage-'));
  const found = names.flatMap((name) => {
    const { result } = JSON.parse(readFileSync(join(directory, name), 'utf8')) as {
      result: ScriptCoverage[];
    };
    return result.filter((each) => each.url === url);
  });
  if (found.length === 0) throw new Error(`V8 wrote no counts of ${bundle}`);
  return found;
}

function addLua(files: Map<string, Map<number, boolean>>, directory: string, lua: LuaLines): void {
  const names = readdirSync(directory).filter((name) => name.startsWith('lua-'));
  // Worlds on SQLite run no script.
  if (names.length === 0) return;
  const reached = new Set(
    names.flatMap((name) => JSON.parse(readFileSync(join(directory, name), 'utf8')) as string[]),
  );
  for (const [file, lines] of lua)
    files.set(file, new Map(lines.map((line) => [line, reached.has(`${file}:${line}`)])));
}

/** 1 for each character of the bundle that ran. A range within another one has the say. */
function countsOf({ functions }: ScriptCoverage, length: number): Uint8Array {
  const counts = new Uint8Array(length).fill(1);
  const ranges = functions.flatMap((each) => each.ranges);
  const sorted = [...ranges].sort((a, b) => a.startOffset - b.startOffset || b.endOffset - a.endOffset);
  for (const { startOffset, endOffset, count } of sorted)
    counts.fill(count === 0 ? 0 : 1, startOffset, endOffset);
  return counts;
}

function functionsWithoutCalls(
  scripts: readonly ScriptCoverage[],
  mappings: readonly Mapping[],
): ReadonlyMap<string, readonly string[]> {
  const placeOf = ({ startOffset, endOffset }: Range) => `${startOffset} ${endOffset}`;
  const called = new Set<string>();
  const all = new Map<string, readonly [name: string, whole: Range]>();
  for (const { functionName, ranges } of scripts.flatMap(({ functions }) => functions)) {
    const [whole] = ranges;
    if (functionName === '' || whole === undefined) continue;
    if (whole.count > 0) called.add(placeOf(whole));
    all.set(placeOf(whole), [functionName, whole]);
  }
  const found = new Map<string, string[]>();
  for (const [place, [name, whole]] of all) {
    if (called.has(place)) continue;
    const mapping = mappings.find(({ offset }) => offset >= whole.startOffset && offset < whole.endOffset);
    if (mapping === undefined) continue;
    found.set(mapping.source, [...(found.get(mapping.source) ?? []), name]);
  }
  return found;
}

/** `3, 7-9` */
function spansOf(lines: readonly number[]): string {
  const spans: [number, number][] = [];
  for (const line of lines) {
    const last = spans.at(-1);
    if (last !== undefined && line === last[1] + 1) last[1] = line;
    else spans.push([line, line]);
  }
  return spans.map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`)).join(', ');
}

const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

/** Variable-length numbers in base 64, each as the difference to the last one of its kind. */
function readMappings({ sources, mappings }: SourceMap, text: string): readonly Mapping[] {
  const found: Mapping[] = [];
  let lineStart = 0;
  let [source, line] = [0, 0];
  for (const group of mappings.split(';')) {
    let column = 0;
    for (const segment of group.split(',')) {
      const [toColumn, toSource, toLine] = numbersOf(segment);
      if (toColumn === undefined) continue;
      column += toColumn;
      if (toSource === undefined || toLine === undefined) continue;
      source += toSource;
      line += toLine;
      found.push({ offset: lineStart + column, source: sources[source] ?? '', line: line + 1 });
    }
    lineStart = text.indexOf('\n', lineStart) + 1;
  }
  return found;
}

function numbersOf(segment: string): readonly number[] {
  const numbers: number[] = [];
  let [value, shift] = [0, 0];
  for (const char of segment) {
    const digit = digits.indexOf(char);
    value += (digit & 31) << shift;
    shift += 5;
    if ((digit & 32) !== 0) continue;
    numbers.push(value & 1 ? -(value >> 1) : value >> 1);
    [value, shift] = [0, 0];
  }
  return numbers;
}
