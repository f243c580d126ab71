// One connection to a broker by AMQP 0-9-1 (RabbitMQ). A message is delivered when the broker confirms it;
// messages are mandatory, so one that reaches no queue is returned and fails.
// Invariant: each exchange and key has a channel of its own, because an error of one message (too large, no
// right to its key) closes its channel with everything that is unconfirmed on it. A broker that blocks its
// publishers (memory or disk alarm) gets nothing.

import type { Socket } from 'node:net';
import { type ConfirmChannel, type Connection, connect } from 'amqplib/callback_api';
import type { Broker, Target } from '../core/broker.ts';
import { answeringAddress } from '../runtime/dial.ts';
import { clearTimeout, setTimeout } from '../runtime/time.ts';
import { brokerLimits } from './limits.ts';
import { Outbox, Outboxes } from './outbox.ts';
import type { Publication } from './publication.ts';
import {
  BrokerError,
  type Dialing,
  dialSocket,
  fail,
  type OpenWire,
  openFailure,
  type Wire,
} from './wire.ts';

export const openAmqp091: OpenWire = async (broker, dialing, name, onLost) => {
  const connection = await connected(broker, dialing, name);
  try {
    checkConnected(socketOf(connection), dialing);
  } catch (error) {
    connection.on('error', () => undefined);
    connection.close();
    throw error;
  }
  return new Amqp091Wire(connection, onLost);
};

async function connected(broker: Broker, dialing: Dialing, name: string): Promise<Connection> {
  const { secure, login, vhost } = broker;
  const { hostname, ...of } = await placeOf(broker, dialing);
  const place = {
    protocol: secure ? 'amqps' : 'amqp',
    hostname,
    port: broker.port,
    vhost: encodeURIComponent(vhost),
    username: login?.user ?? 'guest',
    password: login?.password ?? 'guest',
    heartbeat: brokerLimits.heartbeatMs / 1_000,
  };
  const socket = {
    ...of,
    noDelay: true,
    timeout: brokerLimits.openMsMax,
    rejectUnauthorized: broker.verifyTls,
    clientProperties: { connection_name: name },
  };
  return new Promise((resolve, reject) => {
    connect(place, socket, (error: Error | null, connection: Connection) => {
      if (error !== null) reject(rejected(error, vhost) ?? openFailure(error));
      else resolve(connection);
    });
  });
}

/** amqplib takes an open socket with TLS only. Without TLS it connects itself, to one address. */
async function placeOf(
  broker: Broker,
  dialing: Dialing,
): Promise<{ readonly hostname: string; readonly socket?: Socket }> {
  const { host, port, secure } = broker;
  if (secure) return { hostname: host, socket: await dialSocket({ ...broker, secure: false }, dialing) };
  try {
    const timeoutMs = brokerLimits.openMsMax;
    return { hostname: await answeringAddress({ ...dialing, host, port, timeoutMs }) };
  } catch (error) {
    throw openFailure(error);
  }
}

/** Throws where the egress policy forbids the address, before dq writes to it. amqplib has written the
 *  greeting and the login by then, to a judged address. */
function checkConnected({ remoteAddress }: Socket, { judge }: Dialing): void {
  if (remoteAddress === undefined)
    throw new BrokerError('connect', 'the broker closed the connection at once');
  const forbidden = judge?.(remoteAddress) ?? null;
  if (forbidden !== null) throw forbidden;
}

/** The broker ended the handshake. null: another failure. */
function rejected(error: Error, vhost: string): BrokerError | null {
  const { message } = error;
  let text: string;
  // The answer to the login, with the broker's text.
  if (message.startsWith('Handshake terminated by server')) text = message;
  // The answer to the virtual host, whose text amqplib drops.
  else if (/^Expected ConnectionOpenOk; got <ConnectionClose/.test(message))
    text = `the broker refused the virtual host ${vhost}: it is absent, or the user may not use it, or it has too many connections`;
  else return null;
  return new BrokerError('mq_refused', text, { cause: error });
}

/** amqplib's types omit the socket. */
function socketOf(connection: Connection): Socket {
  return (connection.connection as unknown as { readonly stream: Socket }).stream;
}

class Amqp091Wire implements Wire {
  readonly #connection: Connection;
  /** by target */
  readonly #channels: Outboxes<TargetChannel>;
  #isBlocked = false;
  #onLost: () => void;

