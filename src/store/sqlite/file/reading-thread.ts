// A thread that reads files of SQLite beside the process that owns them: the owner's loop goes on. Knows statements, not what they
// mean. The files it is given must not change under it, or be opened by SQLite's own rules (WAL).
// Invariant: a statement that runs holds up no end of this process. process.exit() waits for every thread, and nothing but SQLite
// ends a statement: a copy of some GB kept the dq-store of a reload from leaving, and the next one from opening the file.

import { createRequire } from 'node:module';
import { Worker } from 'node:worker_threads';
import { fatalLine } from '../../../telemetry/fatal-line.ts';

export interface Reading {
  /** as SQLite reads it: file:… */
  readonly url: string;
  readonly sql: string;
}

/** Runs in the thread; text, because a bundle has no second file to point at. */
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

/** What it says of each reading. */
type Said =
  | { readonly rows: unknown[] }
  | { readonly failure: { readonly message: string; readonly code?: string } };

/** They read, or have not ended since. */
const threads = new Set<Worker>();

/** What was to be written is written by now: the files are closed, or are repaired by the next owner whatever happens here. */
function endWithThem(): void {
  if (threads.size === 0) return;
  fatalLine(`${process.title}: ends by SIGKILL, because a backup or an examination was under way`);
  process.kill(process.pid, 'SIGKILL');
}

const library = createRequire(import.meta.url).resolve('@photostructure/sqlite');

/** Runs them one after the other; answers the rows of each. Rejects with what SQLite said (sqliteCode reads it), or when it was aborted: then the
 *  thread ends when its statement does, and nobody waits for it. */
export function readBeside(readings: readonly Reading[], signal: AbortSignal): Promise<readonly unknown[][]> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const answers: unknown[][] = [];
    const thread = new Worker(code, {
      eval: true,
      workerData: { library, readings },
      env: {},
      execArgv: [],
    });
    if (threads.size === 0) process.once('exit', endWithThem);
    threads.add(thread);
    const abort = () => {
      reject(signal.reason);
      void thread.terminate();
    };
    signal.addEventListener('abort', abort, { once: true });
    thread.on('message', (said: Said) => {
      if ('rows' in said) answers.push(said.rows);
      else reject(Object.assign(new Error(said.failure.message), said.failure));
    });
    thread.on('error', reject);
    // After an error or an abort this changes nothing.
    thread.on('exit', () => {
      threads.delete(thread);
      if (threads.size === 0) process.off('exit', endWithThem);
      signal.removeEventListener('abort', abort);
      if (answers.length === readings.length) resolve(answers);
      else reject(new Error('the reading thread ended before its work'));
    });
  });
}
