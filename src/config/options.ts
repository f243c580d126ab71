// Every option of dq, declared once: name, kind, default, sentence. The type of the configuration, its parsing, `dq config`
// and the README's table are all made from these declarations.

import { availableParallelism } from 'node:os';
import { limits } from '../core/limits.ts';

export type OptionKind =
  | 'text'
  | 'path'
  | 'port'
  | 'count'
  | 'bytes'
  | 'duration'
  | 'boolean'
  | 'list'
  | 'choice';

export interface Option<T = unknown> {
  readonly kind: OptionKind;
  readonly default: T;
  /** what the README says it is by default, where the value depends on the machine */
  readonly defaultText?: string;
  /** one sentence for the README, without a full stop */
  readonly help: string;
  readonly min?: number;
  readonly max?: number;
  readonly choices?: readonly string[];
  /** masked wherever values are shown; `_FILE` works in the environment */
  readonly secret?: boolean;
  /** of `dq start`, with its dashes */
  readonly flag?: string;
  /** the one place it may come from; everywhere when absent */
  readonly only?: 'flag' | 'file';
  /** what stands between the items of a list that is given as text; a comma when absent */
  readonly separator?: RegExp;
}

const cores = availableParallelism();
type Range = { min?: number; max?: number };
type More = Pick<Option, 'defaultText' | 'flag' | 'only' | 'secret' | 'separator'>;

