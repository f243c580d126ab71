// How the parts of a process start and end: the contract of everything that starts and drains (a loop, a
// server, a role), the stack of what a process has opened, and the errors of a start that cannot succeed.

export interface Service {
  /** Resolves when the service works; rejects when it cannot and leaves nothing behind. Called once. */
  start(): Promise<void>;
  /** Accepts no new work, finishes the current work for up to deadlineMs, releases the rest. A repeated call
   *  waits for the same end and can bring it forward. Never rejects: the owner of unfinished work logs it. */
  drain(deadlineMs: number): Promise<void>;
}

/** How much time the end has. */
interface Ending {
  readonly deadlineMs: number;
  /** The whole daemon ends, and the workers that this process outlives have exited. */
  readonly isLast: boolean;
}

const atOnce: Ending = { deadlineMs: 0, isLast: false };

/** Ends what a process has opened, in reverse order: a later resource uses the earlier ones. Invariant: a
 *  resource that fails to end leaves no other one open. */
export class Resources {
  readonly #ends: ((ending: Ending) => unknown)[] = [];

  /** Returns the resource. */
  add<T>(resource: T, end: (resource: T, ending: Ending) => unknown): T {
    this.#ends.push((ending) => end(resource, ending));
    return resource;
  }

  /** Ends each resource once. Rejects with the last failure, after all are ended. */
  async close(ending = atOnce): Promise<void> {
    const end = this.#ends.pop();
    if (end === undefined) return;
    try {
      await end(ending);
    } finally {
      await this.close(ending);
    }
  }
}

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
