// Sends sd_notify messages to systemd (Type=notify): READY, RELOADING, STOPPING and a status line.
// Invariants: messages keep their order; dq waits and fails for none of them; none follows STOPPING.
// It runs systemd-notify, because Node cannot send to a Unix datagram socket. Without --no-block:
// systemd finds the unit by the sending process, and may find none if that has exited
// (systemd-notify(1)); a lost READY is a failed start. The tool then waits until the message is
// read. systemd before 246 does not know the option.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
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
  async #notify(socket: string, words: readonly string[]): Promise<void> {
    try {
      const child = spawn('systemd-notify', words, {
        stdio: 'ignore',
        env: { ...process.env, NOTIFY_SOCKET: socket },
        timeout: masterLimits.serviceManagerMs,
        killSignal: 'SIGKILL',
      });
      // The child must not keep the master running.
      child.unref();
      const [code, signal] = await once(child, 'exit');
      if (code !== 0) throw new Error(`systemd-notify ended with ${code ?? signal}`);
      this.#failures.succeeded();
    } catch (error) {
      this.#failures.failed(error);
    }
  }
}

/** Also cut: a configuration error can exceed the limit of an argument; `dq reload` prints it completely. */
function oneLine(text: string): string {
  return text.slice(0, masterLimits.serviceStatusMax).replaceAll(/[\u0000-\u001f]+/g, ' ');
}
