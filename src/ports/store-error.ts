// The failures of a store or registry call. A caller must know whether its write may have been applied.

export type StoreFailure =
  /** surely not applied: full, read-only, unavailable, rejected */
  | { readonly kind: 'not_stored'; readonly code: string }
  /** perhaps applied: no reply, broken connection, death of the file's owner */
  | { readonly kind: 'unknown'; readonly code: string };

export class StoreError extends Error {
  readonly failure: StoreFailure;
  /** an operator's name of the failed server or file */
  readonly where: 'store' | 'MySQL';
  constructor(failure: StoreFailure, options?: ErrorOptions & { readonly where?: 'MySQL' }) {
    const where = options?.where ?? 'store';
    super(`${where}: ${failure.kind} (${failure.code})`, options);
    this.name = 'StoreError';
    this.failure = failure;
    this.where = where;
  }
}
