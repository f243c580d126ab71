// Declares every option of dq: name, kind, default, sentence. The type of the configuration, its parsing,
// `dq config` and the manual's table derive from it.

import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import type { JournalMode } from '../core/durability.ts';
import { limits } from '../core/limits.ts';

type OptionKind = 'text' | 'path' | 'port' | 'count' | 'bytes' | 'duration' | 'boolean' | 'list' | 'choice';

export interface Option<T = unknown> {
  readonly kind: OptionKind;
  readonly default: T;
  /** the default in the manual, where it depends on the machine */
  readonly defaultText?: string;
  /** one sentence for the manual, without a full stop */
  readonly help: string;
  readonly min?: number;
  readonly max?: number;
  readonly choices?: readonly string[];
  /** masked in every output; `_FILE` works in the environment */
  readonly secret?: boolean;
  /** of `dq start`, with its dashes */
  readonly flag?: string;
  /** what the flag does, where it sets the opposite of the option */
  readonly flagHelp?: string;
  /** the only allowed source; absent: every source */
  readonly only?: 'flag' | 'file';
  /** separator of a list given as text; absent: a comma */
  readonly separator?: RegExp;
  /** of a path: `-` is a value, too */
  readonly orStandardOutput?: boolean;
}

/** The value of a path that stands for the standard output. */
export const standardOutput = '-';

const cores = availableParallelism();
type Range = { min?: number; max?: number };
type More = Pick<
  Option,
  'defaultText' | 'flag' | 'flagHelp' | 'only' | 'orStandardOutput' | 'secret' | 'separator'
>;

/** Makes the options of one kind. */
const declare =
  <T>(kind: OptionKind) =>
  (value: T, help: string, more: Range & More = {}): Option<T> => ({ ...more, kind, default: value, help });

const text = declare<string>('text');
/** Absolute after loading; relative to the file that contains it, else to the working directory. */
const path = declare<string>('path');
const count = declare<number>('count');
const bytes = declare<number>('bytes');
/** milliseconds */
const duration = declare<number>('duration');
const toggle = declare<boolean>('boolean');
const list = declare<readonly string[]>('list');
/** null = not set */
const port = <T extends number | null>(value: T, help: string, more: More = {}) =>
  declare<T | number>('port')(value, help, { ...more, min: 0, max: 65_535 });
const flag = (name: string, help: string) => toggle(false, help, { flag: name, only: 'flag' });
const choice = <const T extends string>(
  choices: readonly T[],
  value: NoInfer<T>,
  help: string,
  more: More = {},
): Option<T> => ({
  ...more,
  kind: 'choice',
  choices,
  default: value,
  help,
});

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;
const kib = 1024;
const mib = 1024 * kib;
const gib = 1024 * mib;

