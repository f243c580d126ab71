// Passes the events of one call on and notes when its connection and its reply arrived. For test calls only:
// attempts are not timed.

import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import type { TestCallResult } from '../process/questions.ts';
import { monotonicNow } from '../runtime/time.ts';
import type { Caller } from './caller.ts';
import type { Dial, DialMoment } from './connector.ts';

type Moment = 'dial' | DialMoment | 'request' | 'head';

export class TimedCaller implements Caller {
  readonly #caller: Caller;
  /** monotonicNow() */
  readonly #at: Partial<Record<Moment, number>> = {};

  constructor(caller: Caller) {
    this.#caller = caller;
  }

  /** `endedAt`: monotonicNow() */
  phases(endedAt: number, totalMs: number): TestCallResult['phases'] {
    const { dial, found, connected, secured, request, head } = this.#at;
    const since = (from: number | undefined, to: number | undefined) =>
      from === undefined || to === undefined ? null : Math.max(0, Math.round(to - from));
    return {
      lookupMs: since(dial, found),
      connectMs: since(found ?? dial, connected),
      tlsMs: since(connected, secured),
      waitMs: since(request, head),
      readMs: since(head, head === undefined ? undefined : endedAt),
      totalMs: Math.round(totalMs),
    };
  }

  onDial(dial: Dial): void {
    this.#note('dial');
    dial.onMoment((moment) => this.#note(moment));
    this.#caller.onDial(dial);
  }

  onRequestStart(controller: Dispatcher.DispatchController, context: unknown): void {
    this.#note('request');
    this.#caller.onRequestStart(controller, context);
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
    text?: string,
  ): void {
    this.#note('head');
    this.#caller.onResponseStart(controller, status, headers, text);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#caller.onResponseData(controller, chunk);
  }

  onResponseEnd(controller: Dispatcher.DispatchController, trailers: IncomingHttpHeaders): void {
    this.#caller.onResponseEnd(controller, trailers);
  }

  onResponseError(controller: Dispatcher.DispatchController, error: Error): void {
    this.#caller.onResponseError(controller, error);
  }

  #note(moment: Moment): void {
    this.#at[moment] = monotonicNow();
  }
}
