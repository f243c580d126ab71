// Parses a text in YAML, and names the line and column of each part of it.

import { type Document, LineCounter, parseDocument } from 'yaml';
import type { ConfigProblem } from './given.ts';

export interface YamlText {
  readonly document: Document;
  /** `dq.yaml:3:5`, of an offset in the text */
  whereOf(offset: number): string;
  /** mistakes of the syntax; empty: the document is complete */
  readonly problems: readonly ConfigProblem[];
}

/** `label`: of the file, in messages */
export function parseYaml(text: string, label: string): YamlText {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const whereOf = (offset: number) => {
    const { line, col } = lines.linePos(offset);
    return `${label}:${line}:${col}`;
  };
  const problems = document.errors.map(({ pos, message }) => ({
    where: whereOf(pos[0]),
    message: message.split('\n')[0] ?? message,
  }));
  return { document, whereOf, problems };
}
