// One connection to a broker by AMQP 1.0 (ActiveMQ and others). A message is delivered when the broker
// accepts its transfer.
// Invariant: each address has a session of its own with one link, because a broker ends the link or the
// whole session for an address that it does not take (RabbitMQ: the session). A message is sent only with
// credit of the broker and while the broker reads: else it waits until its deadline. Nothing waits in rhea,
// which would send it after its attempt has failed.

import type { Socket } from 'node:net';
import rhea, { type Connection, type Delivery, type EventContext, type Sender, type Session } from 'rhea';
import type { Broker } from '../core/broker.ts';
import { clearTimeout, setImmediate, setTimeout, type Timer } from '../runtime/time.ts';
import { brokerLimits } from './limits.ts';
import { Outbox, Outboxes } from './outbox.ts';
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

export const openAmqp10: OpenWire = async (broker, dialing, name, onLost) => {
  const socket = await dialSocket(broker, dialing);
  return whenOpen((events) => new Amqp10Wire(broker, socket, name, events), onLost);
};

/** An error of AMQP 1.0. */
interface AmqpError {
  readonly condition?: string;
  readonly description?: string;
}

class Amqp10Wire implements Wire {
  readonly #connection: Connection;
  readonly #events: WireEvents;
  readonly #links: Outboxes<AddressLink>;
  readonly #openTimer: Timer;
  readonly #socket: Socket;
  #isOpen = false;
  #isLost = false;