export const options = {
  'server.host': text('127.0.0.1', 'Address of the HTTP API', { flag: '--host' }),
  'server.port': port(6789, 'Port of the HTTP API; 0 picks a free one and prints it', { flag: '--port' }),
  'server.workers': count(cores >= 4 ? 2 : 1, 'HTTP intake processes', {
    min: 1,
    max: 64,
    defaultText: '1 (2 from 4 cores)',
    flag: '--servers',
  }),
  'console.enabled': toggle(true, 'Serves the console, a web page for operators, on a port of its own', {
    flag: '--no-console',
    flagHelp: 'Serve no console, the web page for operators',
  }),
  'console.host': text('127.0.0.1', 'Address of the console; another one needs an access token', {
    flag: '--console-host',
  }),
  'console.port': port(null, 'Port of the console; 0 picks a free one and prints it', {
    defaultText: '8088 (a free one if it is taken, or if `server.port` is 0)',
    flag: '--console-port',
  }),
  'console.publicUrl': text(
    '',
    'Address of the console behind a proxy: the only accepted origin, and the base path',
    {
      defaultText: 'none',
    },
  ),
  'console.readOnly': toggle(false, 'Lets the console view data and change nothing'),
  'console.label': text('', 'Badge in the console: the name of this installation', { defaultText: 'none' }),
  'console.color': choice(['gray', 'red', 'amber', 'green', 'blue'], 'gray', 'Colour of the badge'),
  'console.sessionIdle': duration(12 * hour, 'A console session ends after this time without use', {
    min: minute,
    max: 30 * day,
  }),
  'console.sessionMax': duration(7 * day, 'A console session ends at the latest after this time', {
    min: minute,
    max: 365 * day,
  }),
  'compat.php.port': port(null, 'Port for clients of php-delayqueue; 0 picks a free one and prints it', {
    defaultText: 'none',
    flag: '--tcp-port',
  }),
  'compat.ouqiang.port': port(null, 'Port for clients of ouqiang/delay-queue; 0 picks a free one', {
    defaultText: 'none',
    flag: '--ouqiang-port',
  }),
  'compat.sdmq.port': port(null, 'Port for HTTP clients of sdmq and mykit-delay; 0 picks a free one', {
    defaultText: 'none',
    flag: '--sdmq-port',
  }),
  'compat.grpc.port': port(
    null,
    'Port for gRPC: dq.v1.Queue, and clients of mykit-delay; 0 picks a free one',
    {
      defaultText: 'none',
      flag: '--grpc-port',
    },
  ),
  'compat.host': text('127.0.0.1', 'Address of the ports for gRPC and for clients of other queues', {
    flag: '--compat-host',
  }),
  'compat.allow': list([], 'CIDR ranges of the callers that these ports accept', {
    defaultText: 'none: this machine only',
    only: 'file',
  }),
  'compat.scopes': list(['push', 'read', 'pull'], 'Scopes of such a caller, as of an access token', {
    only: 'file',
  }),
  'compat.topics': list(['*'], 'Topics of such a caller, as of an access token', { only: 'file' }),
  'compat.autoTopics': choice(
    ['pull', 'off'],
    'pull',
    'An unknown topic of a push by clients of ouqiang, sdmq or mykit-delay: dq makes a pull topic, or rejects the push',
  ),
  profile: choice(
    ['default', 'small'],
    'default',
    'Defaults of `timer.workers` and `notifier.workers`; `small` (0 and 1): for machines with one core or 1 GB',
    { flag: '--profile' },
  ),
  'timer.workers': count(1, 'Timer processes; 0: `dq-upkeep` promotes due jobs, too', {
    min: 0,
    max: 16,
    defaultText: '1 (0 with `profile: small`)',
    flag: '--timers',
  }),
  'notifier.workers': count(2, 'Callback processes', {
    min: 1,
    max: 64,
    defaultText: '2 (1 with `profile: small`)',
    flag: '--notifiers',
  }),
  'notifier.slots': count(
    512,
    'Callbacks that one notifier runs at once, plus up to four times as many that have run for 500 ms',
    { min: 1, max: 10_000 },
  ),
  dataDir: path('./data', 'Directory of the embedded store, the registry and run/', { flag: '--data-dir' }),
  'mysql.url': text(
    '',
    'Keeps topics, access tokens and statistics in MySQL or MariaDB: mysql://user[:password]@host[:port]/database',
    { defaultText: 'none', secret: true, flag: '--mysql' },
  ),
  secretKeyFile: path(
    '',
    "File of the key that encrypts the topics' secrets; the same for all instances on one MySQL",
    { defaultText: 'secret.key in dataDir' },
  ),
  logDir: path('./logs', 'Directory of the log files; `-`: all lines to the standard output', {
    flag: '--log-dir',
    flagHelp: 'Directory of the log files; -: all lines to the standard output',
    orStandardOutput: true,
  }),
  redis: list(
    [],
    'Redis for the jobs, instead of the embedded store: redis://, redis+sentinel:// or redis+cluster://, with TLS rediss://, rediss+sentinel:// or rediss+cluster://',
    // Only before a scheme: commas also separate the hosts of a Sentinel group and of a Cluster.
    { defaultText: 'none', flag: '--redis', secret: true, separator: /,(?=\s*[a-z+]+:\/\/)/ },
  ),
  'retry.unit': duration(minute, 'Unit of the 2n+1 retry delays', { min: 1, max: day }),
  'limits.bodyBytes': bytes(256 * kib, 'Largest job body', { min: 1, max: 16 * mib }),
  // dq holds the whole request and the whole reply in memory.
  'limits.batchBytes': bytes(16 * mib, 'Largest batch of pushes', { min: 1024, max: 64 * mib }),
  // 1 s: hints of the embedded store use the connection of the calls, which requests them again after a
  // reconnect, so none is lost while the store is reachable; Redis polls more often while no answer proves
  // its subscription (store/redis/client/hints.ts). At 100 ms the polls took half of the idle daemon's CPU
  // time.
  pollCeiling: duration(second, 'Longest wait of a due job when a wake-up hint is lost', {
    min: 1,
    // No loop sleeps longer at once: a larger number would have no effect.
    max: limits.loopSleepMsMax,
  }),
  'lease.margin': duration(
    10 * second,
    "Length of a lease beyond its topic's timeout; dq releases jobs without a call when their reserve took longer than this time minus 2 s",
    {
      min: limits.leaseReserveMs + 100,
      max: 10 * minute,
    },
  ),
  'history.retention': duration(day, 'Time that ended jobs stay visible, without bodies; 0 = not at all', {
    min: 0,
    max: 366 * day,
  }),
  'journal.mode': choice(
    ['off', 'sync'],
    'off',
    'Record of every change of a job in MySQL, from which dq puts back jobs that Redis lost; needs redis and mysql.url: off, or sync (a push is answered when its record is on the disk)',
    { defaultText: 'sync with redis and mysql.url, else off' },
  ),
  'journal.spoolBytes': bytes(gib, 'Disk space for records that MySQL does not have yet, in dataDir/spool', {
    min: 64 * mib,
    max: 1024 * gib,
  }),
  'journal.peerWait': duration(
    minute,
    'Time that a healing of Redis waits for instances without a sign, which may have changes that MySQL lacks',
    { min: 0, max: 10 * minute },
  ),
  'journal.retention': duration(7 * day, 'Time that the journal keeps changes and ended jobs', {
    min: day,
    max: 366 * day,
  }),
  'dead.retention': duration(
    30 * day,
    'Time that dead letters are kept; none is removed before its alert is sent',
    {
      min: hour,
      max: 3650 * day,
    },
  ),
  shutdownTimeout: duration(30 * second, 'Time that a stop waits for running callbacks', {
    min: 0,
    max: 10 * minute,
  }),
  'egress.policy': choice(
    ['private', 'public', 'allowlist'],
    'private',
    'Allowed callback addresses: private networks too, public addresses only, or only egress.allow',
    { only: 'file' },
  ),
  'egress.allow': list([], 'CIDR ranges that callbacks may reach under every policy', { only: 'file' }),
  'egress.deny': list([], 'CIDR ranges that callbacks may never reach', { only: 'file' }),
  brokers: list(
    [],
    'Message brokers for topics with delivery mq: NAME=TYPE+URL with the type amqp091 (RabbitMQ), amqp10 or stomp (ActiveMQ)',
    // Only before a broker: a URL may contain commas.
    { defaultText: 'none', secret: true, separator: /,(?=\s*[a-z0-9._-]+=[a-z0-9]+\+(?:amqp|stomp)s?:\/\/)/ },
  ),
  'smtp.url': text(
    '',
    'Mail server: smtp:// (port 25, STARTTLS where offered) or smtps:// (465), [user:password@]host[:port]',
    { defaultText: 'none', secret: true },
  ),
  'smtp.from': text('', 'Sender address of mails', { defaultText: 'none' }),
  'alerts.emails': list([], 'Recipients of every alert, beside those of the topic'),
  'alerts.hooks': list(
    [],
    'Receivers of alerts by HTTP: NAME=KIND+URL[#SECRET] with the kind webhook, slack, dingtalk, wecom or feishu',
    // Only before a hook: a URL may contain commas.
    { defaultText: 'none', secret: true, separator: /,(?=\s*[a-z0-9._-]+=[a-z]+\+https?:\/\/)/ },
  ),
  'alerts.defaultHooks': list([], 'Names of the hooks that get every alert, beside those of the topic'),
  'alerts.window': duration(
    5 * minute,
    'Time that further dead letters are collected after a mail about a topic',
    {
      min: second,
      max: limits.alertWindowMsMax,
    },
  ),
  'alerts.pullLate': duration(
    0,
    'An incident begins when a due job of a pull topic waits longer than this for a client; 0 = never',
    { min: 0, max: 30 * day },
  ),
  'log.level': choice(['error', 'info', 'debug'], 'info', 'Level of the notice and error logs'),
  'log.request': choice(['all', 'errors', 'off'], 'all', 'Logged pushes and cancels'),
  'log.notify': choice(['all', 'errors', 'off'], 'all', 'Logged delivery attempts'),
  'log.bytesMaxPerDay': bytes(
    gib,
    'Bytes per day of each log file; dq drops and counts later lines; 0 = no limit',
    { min: 0, max: 1024 * gib },
  ),
  'log.days': count(14, 'Days that log files are kept', { min: 1, max: 3650 }),
  'audit.days': count(90, 'Days that the audit log and its files are kept', { min: 1, max: 3650 }),
  timezone: text(
    Intl.DateTimeFormat().resolvedOptions().timeZone,
    'IANA name of the time zone of "today" and of times in format form',
    { defaultText: "the system's" },
  ),
  noAuth: flag(
    '--no-auth',
    'Accept requests without a token while no access token exists, from other machines too',
  ),
  standby: toggle(
    false,
    'Of the instances with this option only one calls jobs; another takes over within 8 s. Needs redis and mysql.url',
    { flag: '--standby' },
  ),
  noDeliveries: flag('--no-deliveries', 'Call no job and send no alert mail: to look at a restored backup'),
} as const satisfies Readonly<Record<string, Option>>;

