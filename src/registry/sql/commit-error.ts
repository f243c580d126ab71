/** COMMIT failed: whether the transaction took place is for the cause to say. */
export class CommitError extends Error {
  constructor(cause: unknown) {
    super('the transaction could not be committed', { cause });
    this.name = 'CommitError';
  }
}
