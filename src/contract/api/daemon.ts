// The daemon itself: index, health, processes, metrics, options in force, reload.

import { Type } from 'typebox';
import {
  closed,
  count,
  flag,
  instant,
  type JsonOf,
  orNull,
  problems,
  type ReplyOf,
  reply,
  text,
  textOrNull,
  texts,
  yes,
} from './schema.ts';

const tags = ['operation'];
const forReaders = 'only for callers with the scope read for every topic';

export const livezSchema = {
  operationId: 'livez',
  tags,
  summary: 'Whether this process answers',
  response: { 200: reply('it does', closed({ live: yes })), ...problems() },
};

const Readiness = closed(
  {
    ready: yes,
    check: Type.Null({ description: 'null; the 503 problem has the failing check here' }),
    warningCount: count('warnings', 0),
    durability: Type.Optional(text(`what an acknowledged job survives; ${forReaders}`, 'process and power')),
    deliveries: Type.Optional(text(`with \`standby\`: which instance leads; ${forReaders}`, 'it leads')),
    warnings: Type.Optional(texts(forReaders)),
  },
  { title: 'Ready' },
);

export const readyzSchema = {
  operationId: 'readyz',
  tags,
  summary: 'Whether dq can work',
  response: { 200: reply('it can', Readiness), ...problems(503) },
};

const Process = Type.Object(
  {
    title: text('name of the process', 'dq-notifier-0'),
    role: Type.Enum(['master', 'store', 'server', 'console', 'timer', 'notifier', 'upkeep'], {
      description: 'role of the process',
    }),
    alsoRuns: Type.Optional(texts('further roles in the same process', ['timer'])),
    pid: count('process id', 4711),
    version: text('version of dq that it runs', '1.0.0'),
    generation: count('1 for the start, plus one for each reload', 1),
    state: Type.Enum(['starting', 'ready', 'draining'], { description: 'state of the process' }),
    startedAt: instant('when it started'),
    restarts: count('how often the master has restarted it', 0),
    inFlight: count('requests or callbacks in flight', 12),
    rssBytes: count('resident memory in bytes', 94_371_840),
    cpuPercent: Type.Number({ description: 'CPU time in percent of one core', examples: [3.5] }),
  },
  { title: 'Process' },
);
export type ProcessJson = JsonOf<typeof Process>;

export const processesSchema = {
  operationId: 'processes',
  tags,
  summary: 'The processes of this instance',
  response: { 200: reply('all processes', closed({ processes: Type.Array(Process) })), ...problems(503) },
};

const ApiIndex = closed(
  {
    name: Type.Literal('dq', { description: 'always dq' }),
    version: text('version of the daemon', '1.0.0'),
    links: Type.Record(Type.String(), Type.String(), {
      description: 'paths that answer a GET, by name',
      examples: [{ openapi: '/openapi.json' }],
    }),
  },
  { title: 'Index' },
);

export const indexSchema = {
  operationId: 'index',
  tags: ['operation'],
  summary: 'Name, version and links',
  response: { 200: reply('the index', ApiIndex), ...problems() },
};

export const metricsSchema = {
  operationId: 'metrics',
  tags: ['operation'],
  summary: 'Metrics of this instance for Prometheus',
  response: {
    200: { description: 'the metrics', content: { 'text/plain': { schema: Type.String() } } },
    ...problems(503),
  },
};

const ConfigOption = closed(
  {
    name: text('name of the option', 'limits.topics'),
    value: text('value in force, as dq.yaml would contain it; secrets are masked', '500'),
    origin: text('flag, environment variable, place in the file, or `default`', '/etc/dq/dq.yaml:3:5'),
    source: Type.Enum(['flag', 'environment', 'file', 'default'], { description: 'kind of the origin' }),
    defaultValue: text('its default', '500'),
    needsRestart: flag(
      'a change needs `dq restart`: a reload rejects it, or keeps the flags and the environment',
    ),
    next: textOrNull('value after the next reload, where it differs; null: the same'),
    help: text('one sentence about the option', 'registered topics'),
  },
  { title: 'ConfigOption' },
);

export const configSchema = {
  operationId: 'config',
  tags,
  summary: 'The options in force, and what a reload would change',
  response: {
    200: reply(
      'all options',
      closed(
        {
          file: textOrNull('configuration file; null: none', '/etc/dq/dq.yaml'),
          problem: textOrNull('why a reload would reject the configuration on disk; null: it would not'),
          items: Type.Array(ConfigOption),
        },
        { title: 'ConfigInForce' },
      ),
    ),
    ...problems(503),
  },
};
export type ConfigJson = ReplyOf<typeof configSchema>;

const ReloadLines = texts('what dq reload prints', ['starting one new process of every role']);

const Reload = closed(
  {
    running: orNull(
      closed({ startedAt: instant('when it began'), lines: ReloadLines }, { title: 'RunningReload' }),
      'the running one',
    ),
    waiting: flag('another reload follows at once'),
    last: orNull(
      closed(
        {
          startedAt: instant('when it began'),
          endedAt: instant('when it ended'),
          outcome: Type.Enum(['reloaded', 'partly', 'rejected'], {
            description:
              '`partly`: the configuration is in force, but a part does not work yet · `rejected`: nothing has changed',
          }),
          reason: textOrNull('why not `reloaded`'),
          lines: ReloadLines,
          generation: count('generation in force after it', 7),
        },
        { title: 'LastReload' },
      ),
      'null: none since the start of the daemon',
    ),
    generation: count('generation in force; 1 for the start', 7),
    restart: textOrNull(
      'why `dq restart` is needed: the code on disk is newer than dq-master; null: it is not',
    ),
  },
  { title: 'Reload' },
);

export type ReloadJson = JsonOf<typeof Reload>;

export const reloadStateSchema = {
  operationId: 'reloadState',
  tags,
  summary: 'The running and the last reload of this instance',
  response: { 200: reply('both', Reload), ...problems(503) },
};

export const reloadSchema = {
  operationId: 'reload',
  tags,
  summary: 'Reload: new processes with the configuration and the code on disk',
  description:
    'As dq reload. During a reload, another one follows it. A reload that is rejected changes nothing.',
  response: { 202: reply('it begins', Reload), ...problems(413, 503) },
};
