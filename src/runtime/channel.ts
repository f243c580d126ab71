// A stream of bytes between two processes of dq: the members of net.Socket that the client of dq-store and
// its owner use. A simulation passes pairs of its own.

export interface Channel {
  on(event: 'connect' | 'drain' | 'end' | 'close', listener: () => void): unknown;
  on(event: 'data', listener: (chunk: Buffer) => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  readonly writable: boolean;
  readonly writableLength: number;
  write(bytes: Buffer): boolean;
  end(): unknown;
  destroy(): unknown;
  pause(): unknown;
  resume(): unknown;
  isPaused(): boolean;
}

/** The place where channels arrive. */
export interface Listener {
  /** Accepts no more; calls `done` when all its channels are closed. */
  close(done: () => void): unknown;
}