  constructor(broker: Broker, socket: Socket, name: string, events: WireEvents) {
    this.#events = events;
    this.#socket = socket;
    this.#links = new Outboxes('addresses', ({ to }, onClosed) => {
      const session = this.#connection.create_session();
      session.open();
      return new AddressLink(session, to, socket, onClosed);
    });
    this.#openTimer = setTimeout(
      () => this.#lost(new BrokerError('timeout', `no connection within ${brokerLimits.openMsMax} ms`)),
      brokerLimits.openMsMax,
    );
    const { host, port, login } = broker;
    const container = rhea.create_container({ id: name });
    const connection = container.create_connection({
      host,
      port,
      reconnect: false,
      idle_time_out: brokerLimits.heartbeatMs,
      // Without a user, dq logs in as ANONYMOUS.
      ...(login === null ? { username: 'anonymous' } : { username: login.user, password: login.password }),
      connection_details: () => ({
        host,
        port,
        options: {},
        connect: (_port: number, _host: string, _options: unknown, onConnect: () => void) => {
          process.nextTick(onConnect);
          return socket;
        },
      }),
    } as never);
    this.#connection = connection;
    this.#listen(connection, socket);
    connection.connect();
  }

  get isIdle(): boolean {
    return this.#links.isIdle;
  }

  publish(publication: Publication): void {
    this.#links.publish(publication.target.to, publication);
  }

  close(): Promise<void> {
    const socket = this.#socket;
    this.#isLost = true;
    if (socket.destroyed) return Promise.resolve();
    return new Promise((resolve) => {
      const late = setTimeout(() => socket.destroy(), brokerLimits.closeMsMax);
      socket.once('close', () => {
        clearTimeout(late);
        resolve();
      });
      this.#connection.close();
    });
  }

  #listen(connection: Connection, socket: Socket): void {
    socket.on('error', (error) => this.#lost(this.#isOpen ? lossOf(error) : openFailure(error)));
    socket.on('close', () =>
      this.#lost(new BrokerError(this.#isOpen ? 'reset' : 'connect', 'the broker closed the connection')),
    );
    const on = (name: string, listener: (context: EventContext) => void) =>
      connection.on(name as never, listener as never);
    on('connection_open', () => {
      this.#isOpen = true;
      clearTimeout(this.#openTimer);
      // Whatever the broker sends may give credit or space, and rhea has no event for the space of a session.
      // On the next tick rhea has taken it in.
      socket.on('data', () => process.nextTick(() => this.#links.flush()));
      socket.on('drain', () => this.#links.flush());
      this.#events.onOpen();
    });
    // An AMQP error of the peer names the reason: a rejected login, a broker that stops.
    on('connection_error', ({ connection: { error } }) => {
      const { transport_error: rejection } = connection as { transport_error?: Error };
      if (rejection === undefined) this.#lost(brokerErrorOf(error as AmqpError, 'reset'));
      else this.#lost(new BrokerError('mq_refused', rejection.message, { cause: rejection }));
    });
    on('connection_close', () => this.#lost(new BrokerError('reset', 'the broker closed the connection')));
    on('disconnected', ({ error }) => this.#lost(lossOf(error)));
    on('session_error', ({ session }) =>
      this.#linkOf(session)?.closed(brokerErrorOf(errorOf(session), 'mq_refused')),
    );
    on('session_close', ({ session }) =>
      this.#linkOf(session)?.closed(new BrokerError('mq_refused', 'the broker closed the session')),
    );
    // Without these listeners rhea throws, or writes to the console.
    on('protocol_error', (error) => this.#lost(lossOf(error)));
    on('error', (error) => this.#lost(lossOf(error)));
    on('sender_error', ({ sender }) =>
      this.#linkOf(sender?.session)?.closed(brokerErrorOf(errorOf(sender), 'mq_refused')),
    );
    on('sender_close', ({ sender }) =>
      this.#linkOf(sender?.session)?.closed(new BrokerError('mq_refused', 'the broker closed the link')),
    );
    on('accepted', ({ sender, delivery }) => this.#linkOf(sender?.session)?.settled(delivery, null));
    on('rejected', ({ sender, delivery }) =>
      this.#linkOf(sender?.session)?.settled(delivery, brokerErrorOf(stateOf(delivery).error, 'mq_refused')),
    );
    on('released', ({ sender, delivery }) =>
      this.#linkOf(sender?.session)?.settled(
        delivery,
        new BrokerError('mq_unroutable', 'the broker released the message: no queue takes it'),
      ),
    );
    on('modified', ({ sender, delivery }) =>
      this.#linkOf(sender?.session)?.settled(
        delivery,
        new BrokerError('mq_refused', 'the broker did not take the message (modified)'),
      ),
    );
  }

  #linkOf(session: Session | undefined): AddressLink | undefined {
    return this.#links.all().find((link) => link.sender.session === session);
  }

  #lost(error: BrokerError): void {
    if (this.#isLost) return;
    this.#isLost = true;
    clearTimeout(this.#openTimer);
    // With the error: rhea ends its timers on the event of an error only.
    this.#socket.destroy(error);
    this.#links.end(error);
    this.#events.onLost(error);
  }
}

/** rhea's types omit these. */
interface Outgoing {
  readonly next_delivery_id: number;
  /** the first that is not written yet */
  readonly next_pending_delivery: number;
  /** frames that the session of the peer takes */
  transfer_window(): number;
}

class AddressLink extends Outbox {
  readonly sender: Sender;
  readonly #socket: Socket;
  readonly #onClosed: () => void;
  #hasEnded = false;
  /** of unconfirmed messages */
  readonly #sent = new Map<Delivery, Publication>();

  /** `onClosed`: by the broker */
  constructor(session: Session, address: string, socket: Socket, onClosed: () => void) {
    super();
    this.sender = session.open_sender({
      target: { address },
      // The broker's disposition of each message counts.
      snd_settle_mode: 0,
      treat_modified_as_released: false,
    } as never);
    this.#socket = socket;
    this.#onClosed = onClosed;
  }

  protected override get waitsFor(): string | null {
    if (this.#socket.writableNeedDrain) return 'the broker, which does not read';
    const { credit, session } = this.sender as Sender & { readonly credit: number };
    const { outgoing } = session as Session & { readonly outgoing: Outgoing };
    // rhea takes credit and space for a message when it writes it, after this tick.
    const unwritten = outgoing.next_delivery_id - outgoing.next_pending_delivery;
    const isTaken = this.sender.sendable() && Math.min(credit, outgoing.transfer_window()) > unwritten;
    return isTaken ? null : 'credit of the broker';
  }

  /** `error`: null for an accepted message */
  settled(delivery: Delivery | undefined, error: BrokerError | null): void {
    const publication = delivery === undefined ? undefined : this.#sent.get(delivery);
    if (publication === undefined) return;
    if (error === null) publication.confirm();
    else fail(publication, error);
  }

  override end(error: BrokerError): void {
    this.#hasEnded = true;
    super.end(error);
  }

  closed(error: BrokerError): void {
    if (this.#hasEnded) return;
    this.#onClosed();
    this.end(error);
    // The broker may have ended the link alone. After the tick in which rhea answers that.
    setImmediate(() => this.close());
  }

  close(): void {
    this.sender.session.close();
  }

  protected override send(publication: Publication): void {
    const { key } = publication.target;
    const { id, body, contentType, properties, timestampMs } = publication.message;
    try {
      const delivery = this.sender.send({
        message_id: id,
        durable: true,
        application_properties: properties,
        creation_time: new Date(timestampMs) as never,
        body: rhea.message.data_section(body),
        ...(contentType === null ? {} : { content_type: contentType }),
        ...(key === null ? {} : { subject: key }),
      });
      this.#sent.set(delivery, publication);
      this.awaits(publication, 'the confirmation of the broker', () => this.#sent.delete(delivery));
    } catch (error) {
      fail(publication, new BrokerError('reset', (error as Error).message, { cause: error }));
    }
  }
}

/** What the peer gave when it ended this session or link. */
function errorOf(endpoint: Session | Sender | undefined): AmqpError | undefined {
  return (endpoint as { readonly error?: AmqpError } | undefined)?.error;
}

function stateOf(delivery: Delivery | undefined): { readonly error?: AmqpError } {
  return (delivery as { remote_state?: { readonly error?: AmqpError } } | undefined)?.remote_state ?? {};
}

function lossOf(error: unknown): BrokerError {
  if (error instanceof BrokerError) return error;
  const { message, condition } = Object(error) as Error & AmqpError;
  if (condition !== undefined) return brokerErrorOf({ condition, description: message }, 'reset');
  return new BrokerError('reset', message || 'the connection to the broker was lost', { cause: error });
}

/** `otherwise`: for a condition that says neither that the login or the right is wrong nor that there is no
 *  such address */
function brokerErrorOf(error: AmqpError | undefined, otherwise: 'reset' | 'mq_refused'): BrokerError {
  const { condition = '', description = '' } = Object(error) as AmqpError;
  const text = [condition, description].filter((part) => part !== '').join(': ') || 'no reason given';
  if (condition === 'amqp:not-found') return new BrokerError('mq_unroutable', text);
  if (/unauthorized|not-allowed/.test(condition)) return new BrokerError('mq_refused', text);
  return new BrokerError(otherwise, text);
}
