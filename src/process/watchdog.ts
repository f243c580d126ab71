// Kills this process when its main loop is stuck: its leases would expire and its connections hang, and
// from outside a stuck process looks like a busy one. A thread checks; it counts its own ticks and not the
// clock, so that a pause of the whole process (SIGSTOP, a suspended machine) is not a stall.
// A thread costs 30 ms of a core and 8 MB, so it starts when the start of the daemon is over.

import { Worker } from 'node:worker_threads';
import { processLimits } from './limits.ts';
import type { RoleName } from './messages.ts';

/** Seconds without a beat of the main loop after which a process of this role is stuck. */
export function watchdogTicksOf(role: RoleName): number {
  return role === 'store' ? processLimits.watchdogStoreTicks : processLimits.watchdogTicks;
}

/** Runs in the thread. It is text, because the bundle has no second file, and its own entry would load
 *  everything again. */
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
      writeSync(2, workerData.title + ': watchdog: the main loop stood still for ' + still + ' s; process killed\\n');
    } catch {}
    process.kill(process.pid, 'SIGKILL');
  }
}`;

/** Returns the beat: `ticks` seconds without a call of it kill the process. `onLost`: receives the error
 *  that ended the watchdog. */
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
