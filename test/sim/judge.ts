// Keeps the first rule that a world broke. A rule names the invariant of src/README.md that it checks by its
// number.

export interface Violation {
  readonly rule: string;
  readonly detail: string;
  /** virtual ms */
  readonly at: number;
}

export class Judge {
  readonly #now: () => number;
  #violation: Violation | null = null;

  constructor(now: () => number) {
    this.#now = now;
  }

  get violation(): Violation | null {
    return this.#violation;
  }

  check(isKept: boolean, rule: string, detail: () => string): void {
    if (!isKept) this.fail(rule, detail());
  }

  fail(rule: string, detail: string): void {
    this.#violation ??= { rule, detail, at: this.#now() };
  }
}
