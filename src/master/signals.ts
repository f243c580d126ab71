// Installs the master's signal handlers and keeps the signals that arrive before it can act on them. Made
// first in a start: a signal without a handler ends the process, and SIGUSR1 without one opens Node's
// debugger.

interface SignalHandlers {
  /** SIGTERM, SIGINT, SIGQUIT; `times`: how many have arrived by now */
  onStop(times: number): void;
  /** SIGHUP, SIGUSR2 */
  onReload(): void;
  /** SIGUSR1 */
  onReopenLogs(): void;
}

export class Signals {
  #handlers: SignalHandlers | null = null;
  #stops = 0;
  #reloadPending = false;
  #reopenPending = false;

  constructor() {
    for (const name of ['SIGTERM', 'SIGINT', 'SIGQUIT'])
      process.on(name, () => {
        this.#stops += 1;
        this.#handlers?.onStop(this.#stops);
      });
    for (const name of ['SIGUSR2', 'SIGHUP'])
      process.on(name, () => {
        this.#reloadPending = true;
        this.#handlers?.onReload();
      });
    process.on('SIGUSR1', () => {
      this.#reopenPending = true;
      this.#handlers?.onReopenLogs();
    });
    process.on('SIGPIPE', () => {});
  }

  /** Called once. Delivers the signals that have arrived, and each later one as it arrives. */
  attach(handlers: SignalHandlers): void {
    this.#handlers = handlers;
    if (this.#reopenPending) handlers.onReopenLogs();
    if (this.#stops > 0) handlers.onStop(this.#stops);
    else if (this.#reloadPending) handlers.onReload();
  }
}
