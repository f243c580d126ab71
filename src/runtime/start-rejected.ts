/** The daemon cannot start for an external reason: one sentence for the user, without a stack. */
export class StartRejected extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'StartRejected';
  }
}
