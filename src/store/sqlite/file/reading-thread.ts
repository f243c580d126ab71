// Runs SQL statements on SQLite files in a thread, so that the event loop of the owner goes on. The files
// must not change meanwhile, or follow SQLite's own locking (WAL).
// Invariant: a running statement does not delay the end of this process. process.exit() waits for threads,
// and only SQLite ends a statement: a copy of some GB would block the dq-store of a reload and its successor.

import { createRequire } from 'node:module';
import { Worker } from 'node:worker_threads';
import { fatalLine } from '../../../telemetry/log.ts';

export interface Reading {
  /** as a SQLite URI: file:… */
  readonly url: string;
  readonly sql: string;
}

/** Runs in the thread; as text, because a bundle has no second file. */
const code = `
const { parentPort, workerData } = require('node:worker_threads');
const { DatabaseSync } = require(workerData.library);
for (const { url, sql } of workerData.readings) {
  try {
    const db = new DatabaseSync(url, { readOnly: true });
    parentPort.postMessage({ rows: db.prepare(sql).all().map((row) => ({ ...row })) });
    db.close();
  } catch (error) {
    // An error that crosses threads loses its code.
    parentPort.postMessage({ failure: { message: error.message, code: error.code } });
    break;
  }
}`;

/** The thread's message per reading. */
type ThreadMessage =
  | { readonly rows: unknown[] }
  | { readonly failure: { readonly message: string; readonly code?: string } };

/** Threads that have not ended. */
const threads = new Set<Worker>();

/** Writes are done by now: files are closed, or the next owner repairs them. */
function killWithThreads(): void {
  if (threads.size === 0) return;
  fatalLine(`${process.title}: backup or fsck still running; ending by SIGKILL`);
  process.kill(process.pid, 'SIGKILL');
}

const library = createRequire(import.meta.url).resolve('@photostructure/sqlite');

/** Runs the statements in order; returns the rows of each. Rejects with SQLite's error (see sqliteCode) or
 *  the abort reason; after an abort the thread ends when its statement does. */
export function readInThread(
  readings: readonly Reading[],
  signal: AbortSignal,
): Promise<readonly unknown[][]> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const results: unknown[][] = [];
    const thread = new Worker(code, {
      eval: true,
      workerData: { library, readings },
      env: {},
      execArgv: [],
    });
    if (threads.size === 0) process.once('exit', killWithThreads);
    threads.add(thread);
    const abort = () => {
      reject(signal.reason);
      void thread.terminate();
    };
    signal.addEventListener('abort', abort, { once: true });
    thread.on('message', (message: ThreadMessage) => {
      if ('rows' in message) results.push(message.rows);
      else reject(Object.assign(new Error(message.failure.message), message.failure));
    });
    thread.on('error', reject);
    // No effect after an error or an abort.
    thread.on('exit', () => {
      threads.delete(thread);
      if (threads.size === 0) process.off('exit', killWithThreads);
      signal.removeEventListener('abort', abort);
      if (results.length === readings.length) resolve(results);
      else reject(new Error('the reading thread ended early'));
    });
  });
}
