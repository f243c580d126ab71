// A broker is a named message broker of the configuration; a target is the place in it to which a topic
// publishes its jobs. Topics, logs and replies use the name alone, because the URL holds a credential.
// The text of a broker is NAME=TYPE+URL.

import { hookNamePattern } from './alert-receiver.ts';
import { type Parsed, wrong } from './duration.ts';
import { parseServerUrl, type ServerUrlForm } from './url/server-url.ts';

/** `amqp091`: AMQP 0-9-1, RabbitMQ · `amqp10`: AMQP 1.0, ActiveMQ and others · `stomp`: STOMP 1.2,
 *  ActiveMQ */
export const brokerTypes = ['amqp091', 'amqp10', 'stomp'] as const;
type BrokerType = (typeof brokerTypes)[number];

export const brokerNamePattern = hookNamePattern;

export interface Broker {
  readonly name: string;
  readonly type: BrokerType;
  /** a name or an address, without the brackets of IPv6 */
  readonly host: string;
  readonly port: number;
  /** TLS from the first byte */
  readonly secure: boolean;
  readonly verifyTls: boolean;
  /** null: guest with amqp091, anonymous with amqp10, none with stomp */
  readonly login: { readonly user: string; readonly password: string } | null;
  /** of amqp091 and stomp; '/' by default */
  readonly vhost: string;
}

/** Where the jobs of a topic go. */
export interface Target {
  /** '' = the topic has no target */
  readonly broker: string;
  /** amqp091 without a key: a queue; with a key: an exchange · amqp10: an address · stomp: a destination */
  readonly to: string;
  /** amqp091: the routing key · amqp10: the subject · stomp: the type · null = none */
  readonly key: string | null;
}

export const noTarget: Target = { broker: '', to: '', key: null };

/** `main/orders`, `main/events#order.created` */
export function formatTarget({ broker, to, key }: Target): string {
  return `${broker}/${to}${key === null ? '' : `#${key}`}`;
}

/** The address that logs and replies show: `amqp091+amqps://10.0.0.5:5671/shop`, without the login. */
export function placeOfBroker({ type, host, port, secure, vhost }: Broker): string {
  const scheme = `${type === 'stomp' ? 'stomp' : 'amqp'}${secure ? 's' : ''}`;
  const path = vhost === '/' ? '' : `/${encodeURIComponent(vhost)}`;
  return `${type}+${scheme}://${host.includes(':') ? `[${host}]` : host}:${port}${path}`;
}

const amqp: ServerUrlForm = {
  form: 'amqp://[user:password@]host[:port][/vhost]',
  // The ports that IANA assigns to AMQP; both versions of the protocol use them.
  ports: { 'amqp:': 5_672, 'amqps:': 5_671 },
  switches: ['tls.rejectUnauthorized'],
};
const forms: Readonly<Record<BrokerType, ServerUrlForm>> = {
  amqp091: amqp,
  amqp10: { ...amqp, form: 'amqp://[user:password@]host[:port]' },
  // The ports of ActiveMQ and RabbitMQ.
  stomp: {
    form: 'stomp://[user:password@]host[:port][/vhost]',
    ports: { 'stomp:': 61_613, 'stomps:': 61_614 },
    switches: ['tls.rejectUnauthorized'],
  },
};

/** No message contains a part of the text behind the name. */
export function parseBroker(text: string): Parsed<Broker> {
  const [, name, typeText, url] = /^([^=]*)=([a-z0-9]+)\+((?:amqp|stomp)s?:\/\/.*)$/s.exec(text) ?? [];
  const type = brokerTypes.find((one) => one === typeText);
  if (name === undefined || url === undefined || type === undefined)
    return wrong(
      `must be NAME=TYPE+URL with a type of ${brokerTypes.join(', ')}, such as main=amqp091+amqp://user:password@10.0.0.5:5672/vhost`,
    );
  if (!brokerNamePattern.test(name))
    return wrong('needs a name of at most 64 of a-z 0-9 . _ - that begins with a letter or digit');
  const parsed = parseServerUrl(url, forms[type]);
  if (!parsed.ok) return wrong(`"${name}" ${parsed.message}`);
  const { scheme, host, port, user, password, path, switches } = parsed.value;
  if ((user === '') !== (password === '')) return wrong(`"${name}" needs both a user and a password`);
  const vhost = vhostOf(path);
  if (vhost === null) return wrong(`"${name}" must have its virtual host percent-encoded`);
  // STOMP has no form for a line break in a login.
  if (/\p{Cc}/u.test(user + password + vhost)) return wrong(`"${name}" must not contain control characters`);
  if (vhost !== '/' && type === 'amqp10')
    return wrong(`"${name}" must end after the port or its switches: AMQP 1.0 has no virtual hosts`);
  return {
    ok: true,
    value: {
      name,
      type,
      host,
      port,
      vhost,
      secure: scheme.endsWith('s:'),
      verifyTls: switches.get('tls.rejectUnauthorized') ?? true,
      login: user === '' ? null : { user, password },
    },
  };
}

/** The brokers of a checked configuration by name. */
export function brokersOf(texts: readonly string[]): ReadonlyMap<string, Broker> {
  const brokers = texts.flatMap((text) => {
    const parsed = parseBroker(text);
    return parsed.ok ? [parsed.value] : [];
  });
  return new Map(brokers.map((broker) => [broker.name, broker]));
}

/** '/' without a path, as clients of RabbitMQ read it. */
function vhostOf(path: string): string | null {
  if (path === '' || path === '/') return '/';
  try {
    return decodeURIComponent(path.slice(1));
  } catch {
    return null;
  }
}
