// The contract of everything with a life of its own: a loop, a server, a role.

export interface Service {
  /** Resolves when it does its work; rejects when it cannot, and has then left nothing behind. Called once. */
  start(): Promise<void>;
  /** Takes no new work, finishes the current for up to deadlineMs, hands back the rest. Calling it again waits for the
   *  same end, which an earlier deadline may bring nearer. Never rejects: what could not be finished is logged by whom it concerns. */
  drain(deadlineMs: number): Promise<void>;
}
