/** A worker cannot start and another attempt would fail too. Decides the exit code of the daemon. */
export class StartImpossible extends Error {
  readonly exitCode: number;
  constructor(why: keyof typeof exitCodes, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'StartImpossible';
    this.exitCode = exitCodes[why];
  }
}

/** The documented exit codes (cli/exit.ts). */
const exitCodes = { configuration: 78 } as const;

/** The daemon cannot start for an external reason: one sentence for the user, without a stack. */
export class StartRejected extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'StartRejected';
  }
}