/** What noDeliveries does, for everything that shows the state of the daemon. */
export const noDeliveriesText = 'off, by --no-deliveries: dq calls no job and sends no alert mail';

export type OptionName = keyof typeof options;

type ValueOf<O> = O extends Option<infer T> ? T : never;

/** Flat on purpose: `config['server.port']` is the name that the user writes. Frozen; every worker gets
 *  all of it. */
export type Config = { readonly [K in OptionName]: ValueOf<(typeof options)[K]> };

/** gRPC and the protocols of other queues, each with the option of its port. */
export const compatPortOptions = {
  php: 'compat.php.port',
  ouqiang: 'compat.ouqiang.port',
  sdmq: 'compat.sdmq.port',
  grpc: 'compat.grpc.port',
} as const satisfies Readonly<Record<string, OptionName>>;
export type CompatProtocol = keyof typeof compatPortOptions;

/** The configured ports of the protocols that are switched on; 0 = a free one. */
export function compatPortsOf(
  config: Config,
): readonly { readonly protocol: CompatProtocol; readonly port: number }[] {
  return Object.entries(compatPortOptions).flatMap(([protocol, option]) => {
    const port = config[option];
    return port === null ? [] : [{ protocol: protocol as CompatProtocol, port }];
  });
}

/** The port that the console asks for when `console.port` is not set; 0 = a free one. */
const consolePort = 8088;

