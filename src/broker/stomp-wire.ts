// One connection to a broker by STOMP 1.2 (ActiveMQ), for one destination. A message is delivered when the
// broker sends its receipt.
// Invariant: each destination has a connection of its own (brokers.ts), because an ERROR frame ends the
// connection with everything that has no receipt yet. While the broker does not read, nothing is written.

import { isUtf8 } from 'node:buffer';
import type { Socket } from 'node:net';
import { Client, type IStompSocket, StompSocketState, Versions } from '@stomp/stompjs';
import type { Broker } from '../core/broker.ts';
import { clearTimeout, setTimeout, type Timer } from '../runtime/time.ts';
import { brokerLimits } from './limits.ts';
import { Outbox } from './outbox.ts';
import type { Publication } from './publication.ts';
import {
  BrokerError,
  dialSocket,
  fail,
  type OpenWire,
  openFailure,
  type Wire,
  type WireEvents,
  whenOpen,
} from './wire.ts';

export const openStomp: OpenWire = async (broker, dialing, _name, onLost) => {
  const socket = await dialSocket(broker, dialing);
  return whenOpen((events) => new StompWire(broker, socket, events), onLost);
};

class StompWire extends Outbox implements Wire {
  readonly #client: Client;
  readonly #events: WireEvents;
  readonly #openTimer: Timer;
  readonly #stream: StompStream;
  #isOpen = false;
  #isLost = false;
  #receipts = 0;

  constructor(broker: Broker, socket: Socket, events: WireEvents) {
    super();
    this.#events = events;
    this.#stream = new StompStream(socket, {
      onDrain: () => this.flush(),
      onLost: (error) => this.#lost(this.#isOpen ? resetBy(error) : openFailure(error)),
    });
    const { host, login, vhost } = broker;
    const late = new BrokerError('timeout', `no connection within ${brokerLimits.openMsMax} ms`);
    this.#openTimer = setTimeout(() => this.#lost(late), brokerLimits.openMsMax);
    this.#client = new Client({
      webSocketFactory: () => {
        // The library listens when it has got it.
        process.nextTick(() => this.#stream.open());
        return this.#stream;
      },
      connectHeaders: {
        host: vhost === '/' ? host : vhost,
        ...(login === null ? {} : { login: login.user, passcode: login.password }),
      },
      // Earlier versions do not escape header values.
      stompVersions: new Versions([Versions.V1_2]),
      reconnectDelay: 0,
      // A connection without heartbeats is destroyed: its peer may never answer the end of dq's side.
      discardWebsocketOnCommFailure: true,
      heartbeatIncoming: brokerLimits.heartbeatMs,
      heartbeatOutgoing: brokerLimits.heartbeatMs,
      forceBinaryWSFrames: true,
      onConnect: () => {
        this.#isOpen = true;
        clearTimeout(this.#openTimer);
        this.#events.onOpen();
      },
      onStompError: ({ headers, body }) =>
        this.#lost(new BrokerError('mq_refused', headers['message'] ?? body.split('\n', 1)[0] ?? 'ERROR')),
    });
    this.#client.activate();
  }

  protected override get waitsFor(): string | null {
    return this.#stream.isFull ? 'the broker, which does not read' : null;
  }

  close(): Promise<void> {
    const stream = this.#stream;
    if (this.#isLost) return Promise.resolve();
    this.#isLost = true;
    return new Promise((resolve) => {
      const late = setTimeout(() => stream.terminate(), brokerLimits.closeMsMax);
      stream.onceClosed(() => {
        clearTimeout(late);
        resolve();
      });
      void this.#client.deactivate();
    });
  }

  protected override send(publication: Publication): void {
    const { target, message } = publication;
    const { id, body, contentType, properties, timestampMs } = message;
    // In STOMP it is an order to the broker: to hold the message until a commit.
    const { transaction: _, ...own } = properties;
    const receipt = `dq-${++this.#receipts}`;
    this.awaits(publication, 'the receipt of the broker');
    this.#client.watchForReceipt(receipt, () => publication.confirm());
    try {
      this.#client.publish({
        destination: target.to,
        binaryBody: body,
        headers: {
          ...Object.fromEntries(Object.entries(own).map(([name, value]) => [name, String(value)])),
          destination: target.to,
          receipt,
          persistent: 'true',
          'webhook-id': id,
          'correlation-id': id,
          timestamp: String(timestampMs),
          ...(contentType === null ? {} : { 'content-type': contentType }),
          // ActiveMQ: a message with a length is one of bytes unless this says otherwise.
          ...(isText(contentType, body) ? { 'amq-msg-type': 'text' } : {}),
          ...(target.key === null ? {} : { type: target.key }),
        },
      });
    } catch (error) {
      // The connection has ended, and its event follows.
      fail(publication, new BrokerError('reset', (error as Error).message, { cause: error }));
    }
  }

  #lost(error: BrokerError): void {
    if (this.#isLost) return;
    this.#isLost = true;
    clearTimeout(this.#openTimer);
    this.#stream.terminate();
    void this.#client.deactivate({ force: true });
    this.end(error);
    this.#events.onLost(error);
  }
}

