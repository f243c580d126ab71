// SignInFailures counts failed sign-ins per address and minute. Nothing is locked: the count ends with the
// minute.

import { consoleLimits } from './limits.ts';

export class SignInFailures {
  readonly #now: () => number;
  readonly #counts = new Map<string, number>();
  #minute = 0;
  #recorded = 0;

  /** `now`: ms of a monotonic clock */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  isTooMany(address: string): boolean {
    this.#turn();
    return (this.#counts.get(address) ?? 0) >= consoleLimits.failedSignInsPerMinute;
  }

  add(address: string): void {
    this.#turn();
    // Secrets have 256 bits: forgetting counts helps no guess.
    if (this.#counts.size >= consoleLimits.signInAddressesMax) this.#counts.clear();
    this.#counts.set(address, (this.#counts.get(address) ?? 0) + 1);
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