  constructor(connection: Connection, onLost: () => void) {
    this.#connection = connection;
    this.#onLost = onLost;
    this.#channels = new Outboxes(
      'targets',
      (target, onClosed) => new TargetChannel(connection, target, () => this.#waitsFor, onClosed),
    );
    let reason = 'the broker closed the connection';
    connection.on('error', (error) => {
      reason = error.message;
    });
    connection.on('close', (error) => this.#lost(error?.message ?? reason));
    connection.on('blocked', () => {
      this.#isBlocked = true;
    });
    connection.on('unblocked', () => {
      this.#isBlocked = false;
      this.#channels.flush();
    });
    // After amqplib's own listener, which writes what its channels hold.
    socketOf(connection).on('drain', () => this.#channels.flush());
  }

  get isIdle(): boolean {
    return this.#channels.isIdle;
  }

  publish(publication: Publication): void {
    const { to, key } = publication.target;
    this.#channels.publish(JSON.stringify([to, key]), publication);
  }

  close(): Promise<void> {
    this.#onLost = () => undefined;
    return new Promise((resolve) => {
      const late = setTimeout(() => {
        socketOf(this.#connection).destroy();
        resolve();
      }, brokerLimits.closeMsMax);
      try {
        this.#connection.close(() => {
          clearTimeout(late);
          resolve();
        });
      } catch {
        // It is closed.
        clearTimeout(late);
        resolve();
      }
    });
  }

  /** null: the broker takes messages. Not amqplib's word for it: a channel of it holds 1,024 frames first. */
  get #waitsFor(): string | null {
    if (this.#isBlocked) return 'the broker, which blocks publishers (memory or disk alarm)';
    return socketOf(this.#connection).writableNeedDrain ? 'the broker, which does not read' : null;
  }

  #lost(reason: string): void {
    // amqplib ends its side only, and a broker that does not respond would keep the socket open.
    socketOf(this.#connection).destroy();
    this.#channels.end(new BrokerError('reset', reason));
    this.#onLost();
  }
}

class TargetChannel extends Outbox {
  /** '' is the exchange that routes to the queue of the key's name */
  readonly #exchange: string;
  readonly #key: string;
  readonly #whyConnectionWaits: () => string | null;
  readonly #onClosed: () => void;
  /** null: not open yet */
  #channel: ConfirmChannel | null = null;
  #hasEnded = false;
  /** Of unconfirmed messages, by publicationKey: why the broker returned it. */
  readonly #sent = new Map<string, { returned: string | null }>();

  /** `onClosed`: by the broker */
  constructor(
    connection: Connection,
    { to, key }: Target,
    whyConnectionWaits: () => string | null,
    onClosed: () => void,
  ) {
    super();
    this.#exchange = key === null ? '' : to;
    this.#key = key ?? to;
    this.#whyConnectionWaits = whyConnectionWaits;
    this.#onClosed = onClosed;
    try {
      const opening = connection.createConfirmChannel((error, channel) => {
        if (error) {
          this.#closed(openFailure(error));
          return;
        }
        this.#channel = channel;
        if (this.#hasEnded) this.close();
        else this.flush();
      });
      opening.on('error', (error: Error) => this.#closed(closedBy(error)));
      opening.on('close', () => this.#closed(new BrokerError('reset', 'the broker closed the channel')));
      opening.on('return', ({ properties, fields }) => {
        const { messageId, headers } = properties;
        const sent = this.#sent.get(publicationKey(messageId as string, headers?.['dq-attempt']));
        if (sent !== undefined) sent.returned = (fields as { replyText?: string }).replyText ?? 'returned';
      });
    } catch (error) {
      // The connection is closing: its event follows, and the next publication opens another one.
      queueMicrotask(() => this.#closed(new BrokerError('reset', String((error as Error).message))));
    }
  }

  protected override get waitsFor(): string | null {
    return this.#whyConnectionWaits() ?? (this.#channel === null ? 'a channel' : null);
  }

  override end(error: BrokerError): void {
    this.#hasEnded = true;
    super.end(error);
  }

  /** An idle one: now, or when the broker has opened it. */
  close(): void {
    this.#hasEnded = true;
    try {
      this.#channel?.close();
    } catch {
      // It is closed.
    }
  }

  protected override send(publication: Publication): void {
    const { id, body, contentType, properties, timestampMs } = publication.message;
    const key = publicationKey(id, properties['dq-attempt']);
    const sent: { returned: string | null } = { returned: null };
    this.#sent.set(key, sent);
    this.awaits(publication, 'the confirmation of the broker', () => {
      if (this.#sent.get(key) === sent) this.#sent.delete(key);
    });
    try {
      this.#channel?.publish(
        this.#exchange,
        this.#key,
        body,
        {
          mandatory: true,
          persistent: true,
          messageId: id,
          appId: 'dq',
          headers: properties,
          timestamp: Math.floor(timestampMs / 1_000),
          ...(contentType === null ? {} : { contentType }),
        },
        (error: Error | null) => {
          // The channel's own events name the reason.
          if (error?.message === 'channel closed') return;
          const { returned } = sent;
          if (returned !== null) fail(publication, new BrokerError('mq_unroutable', returned));
          else if (error) fail(publication, new BrokerError('mq_refused', 'the broker rejected the message'));
          else publication.confirm();
        },
      );
    } catch (error) {
      // A property that the protocol cannot hold, such as a content type above 255 bytes, or a closed
      // channel.
      const isUnfit = error instanceof TypeError || error instanceof RangeError;
      const { message } = error as Error;
      fail(publication, new BrokerError(isUnfit ? 'protocol' : 'reset', message, { cause: error }));
    }
  }

  #closed(error: BrokerError): void {
    if (this.#hasEnded) return;
    this.#onClosed();
    this.end(error);
  }
}

/** An id has at most one attempt of each number at a time, apart from ones that have timed out. */
const publicationKey = (id: string, attempt: unknown) => `${id} ${String(attempt)}`;

/** 404 NOT_FOUND: no such exchange. */
function closedBy(error: Error & { readonly code?: number }): BrokerError {
  return new BrokerError(error.code === 404 ? 'mq_unroutable' : 'mq_refused', error.message, {
    cause: error,
  });
}
