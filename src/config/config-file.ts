// Finds dq.yaml and reads every value with its line and column; parse.ts checks the values. Groups may be
// nested or written with dots. The same option twice is a problem in every spelling. `dq apply` reads its
// file with the same parser.

import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  LineCounter,
  type Node,
  type Pair,
  parseDocument,
  visit,
} from 'yaml';
import { messageOf } from '../core/errors.ts';
import { options } from './options.ts';
import type { ConfigProblem, Given } from './parse.ts';

/** Characters. A longer file is not a configuration file. */
const configFileCharsMax = 1024 * 1024;

interface FoundFile {
  /** absolute */
  readonly path: string;
  /** the path in messages, as the user gave it */
  readonly label: string;
  readonly text: string;
}

/** A file named by -c or $DQ_CONFIG must exist; else the first existing usual file is read. */
export function findConfigFile(
  named: string | undefined,
  cwd: string,
  usual: readonly string[],
): { readonly file: FoundFile | null; readonly problem: ConfigProblem | null } {
  for (const label of named === undefined ? usual : [named]) {
    const path = resolve(cwd, label);
    try {
      const text = readFileSync(path, 'utf8');
      if (text.length > configFileCharsMax)
        return {
          file: null,
          problem: { where: label, message: 'is larger than 1 MiB; name a configuration file' },
        };
      return { file: { path, label, text }, problem: null };
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (named === undefined && (code === 'ENOENT' || code === 'ENOTDIR')) continue;
      return { file: null, problem: { where: label, message: `cannot read the file: ${messageOf(error)}` } };
    }
  }
  return { file: null, problem: null };
}

export function readConfigFile(file: FoundFile): {
  readonly given: Given[];
  readonly problems: ConfigProblem[];
} {
  const { document, whereOf, problems: unreadable } = parseYaml(file.text, file.label);
  const problems = [...unreadable];
  const given: Given[] = [];
  const base = dirname(file.path);
  if (problems.length > 0) return { given, problems };

  const walk = (node: Node | null, path: string, offset: number) => {
    if (isMap(node) && !Object.hasOwn(options, path)) {
      for (const { key, value } of node.items as Pair<Node | null, Node | null>[]) {
        const name = String(isScalar(key) ? key.value : key);
        walk(value, path === '' ? name : `${path}.${name}`, key?.range?.[0] ?? offset);
      }
      return;
    }
    // An alias could name its own ancestor, or expand a small file without bound.
    if (isAlias(node)) {
      problems.push({
        where: whereOf(offset),
        message: `${path}: aliases are not supported; write the value here`,
      });
      return;
    }
    const raw: unknown = node === null ? null : node.toJS(document);
    // An empty group has no effect.
    if (raw === null && isGroup(path)) return;
    given.push({ name: path, raw, source: 'file', where: whereOf(offset), base });
  };
  const root = document.contents as Node | null;
  if (isMap(root)) walk(root, '', 0);
  else if (root !== null && !(isScalar(root) && root.value === null))
    problems.push({ where: whereOf(0), message: 'must be a list of "option: value" lines' });
  return { given, problems };
}

/** `server` of `server.port` */
export function isGroup(path: string): boolean {
  return Object.keys(options).some((name) => name.startsWith(`${path}.`));
}

export interface YamlText {
  readonly document: Document;
  /** `dq.yaml:3:5`, of an offset in the text */
  whereOf(offset: number): string;
  /** mistakes of the syntax, and values that the document would change; empty: it is complete */
  readonly problems: readonly ConfigProblem[];
}

/** `label`: of the file, in messages */
export function parseYaml(text: string, label: string): YamlText {
  const lines = new LineCounter();
  // Tags of types that JSON lacks become warnings.
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, resolveKnownTags: false });
  const whereOf = (offset: number) => {
    const { line, col } = lines.linePos(offset);
    return `${label}:${line}:${col}`;
  };
  const problems = [...document.errors, ...document.warnings].map(({ pos, message }) => ({
    where: whereOf(pos[0]),
    message: message.split('\n')[0] ?? message,
  }));
  // In version 1.1 the word yes is true.
  if (document.directives?.yaml.explicit && document.directives.yaml.version !== '1.2')
    problems.push({ where: whereOf(0), message: 'must be YAML 1.2; leave the line %YAML out' });
  visit(document, {
    Scalar: (_key, { value, source, range }) => {
      if (typeof value !== 'number' || Math.abs(value) <= Number.MAX_SAFE_INTEGER) return;
      const kept = JSON.stringify(value);
      if (kept === source) return;
      const message = `${source}: would be kept as ${kept}; write it in quotes`;
      problems.push({ where: whereOf(range?.[0] ?? 0), message });
    },
  });
  return { document, whereOf, problems };
}
