// A finding of `dq doctor`: one line for people, a state for scripts.

export interface Finding {
  readonly check: string;
  /** failed: dq does not start or breaks its guarantees · warning: dq works, but not well · unknown: not
   *  testable */
  readonly state: 'ok' | 'warning' | 'failed' | 'unknown';
  /** the fact and the remedy */
  readonly about: string;
}

export type Judge = (state: Finding['state'], about: string) => Finding;

/** Findings of one check. */
export function of(check: string): Judge {
  return (state, about) => ({ check, state, about });
}
