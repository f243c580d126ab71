// The contract between a call and the connections that make it (pools.ts, plain-connections.ts).

import type { Dispatcher } from 'undici';
import type { Dial } from './connector.ts';

/** The events of one request, as undici sends them. */
export type Events = Required<
  Pick<
    Dispatcher.DispatchHandler,
    'onRequestStart' | 'onResponseStart' | 'onResponseData' | 'onResponseEnd' | 'onResponseError'
  >
>;

export interface Caller extends Events {
  /** A socket is dialled for it. */
  onDial(dial: Dial): void;
}

/** A kept connection closed before the first byte of the reply. Unsent: it is kept no more, so dispatching
 *  again ends. Sent: the receiver had probably closed it before the request arrived. */
export class KeptConnectionLost extends Error {
  /** The request was written to it. */
  readonly isSent: boolean;
  constructor(cause: Error, isSent: boolean) {
    super(`a kept connection was lost: ${cause.message}`, { cause });
    this.name = 'KeptConnectionLost';
    this.isSent = isSent;
  }
}
