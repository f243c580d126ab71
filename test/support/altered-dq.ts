// Makes a copy of the built dq whose workers first run lines of the test: a worker that crashes or hangs
// needs no switch in dq itself.
import { existsSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { copyDq } from './copied-dq.ts';

export interface AlteredDq {
  /** its bin/dq */
  readonly launcher: string;
  /** The next worker of this title that looks (each does every 20 ms) blocks its event loop for ever; its
   *  successor works. */
  block(title: string): void;
  /** The next worker of this title reports ready and then blocks. */
  blockOnceReady(title: string): void;
  /** A worker of this title has blocked. */
  blocked(title: string): boolean;
  /** From now on every worker of this title dies at its start, of an exception that names the test. */
  breakDown(title: string): void;
  /** The next worker of this title works, after breakDown and hang. */
  mend(title: string): void;
  /** From now on every worker of this title lives and never starts its role. */
  hang(title: string): void;
}

export function alteredDq(): AlteredDq {
  const directory = mkdtempSync(join(tmpdir(), 'dq-altered-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  copyDq(directory);
  const dist = join(directory, 'dist');
  renameSync(join(dist, 'worker.js'), join(dist, 'real-worker.js'));
  writeFileSync(join(dist, 'worker.js'), entry(directory));
  const order = (what: string, title: string) => join(directory, `${what}.${title}`);
  return {
    launcher: join(directory, 'bin/dq'),
    block: (title) => writeFileSync(order('block', title), ''),
    blockOnceReady: (title) => writeFileSync(order('ready', title), ''),
    blocked: (title) => existsSync(order('blocked', title)),
    breakDown: (title) => writeFileSync(order('broken', title), ''),
    mend: (title) => {
      for (const what of ['broken', 'hanging']) rmSync(order(what, title), { force: true });
    },
    hang: (title) => writeFileSync(order('hanging', title), ''),
  };
}

/** The title is an argument of the worker, for `ps`. */
function entry(directory: string): string {
  return `
import { existsSync, renameSync } from 'node:fs';
const path = (what) => ${JSON.stringify(directory)} + '/' + what + '.' + process.argv[2];
if (existsSync(path('broken'))) throw new Error('broken by the test');
if (existsSync(path('hanging'))) await new Promise(() => setInterval(() => {}, 60_000));
const obey = (order) => {
  try {
    renameSync(path(order), path('blocked'));
  } catch {
    return;
  }
  for (;;);
};
setInterval(() => obey('block'), 20).unref();
const send = process.send.bind(process);
process.send = (message, ...rest) => {
  if (message.kind === 'ready') setTimeout(() => obey('ready'), 100);
  return send(message, ...rest);
};
await import('./real-worker.js');
`;
}
