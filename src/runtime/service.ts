// The contract of everything that starts and drains: a loop, a server, a role.

export interface Service {
  /** Resolves when the service works; rejects when it cannot and leaves nothing behind. Called once. */
  start(): Promise<void>;
  /** Accepts no new work, finishes the current work for up to deadlineMs, releases the rest. A repeated call
   *  waits for the same end and can bring it forward. Never rejects: the owner of unfinished work logs it. */
  drain(deadlineMs: number): Promise<void>;
}