/** The first byte of a character of 4 bytes in UTF-8. */
const longLead = 0xf0;

/** JMS consumers get these as text. ActiveMQ stores the bytes, and its client for Java cannot read a text
 *  with bytes that are not UTF-8 or with a character of 4 bytes, such as an emoji
 *  (MarshallingSupport.readUTF8). */
export function isText(contentType: string | null, body: Buffer): boolean {
  if (contentType === null || !/^text\/|^application\/(?:[\w.-]+\+)?(?:json|xml)\b/i.test(contentType))
    return false;
  return isUtf8(body) && !body.some((byte) => byte >= longLead);
}

function resetBy(error: Error | null): BrokerError {
  return new BrokerError('reset', error?.message ?? 'the broker closed the connection', { cause: error });
}

interface StreamEvents {
  readonly onDrain: () => void;
  /** once; null: closed by the broker */
  readonly onLost: (error: Error | null) => void;
}

/** A TCP or TLS connection with the interface of a WebSocket, which the library expects. */
class StompStream implements IStompSocket {
  readonly url: string;
  readonly binaryType = 'arraybuffer';
  onclose: IStompSocket['onclose'] = null;
  onerror: IStompSocket['onerror'] = null;
  onmessage: IStompSocket['onmessage'] = null;
  onopen: IStompSocket['onopen'] = null;
  readyState: StompSocketState = StompSocketState.CONNECTING;
  readonly #socket: Socket;

  /** `socket`: connected */
  constructor(socket: Socket, { onDrain, onLost }: StreamEvents) {
    this.url = `${socket.remoteAddress}:${socket.remotePort}`;
    this.#socket = socket;
    let failure: Error | null = null;
    this.#socket.on('data', (data) => this.onmessage?.({ data }));
    this.#socket.on('drain', onDrain);
    this.#socket.on('error', (error) => {
      failure = error;
    });
    this.#socket.on('close', () => {
      this.readyState = StompSocketState.CLOSED;
      this.onclose?.({});
      onLost(failure);
    });
  }

  open(): void {
    if (this.#socket.destroyed) return;
    this.readyState = StompSocketState.OPEN;
    this.onopen?.();
  }

  /** The broker does not read as fast as dq writes. */
  get isFull(): boolean {
    return this.#socket.writableNeedDrain;
  }

  send(data: Parameters<IStompSocket['send']>[0]): void {
    this.#socket.write(data instanceof ArrayBuffer ? new Uint8Array(data) : (data as Uint8Array));
  }

  close(): void {
    this.readyState = StompSocketState.CLOSING;
    this.#socket.end();
  }

  terminate(): void {
    this.#socket.destroy();
  }

  onceClosed(listener: () => void): void {
    if (this.#socket.closed) listener();
    else this.#socket.once('close', listener);
  }
}