/** The configured port of the console; 0 = a free one. */
export function consolePortOf(config: Config): number {
  const server = config['server.port'];
  const isTaken =
    server === 0 || server === consolePort || compatPortsOf(config).some(({ port }) => port === consolePort);
  return config['console.port'] ?? (isTaken ? 0 : consolePort);
}

/** Path of the key file that encrypts secrets and headers of topics. */
export const keyPathOf = ({ secretKeyFile, dataDir }: Config): string =>
  secretKeyFile || join(dataDir, 'secret.key');

/** Option values of `profile: small`. */
const smallProfile: Readonly<Record<string, unknown>> = { 'timer.workers': 0, 'notifier.workers': 1 };

/** Defaults that follow from other options: a journal needs Redis and MySQL. */
export function defaultOf(name: string, config: Config): unknown {
  if (config.profile === 'small' && name in smallProfile) return smallProfile[name];
  const [redis] = config.redis;
  if (name === 'journal.mode' && redis !== undefined && config['mysql.url'] !== '')
    return fitsJournal(config) ? 'sync' : 'off';
  return config[name as OptionName];
}

/** MySQL gets a body as hexadecimal digits in one packet, which has 4 MiB by default in MySQL 5.7; an end
 *  whose record was lost with its process is found in the history. */
export const fitsJournal = (config: Config): boolean =>
  config['limits.bodyBytes'] <= limits.journalBodyBytesMax &&
  config['history.retention'] >= limits.journalHistoryMsMin;

/** The mode in force: a journal needs Redis and MySQL. */
export const journalModeOf = (config: Config): JournalMode =>
  config.redis.length > 0 && config['mysql.url'] !== '' ? (config['journal.mode'] as JournalMode) : 'off';

/** Completes the configuration of a master with other code: options that it does not know get their
 *  defaults. */
export function withNewOptions(config: Partial<Config>): Config {
  const defaults = Object.fromEntries(
    Object.entries(options).map(([name, { default: value }]) => [name, value]),
  );
  return { ...defaults, ...config } as Config;
}
