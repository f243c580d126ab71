/** A worker cannot start, for a reason that a repetition would meet again, and that decides what the daemon exits with. */
export class StartImpossible extends Error {
  readonly exitCode: number;
  constructor(why: keyof typeof exitCodes, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'StartImpossible';
    this.exitCode = exitCodes[why];
  }
}

/** As the command line documents them (cli/exit.ts). */
const exitCodes = { configuration: 78 } as const;
