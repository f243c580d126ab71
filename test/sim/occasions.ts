// Moments for which an aimed fault waits: few faults that happen at any time meet a call or a COMMIT.

/** `call`: a request arrives at a receiver. `commit`: after the COMMIT, before its replies. `reload`: in a
 *  reload the master forks a worker, sends it a message, or reads that it is ready or gone. `registry`:
 *  after a write to the registry, before its reply. `work`: a step of a schedule or an operation.
 *  `healing`: a healing begins its next phase. `moving`: a call of the mover to jobs.db, which may fail. */
type What = 'call' | 'commit' | 'reload' | 'registry' | 'work' | 'healing' | 'moving';
/** Returns true when it waits no longer. `key`: of the called job, or the name of the write, step or
 *  phase. */
type Act = (key: string) => boolean;

export class Occasions {
  #waiting: readonly { readonly what: What; readonly act: Act }[] = [];

  add(what: What, act: Act): void {
    this.#waiting = [...this.#waiting, { what, act }];
  }

  happened(what: What, key = ''): void {
    if (this.#waiting.length === 0) return;
    const done = this.#waiting.filter((one) => one.what === what && one.act(key));
    this.#waiting = this.#waiting.filter((one) => !done.includes(one));
  }

  clear(): void {
    this.#waiting = [];
  }
}
