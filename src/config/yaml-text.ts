// Parses a text in YAML, and names the line and column of each part of it.

import { type Document, LineCounter, parseDocument, visit } from 'yaml';
import type { ConfigProblem } from './given.ts';

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
