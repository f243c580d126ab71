// Ends this process when its main loop stands still: its leases would run out unseen, its connections hang, and nobody else
// can tell a stuck process from a busy one. A thread of its own looks; it counts its own ticks and not the clock, so that a
// pause of the whole process (SIGSTOP, a suspended machine) is no stall.
// Measured: a thread costs 30 ms of a core and 8 MB, so it is started when the start of the daemon is over.

import { Worker } from 'node:worker_threads';
import { processLimits } from './limits.ts';
import type { RoleName } from './messages.ts';

/** Seconds without the main loop after which a process of this role is stuck. */
export function watchdogTicksOf(role: RoleName): number {
  return role === 'store' ? processLimits.watchdogStoreTicks : processLimits.watchdogTicks;
}

/** Runs in the thread; text, because a bundle has no second file to point at and an entry of its own would be loaded anew. */
const code = `
const { workerData } = require('node:worker_threads');
const { writeSync } = require('node:fs');
const seen = new Int32Array(workerData.beat);
let last = Atomics.load(seen, 0);
let still = 0;
for (;;) {
  Atomics.wait(seen, 1, 0, 1000);
  const now = Atomics.load(seen, 0);
  still = now === last ? still + 1 : 0;
  last = now;
  if (still >= workerData.ticks) {
    try {
      writeSync(2, workerData.title + ': the main loop has stood still for ' + still + ' s; ended by its watchdog\\n');
    } catch {}
    process.kill(process.pid, 'SIGKILL');
  }
}`;

/** Answers the beat that must go on: so many `ticks` (seconds) without one end the process. `onLost`: told that nobody watches
 *  any more. */
export function startWatchdog(title: string, ticks: number, onLost: (error: unknown) => void): () => void {
  const beat = new SharedArrayBuffer(8);
  const cell = new Int32Array(beat);
  const thread = new Worker(code, {
    eval: true,
    workerData: { beat, ticks, title },
    env: {},
    execArgv: [],
  });
  thread.on('error', onLost);
  thread.unref();
  return () => Atomics.add(cell, 0, 1);
}