const text = (value: string, help: string, more: More = {}): Option<string> => ({
  ...more,
  kind: 'text',
  default: value,
  help,
});
/** Absolute once loaded: relative to the file that says it, to the working directory otherwise. */
const path = (value: string, help: string, more: More = {}): Option<string> => ({
  ...more,
  kind: 'path',
  default: value,
  help,
});
const port = (value: number, help: string, more: More = {}): Option<number> => ({
  ...more,
  kind: 'port',
  default: value,
  help,
  min: 0,
  max: 65_535,
});
const count = (value: number, help: string, more: Range & More = {}): Option<number> => ({
  ...more,
  kind: 'count',
  default: value,
  help,
});
const bytes = (value: number, help: string, range: Range): Option<number> => ({
  ...range,
  kind: 'bytes',
  default: value,
  help,
});
/** milliseconds */
const duration = (value: number, help: string, range: Range & More): Option<number> => ({
  ...range,
  kind: 'duration',
  default: value,
  help,
});
const flag = (name: string, help: string): Option<boolean> => ({
  kind: 'boolean',
  default: false,
  help,
  flag: name,
  only: 'flag',
});
const list = (value: readonly string[], help: string, more: More = {}): Option<readonly string[]> => ({
  ...more,
  kind: 'list',
  default: value,
  help,
});
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
  'server.host': text('127.0.0.1', 'Address the HTTP API listens on', { flag: '--host' }),
  'server.port': port(6789, 'Port of the HTTP API; 0 picks a free one and prints it', { flag: '--port' }),
  'server.workers': count(cores >= 4 ? 2 : 1, 'HTTP intake processes', {
    min: 1,
    max: 64,
    defaultText: '1 (2 from 4 cores)',
    flag: '--servers',
  }),
  'timer.workers': count(1, 'Timer processes', { min: 1, max: 16, flag: '--timers' }),
  'notifier.workers': count(2, 'Callback processes', { min: 1, max: 64, flag: '--notifiers' }),
  'notifier.slots': count(
    512,
    'Callbacks that one notifier runs at once; beside them up to four times as many that have run for 500 ms',
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
    "File of the key that seals the topics' secrets; the same for all instances on one MySQL",
    { defaultText: 'secret.key in dataDir' },
  ),
  logDir: path('./logs', 'Directory of the log files', { flag: '--log-dir' }),
  redis: list(
    [],
    'Redis that holds the jobs in place of the embedded store: redis://, rediss://, redis+sentinel:// or redis+cluster://',
    // Before the next scheme alone: the hosts of a Sentinel group and of a Cluster have commas between them, too.
    { defaultText: 'none', flag: '--redis', secret: true, separator: /,(?=\s*[a-z+]+:\/\/)/ },
  ),
  'retry.unit': duration(minute, 'Unit of the 2n+1 retry delays', { min: 1, max: day }),
  'limits.bodyBytes': bytes(256 * kib, 'Largest job body', { min: 1, max: 16 * mib }),
  // The request is held whole, and so is the answer.
  'limits.batchBytes': bytes(16 * mib, 'Largest batch of pushes', { min: 1024, max: 64 * mib }),
  // 1 s, not less: the embedded store's hints travel on the connection of the calls, which renews them when it is made
  // anew, so none is lost while the store is reachable; at 100 ms the polls were half of the idle daemon's CPU time.
  pollCeiling: duration(second, 'Longest a due job waits when a wake-up hint is lost', {
    defaultText: '1s (100ms on Redis that is no Cluster)',
    min: 1,
    // No loop sleeps longer in one piece: a larger number would be taken and change nothing.
    max: limits.loopSleepMsMax,
  }),
  'lease.margin': duration(10 * second, "Length of a lease beyond its topic's timeout", {
    min: limits.leaseReserveMs + 100,
    max: 10 * minute,
  }),
  'history.retention': duration(day, 'How long ended jobs stay visible, without bodies; 0 keeps none', {
    min: 0,
    max: 366 * day,
  }),
  'dead.retention': duration(
    30 * day,
    'How long dead letters are kept; none goes before its alert went out',
    {
      min: hour,
      max: 3650 * day,
    },
  ),
  shutdownTimeout: duration(30 * second, 'How long a stop waits for running callbacks', {
    min: 0,
    max: 10 * minute,
  }),
  'egress.policy': choice(
    ['private', 'public', 'allowlist'],
    'private',
    'Where callbacks may go: private networks too, public addresses only, or only egress.allow',
    { only: 'file' },
  ),
  'egress.allow': list([], 'CIDR ranges that callbacks may reach whatever the policy says', { only: 'file' }),
  'egress.deny': list([], 'CIDR ranges that callbacks may never reach', { only: 'file' }),
  'smtp.url': text(
    '',
    'Mail server: smtp:// (port 25, STARTTLS where offered) or smtps:// (465), [user:password@]host[:port]',
    { defaultText: 'none', secret: true },
  ),
  'smtp.from': text('', 'Address that mails come from', { defaultText: 'none' }),
  'alerts.emails': list([], 'Addresses that are told of every alert, beside those of the topic'),
  'alerts.window': duration(5 * minute, 'After a mail about a topic, how long further deaths are collected', {
    min: second,
    max: limits.alertWindowMsMax,
  }),
  'log.level': choice(['error', 'info', 'debug'], 'info', 'What the notice and error logs hold'),
  'log.request': choice(['all', 'errors', 'off'], 'all', 'Which pushes and cancels are logged'),
  'log.notify': choice(['all', 'errors', 'off'], 'all', 'Which delivery attempts are logged'),
  'log.bytesMaxPerDay': bytes(
    gib,
    'Bytes a day of each log file; later lines of the day are dropped and counted; 0 = no limit',
    { min: 0, max: 1024 * gib },
  ),
  'log.days': count(14, 'Days that log files are kept', { min: 1, max: 3650 }),
  timezone: text(
    Intl.DateTimeFormat().resolvedOptions().timeZone,
    'IANA name of the zone in which "today" begins and format form tells times',
    { defaultText: "the system's" },
  ),
  noAuth: flag(
    '--no-auth',
    'Accept requests without a token while no access token exists, from other machines too',
  ),
} as const satisfies Readonly<Record<string, Option>>;

export type OptionName = keyof typeof options;

type ValueOf<O> = O extends Option<infer T> ? T : never;

/** Flat on purpose: `config['server.port']` is the name that the user writes. Frozen; sent whole to every worker. */
export type Config = { readonly [K in OptionName]: ValueOf<(typeof options)[K]> };

/** Defaults that follow from other options. Hints of Redis are lost with every connection, so a lost one costs less; but a
 *  Cluster is asked bucket by bucket. */
export function defaultOf(name: string, config: Config): unknown {
  const [redis] = config.redis;
  if (name === 'pollCeiling' && redis !== undefined && !redis.startsWith('redis+cluster:'))
    return limits.redisPollMs;
  return config[name as OptionName];
}

/** A configuration that an older master has read: options that it does not know have their defaults. */
export function withNewOptions(config: Partial<Config>): Config {
  const defaults = Object.fromEntries(
    Object.entries(options).map(([name, { default: value }]) => [name, value]),
  );
  return { ...defaults, ...config } as Config;
}

/** Options, and groups of them, that dq will have: refused with that reason, so that nobody believes them in force. */
export const laterOptions: readonly string[] = ['journal'];
