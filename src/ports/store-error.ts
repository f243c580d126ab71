// The failures of a store or registry call. A caller must know whether its write may have been applied.

export type StoreFailure =
  /** surely not applied: full, read-only, unavailable, rejected */
  | { readonly kind: 'not_stored'; readonly code: string }
  /** perhaps applied: no reply, broken connection, death of the file's owner */
  | { readonly kind: 'unknown'; readonly code: string };

export class StoreError extends Error {
  readonly failure: StoreFailure;
  constructor(failure: StoreFailure, options?: ErrorOptions) {
    super(`store: ${failure.kind} (${failure.code})`, options);
    this.name = 'StoreError';
    this.failure = failure;
  }
}
