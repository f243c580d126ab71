// Writes the last line of a process directly to stderr, because process.exit discards lines that the logs
// still hold.

import { writeSync } from 'node:fs';
import { printable } from '../runtime/printable-text.ts';

/** Written when it returns, or dropped: a full or closed pipe must not keep a dying process alive. */
export function fatalLine(text: string): void {
  try {
    writeSync(2, `${printable(text)}\n`);
  } catch {
    // There is no other place for the message.
  }
}
