// The contract between a call and the connections that make it (pools.ts, plain-connections.ts).

import type { Dispatcher } from 'undici';
import type { Dial } from './connector.ts';

type Events = Required<
  Pick<
    Dispatcher.DispatchHandler,
    'onRequestStart' | 'onResponseStart' | 'onResponseData' | 'onResponseEnd' | 'onResponseError'
  >
>;

/** The events of one request, as undici sends them. */
export interface Caller extends Events {
  /** A socket is dialled for it. */
  onDial(dial: Dial): void;
}

/** A kept connection closed before the request was written. It is kept no more, so dispatching again ends. */
export class KeptConnectionLost extends Error {
  constructor(cause: Error) {
    super(`a kept connection was lost: ${cause.message}`, { cause });
    this.name = 'KeptConnectionLost';
  }
}
