// What the service manager that started this daemon (systemd, Type=notify) hears of it: ready, reloading, stopping, and a
// sentence for `systemctl status`. Node cannot send to a Unix datagram socket, so the tool that comes with systemd does.
// Invariants: in the order of what happened; dq waits for none of it and fails for none of it; nothing follows STOPPING.
// Not with --no-block: systemd tells by the sender's process whose message it is, and one that has exited before the message
// was read may belong to nobody (systemd-notify(1); a lost READY is a failed start). Without it the tool stays until it was
// read, which costs only the tool's time; and systemd before 246 does not know the option.

import { type ChildProcess, spawn } from 'node:child_process';
import type { Log } from '../../telemetry/log.ts';
import { masterLimits } from '../limits.ts';

export class ServiceManager {
  readonly #socket: string | undefined;
  readonly #log: Log;
  #last: Promise<void> = Promise.resolve();
  #stopping = false;
  #failed = false;

  /** `socket`: $NOTIFY_SOCKET; without one nobody is told. */
  constructor(socket: string | undefined, log: Log) {
    this.#socket = socket;
    this.#log = log;
  }

  ready(status: string): void {
    this.#tell('READY=1', `STATUS=${oneLine(status)}`);
  }

  reloading(): void {
    // systemd compares it with its own clock, to tell this reload from an earlier one.
    const now = process.hrtime.bigint() / 1_000n;
    this.#tell('RELOADING=1', `MONOTONIC_USEC=${now}`, 'STATUS=reloading');
  }

  stopping(): void {
    this.#tell('STOPPING=1', 'STATUS=stopping');
    this.#stopping = true;
  }

  #tell(...words: readonly string[]): void {
    const socket = this.#socket;
    if (socket === undefined || this.#stopping) return;
    this.#last = this.#last.then(() => this.#send(socket, words));
  }

  /** Never rejects. */
  #send(socket: string, words: readonly string[]): Promise<void> {
    return new Promise((resolve) => {
      const child = this.#spawn(socket, words);
      if (child === null) {
        resolve();
        return;
      }
      // It must not keep a master that has ended everything else.
      child.unref();
      child.once('error', (error) => {
        this.#fail(error);
        resolve();
      });
      child.once('exit', (code, signal) => {
        if (code !== 0) this.#fail(new Error(`systemd-notify ended with ${code ?? signal}`));
        resolve();
      });
    });
  }

  /** null = no process could be made: spawn() throws for want of memory, and tells other reasons by an event. */
  #spawn(socket: string, words: readonly string[]): ChildProcess | null {
    try {
      return spawn('systemd-notify', words, {
        stdio: 'ignore',
        env: { ...process.env, NOTIFY_SOCKET: socket },
        timeout: masterLimits.serviceManagerMs,
        killSignal: 'SIGKILL',
      });
    } catch (error) {
      this.#fail(error);
      return null;
    }
  }

  #fail(error: unknown): void {
    if (!this.#failed) this.#log.error('the service manager cannot be told how dq is', error);
    this.#failed = true;
  }
}

/** Short, too: what is wrong with a configuration can be longer than Linux lets an argument be; `dq reload` says it whole. */
function oneLine(text: string): string {
  return text.slice(0, masterLimits.serviceStatusMax).replaceAll(/[\u0000-\u001f]+/g, ' ');
}
