// The last words of a process: straight to stderr, before process.exit takes what the logs still hold.

import { writeSync } from 'node:fs';
import { withoutControls } from './log-line.ts';

/** Written when it returns, or not at all: a pipe that is full or gone must not keep a dying process alive. */
export function fatalLine(text: string): void {
  try {
    writeSync(2, `${withoutControls(text)}\n`);
  } catch {
    // Nobody is left to be told.
  }
}
