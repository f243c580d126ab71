// SignInFailures counts failed sign-ins per address and minute. Nothing is locked: all users behind a proxy
// share its address, so a valid secret signs in whatever the count is. The count bounds what failures cost:
// above it, secrets are checked one after the other.

import { monotonicNow } from '../runtime/time.ts';
import { consoleLimits } from './limits.ts';

export class SignInFailures {
  readonly #now: () => number;
  /** by address: failures, and sign-ins that are being checked */
  readonly #counts = new Map<string, number>();
  #minute = 0;
  #recorded = 0;
  #waiting = 0;
  #last: Promise<unknown> = Promise.resolve();

  /** `now`: ms of a monotonic clock */
  constructor(now: () => number = () => monotonicNow()) {
    this.#now = now;
  }

  /** Counts a sign-in as failed until takeBack(): many at once count too. Returns whether its
   *  address has too many. */
  begin(address: string): boolean {
    this.#turn();
    // Secrets have 256 bits: forgetting counts helps no guess.
    if (this.#counts.size >= consoleLimits.signInAddressesMax) this.#counts.clear();
    const count = (this.#counts.get(address) ?? 0) + 1;
    this.#counts.set(address, count);
    return count > consoleLimits.failedSignInsPerMinute;
  }

  /** Called for each begun sign-in that did not fail by its secret. */
  takeBack(address: string): void {
    this.#turn();
    const count = this.#counts.get(address) ?? 0;
    if (count > 1) this.#counts.set(address, count - 1);
    else this.#counts.delete(address);
  }

  /** Runs the checks of addresses with too many failures one after the other: each may ask the registry,
   *  which also serves jobs. null: too many wait. */
  async inTurn<T>(check: () => Promise<T>): Promise<T | null> {
    if (this.#waiting >= consoleLimits.signInsWaitingMax) return null;
    this.#waiting += 1;
    const turn = this.#last.then(check).finally(() => {
      this.#waiting -= 1;
    });
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  /** Whether the audit log has space for a further failure of this minute. */
  mayRecord(): boolean {
    this.#turn();
    this.#recorded += 1;
    return this.#recorded <= consoleLimits.failedSignInsRecorded;
  }

  #turn(): void {
    const minute = Math.floor(this.#now() / 60_000);
    if (minute === this.#minute) return;
    this.#minute = minute;
    this.#counts.clear();
    this.#recorded = 0;
  }
}
