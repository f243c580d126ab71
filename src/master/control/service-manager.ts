// Sends sd_notify messages to systemd (Type=notify): READY, RELOADING, STOPPING and a status line.
// Invariants: messages keep their order; dq waits and fails for none of them; none follows STOPPING.
// It runs systemd-notify, because Node cannot send to a Unix datagram socket. Without --no-block:
// systemd finds the unit by the sending process, and may find none if that has exited
// (systemd-notify(1)); a lost READY is a failed start. The tool then waits until the message is
// read. systemd before 246 does not know the option.

import { type ChildProcess, spawn } from 'node:child_process';
import { FailureLog } from '../../runtime/failure-log.ts';
import type { Log } from '../../telemetry/log.ts';
import { masterLimits } from '../limits.ts';

export class ServiceManager {
  readonly #socket: string | undefined;
  readonly #failures: FailureLog;
  #last: Promise<void> = Promise.resolve();
  #stopping = false;

  /** `socket`: $NOTIFY_SOCKET; undefined = no messages. */
  constructor(socket: string | undefined, log: Log) {
    this.#socket = socket;
    this.#failures = new FailureLog(log, {
      failure: 'service-manager: cannot notify systemd',
      end: 'service-manager: notifies systemd again',
    });
  }

  ready(status: string): void {
    this.#send('READY=1', `STATUS=${oneLine(status)}`);
  }

  reloading(): void {
    // systemd compares this time with its own clock to distinguish this reload from an earlier one.
    // biome-ignore lint/plugin: the clock of systemd starts with the machine, and a simulation has no systemd
    const now = process.hrtime.bigint() / 1_000n;
    this.#send('RELOADING=1', `MONOTONIC_USEC=${now}`, 'STATUS=reloading');
  }

  stopping(): void {
    this.#send('STOPPING=1', 'STATUS=stopping');
    this.#stopping = true;
  }

  #send(...words: readonly string[]): void {
    const socket = this.#socket;
    if (socket === undefined || this.#stopping) return;
    this.#last = this.#last.then(() => this.#notify(socket, words));
  }

  /** Never rejects. */
  #notify(socket: string, words: readonly string[]): Promise<void> {
    return new Promise((resolve) => {
      const child = this.#spawn(socket, words);
      if (child === null) {
        resolve();
        return;
      }
      // The child must not keep the master running.
      child.unref();
      child.once('error', (error) => {
        this.#failures.failed(error);
        resolve();
      });
      child.once('exit', (code, signal) => {
        if (code !== 0) this.#failures.failed(new Error(`systemd-notify ended with ${code ?? signal}`));
        resolve();
      });
    });
  }

  /** null = no process could be made: spawn() throws if memory is short; other failures come as an event. */
  #spawn(socket: string, words: readonly string[]): ChildProcess | null {
    try {
      return spawn('systemd-notify', words, {
        stdio: 'ignore',
        env: { ...process.env, NOTIFY_SOCKET: socket },
        timeout: masterLimits.serviceManagerMs,
        killSignal: 'SIGKILL',
      });
    } catch (error) {
      this.#failures.failed(error);
      return null;
    }
  }
}

/** Also cut: a configuration error can exceed the limit of an argument; `dq reload` prints it completely. */
function oneLine(text: string): string {
  return text.slice(0, masterLimits.serviceStatusMax).replaceAll(/[\u0000-\u001f]+/g, ' ');
}
