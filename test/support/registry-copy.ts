// Reads the last whole state of a registry copy, without its topics.

import { readFileSync } from 'node:fs';

// biome-ignore lint/suspicious/noExplicitAny: tests assert its content
export function copyState(path: string): any {
  const lines = readFileSync(path, 'utf8').split('\n');
  const closing = lines.findLast((line) => line.startsWith('{"revision":'));
  if (closing === undefined) throw new Error(`${path} holds no whole state`);
  return JSON.parse(closing);
}
