// What a check of `dq doctor` finds: one line for people, its state for scripts.

export interface Finding {
  readonly check: string;
  /** failed: dq will not start or not keep its promises so · warning: it will, but not well · unknown: this machine cannot tell */
  readonly state: 'ok' | 'warning' | 'failed' | 'unknown';
  /** a sentence, and what to do about it */
  readonly about: string;
}

export type Judge = (state: Finding['state'], about: string) => Finding;

/** Findings of one check. */
export function of(check: string): Judge {
  return (state, about) => ({ check, state, about });
}
