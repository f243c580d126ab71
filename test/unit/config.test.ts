// Tests the sources, values, cross-checks and output of the configuration.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { crossCheck, isLoopback } from '../../src/config/cross-checks.ts';
import { readEnvironment, readVariable, variablesOf } from '../../src/config/environment.ts';
import type { ConfigInput, LoadedConfig } from '../../src/config/load.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { Option, OptionName } from '../../src/config/options.ts';
import { compatPortsOf, consolePortOf, options } from '../../src/config/options.ts';
import { formatBytes, formatProblem } from '../../src/config/parse.ts';
import { describeConfig, formatValue, renderConfigFile, renderConfigTable } from '../../src/config/show.ts';
import { testDirectory } from '../support/directory.ts';

let cwd = '';
beforeEach(() => {
  cwd = testDirectory();
});

/** All sources are empty by default; `yaml` becomes ./dq.yaml. */
function load({ yaml, ...input }: Partial<ConfigInput> & { yaml?: string } = {}): LoadedConfig {
  if (yaml !== undefined) writeFileSync(join(cwd, 'dq.yaml'), yaml);
  return loadConfig({ flags: {}, env: {}, cwd, ...input });
}

function loaded(input: Parameters<typeof load>[0]): Extract<LoadedConfig, { ok: true }> {
  const result = load(input);
  if (!result.ok) throw new Error(result.problems.map(formatProblem).join('\n'));
  return result;
}

function problemsOf(input: Parameters<typeof load>[0]): string[] {
  const result = load(input);
  return result.ok ? [] : result.problems.map(formatProblem);
}

describe('loadConfig: sources', () => {
  it('defaults: complete, with absolute paths, frozen', () => {
    const { config, origins, file } = loaded({});
    for (const [name, option] of Object.entries(options)) {
      if (option.kind !== 'path') expect(config[name as OptionName]).toEqual(option.default);
      expect(origins[name as OptionName]).toBe('default');
    }
    expect(config.dataDir).toBe(join(cwd, 'data'));
    expect(config.logDir).toBe(join(cwd, 'logs'));
    expect(file).toBeNull();
    expect(Object.isFrozen(config)).toBe(true);
    expect(Object.isFrozen(loaded({ yaml: 'egress: {deny: [10.0.0.0/8]}' }).config['egress.deny'])).toBe(
      true,
    );
  });

  it('sources: flag > environment > file > default, with the origin of each value', () => {
    const { config, origins } = loaded({
      yaml: 'server:\n  port: 1\n  workers: 3\nlog:\n  days: 7\n',
      env: { DQ_SERVER__PORT: '2', DQ_SERVER__WORKERS: '4' },
      flags: { 'server.port': '3', 'timer.workers': undefined },
    });
    expect(config['server.port']).toBe(3);
    expect(config['server.workers']).toBe(4);
    expect(config['log.days']).toBe(7);
    expect(origins).toMatchObject({
      ...{ 'server.port': '--port', 'server.workers': 'DQ_SERVER__WORKERS', 'log.days': 'dq.yaml:5:3' },
      'timer.workers': 'default',
    });
  });

  it('file: -c before $DQ_CONFIG before ./dq.yaml', () => {
    writeFileSync(join(cwd, 'a.yaml'), 'log.days: 1');
    writeFileSync(join(cwd, 'b.yaml'), 'log.days: 2');
    const yaml = 'log.days: 3';
    const env = { DQ_CONFIG: 'b.yaml' };
    expect(loaded({ yaml, env, file: 'a.yaml' }).config['log.days']).toBe(1);
    expect(loaded({ yaml, env }).config['log.days']).toBe(2);
    expect(loaded({ yaml })).toMatchObject({ config: { 'log.days': 3 }, file: join(cwd, 'dq.yaml') });
  });

  it('paths: relative to their file, else to the working directory', () => {
    mkdirSync(join(cwd, 'etc'));
    writeFileSync(join(cwd, 'etc/dq.yaml'), 'dataDir: store\nlogDir: /var/log/dq');
    expect(loaded({ file: 'etc/dq.yaml' }).config).toMatchObject({
      dataDir: join(cwd, 'etc/store'),
      logDir: '/var/log/dq',
    });
    expect(loaded({ file: 'etc/dq.yaml', env: { DQ_DATADIR: 'x' } }).config.dataDir).toBe(join(cwd, 'x'));
    expect(loaded({ env: { DQ_DATA_DIR: 'y' } }).config.dataDir).toBe(join(cwd, 'y'));
    expect(loaded({ flags: { dataDir: 'z' } }).config.dataDir).toBe(join(cwd, 'z'));
  });

  it('logDir: - stays as it is; dataDir: - is a path', () => {
    expect(loaded({ yaml: 'logDir: "-"\ndataDir: "-"' }).config).toMatchObject({
      dataDir: join(cwd, '-'),
      logDir: '-',
    });
    expect(loaded({ flags: { logDir: '-' } }).config.logDir).toBe('-');
  });

  it('environment: ignores variables with other readers', () => {
    const env = { DQ_URL: 'http://x', DQ_TOKEN: 't', DQ_FAIL: 'a=kill', DQ_TEST_X: '1', PATH: '/bin' };
    expect(problemsOf({ env })).toEqual([]);
  });

  it.each<[string, Record<string, string>]>([
    [
      'Kubernetes, service dq',
      {
        DQ_SERVICE_HOST: '10.96.0.12',
        DQ_SERVICE_PORT: '6789',
        DQ_SERVICE_PORT_HTTP: '6789',
        DQ_PORT: 'tcp://10.96.0.12:6789',
        DQ_PORT_6789_TCP: 'tcp://10.96.0.12:6789',
        DQ_PORT_6789_TCP_PROTO: 'tcp',
        DQ_PORT_6789_TCP_PORT: '6789',
        DQ_PORT_6789_TCP_ADDR: '10.96.0.12',
      },
    ],
    [
      'Kubernetes, services dq-server, dq-journal and dq-redis, IPv6',
      {
        DQ_SERVER_SERVICE_HOST: 'fd00::1',
        DQ_SERVER_SERVICE_PORT: '80',
        DQ_SERVER_PORT: 'tcp://[fd00::1]:80',
        DQ_JOURNAL_PORT: 'tcp://10.96.0.13:80',
        DQ_REDIS_PORT_6379_TCP: 'tcp://10.96.0.14:6379',
        DQ_REDIS_PORT_53_UDP_ADDR: '10.96.0.14',
      },
    ],
    [
      'Docker, a link to a container as dq',
      {
        DQ_NAME: '/web/dq',
        DQ_PORT: 'tcp://172.17.0.5:6789',
        DQ_PORT_6789_TCP: 'tcp://172.17.0.5:6789',
        DQ_PORT_6789_TCP_START: 'tcp://172.17.0.5:6789',
        DQ_PORT_6789_TCP_PORT_END: '6790',
        DQ_ENV_NODE_VERSION: '22.1.0',
      },
    ],
  ])('environment: ignores variables of a service called dq: %s', (_, env) => {
    expect(problemsOf({ env })).toEqual([]);
    expect(loaded({ env }).config['server.port']).toBe(6789);
  });

  it('environment: the exact name of an option is not a service link', () => {
    expect(problemsOf({ env: { DQ_SERVER__PORT: 'tcp://1.2.3.4:80' } })).toEqual([
      'DQ_SERVER__PORT  server.port: must be a whole number',
    ]);
  });

  it('environment: an empty variable is not set, for all options and for one', () => {
    const yaml = 'dataDir: /y';
    const both = { DQ_DATADIR: '', DQ_DATA_DIR: '/x' };
    expect(loaded({ env: both, yaml }).config.dataDir).toBe('/x');
    expect(readVariable(both, 'dataDir')).toEqual({ raw: '/x' });
    const empty = { DQ_DATADIR: '', DQ_SERVER__PORT: '', DQ_SMTP__URL_FILE: '', DQ_TYPO: '', DQ_CONFIG: '' };
    expect(problemsOf({ env: empty })).toEqual([]);
    expect(loaded({ env: empty, yaml })).toMatchObject({ config: { dataDir: '/y', 'server.port': 6789 } });
    expect(readVariable(empty, 'dataDir')).toBeNull();
  });

  it('environment: a misspelt _FILE variable suggests the right one', () => {
    expect(problemsOf({ env: { DQ_SMTP_URL_FILE: '/f' } })).toEqual([
      'DQ_SMTP_URL_FILE  unknown variable; did you mean DQ_SMTP__URL_FILE?',
    ]);
  });

  it('environment: words of an option with and without underscores', () => {
    const { config } = loaded({});
    for (const [name, { only, kind }] of Object.entries(options) as [OptionName, Option][]) {
      if (only !== undefined) continue;
      const [joined, inWords = joined] = variablesOf(name);
      expect(joined).toBe(`DQ_${name.replaceAll('.', '__').toUpperCase()}`);
      expect(inWords?.replaceAll(/(?<!_)_(?!_)/g, '').replace('DQ', 'DQ_')).toBe(joined);
      if (!['path', 'count', 'bytes', 'duration'].includes(kind)) continue;
      const value =
        kind === 'path' ? join(cwd, 'elsewhere') : formatValue(options[name] as Option, config[name]);
      for (const variable of [joined, inWords])
        expect(loaded({ env: { [variable as string]: value } }).origins[name]).toBe(variable);
      expect(problemsOf({ env: { [joined as string]: value, [inWords as string]: value } })).toEqual([]);
    }
    expect(variablesOf('shutdownTimeout')).toEqual(['DQ_SHUTDOWNTIMEOUT', 'DQ_SHUTDOWN_TIMEOUT']);
    expect(variablesOf('limits.bodyBytes')).toEqual(['DQ_LIMITS__BODYBYTES', 'DQ_LIMITS__BODY_BYTES']);
  });

  it('profile: small sets fewer processes; explicit counts win, wherever they stand', () => {
    const countsOf = (input: Parameters<typeof loaded>[0]) => {
      const { config } = loaded(input);
      return [config['timer.workers'], config['notifier.workers']];
    };
    expect(countsOf({})).toEqual([1, 2]);
    expect(countsOf({ yaml: 'profile: small' })).toEqual([0, 1]);
    expect(countsOf({ yaml: 'profile: small\nnotifier: {workers: 2}' })).toEqual([0, 2]);
    expect(countsOf({ yaml: 'timer: {workers: 1}', flags: { profile: 'small' } })).toEqual([1, 1]);
    expect(loaded({ yaml: '', flags: { profile: 'small' } }).origins['timer.workers']).toBe('default');
    expect(problemsOf({ yaml: 'profile: tiny' })).toHaveLength(1);
  });

  it('pollCeiling: the same default with every store', () => {
    expect(loaded({ yaml: '' }).config.pollCeiling).toBe(1_000);
    expect(loaded({ yaml: 'redis: redis://x' })).toMatchObject({
      config: { pollCeiling: 1_000, redis: ['redis://x'] },
      origins: { pollCeiling: 'default' },
    });
    expect(loaded({ yaml: 'redis: [redis://x]\npollCeiling: 1s' }).config.pollCeiling).toBe(1_000);
    expect(loaded({ flags: { redis: 'redis://x', pollCeiling: '5ms' } }).config.pollCeiling).toBe(5);
  });

  it('redis: a group of several hosts from flag, environment and file', () => {
    const groups = ['redis+cluster://a:1,b:2', 'redis+sentinel://:x@c,d/m', 'redis://e'];
    const text = groups.join(', ');
    expect(loaded({ flags: { redis: text } }).config.redis).toEqual(groups);
    expect(loaded({ env: { DQ_REDIS: text } }).config.redis).toEqual(groups);
    expect(loaded({ yaml: `redis: ${text}` }).config.redis).toEqual(groups);
    expect(loaded({ flags: { redis: groups } }).config.redis).toEqual(groups);
  });

  it('file: empty, with an empty group, and with dotted names', () => {
    expect(problemsOf({ yaml: '' })).toEqual([]);
    expect(problemsOf({ yaml: '# nothing\n' })).toEqual([]);
    expect(problemsOf({ yaml: 'server:\n' })).toEqual([]);
    expect(loaded({ yaml: 'server.port: 5' }).config['server.port']).toBe(5);
  });
});

describe('loadConfig: values', () => {
  it.each<[OptionName, string, unknown]>([
    ['server.host', 'localhost', 'localhost'],
    ['server.host', '"::1"', '::1'],
    ['server.host', '127.8.9.10', '127.8.9.10'],
    ['server.port', '0', 0],
    ['server.port', '"65535"', 65_535],
    ['retry.unit', '200ms', 200],
    ['retry.unit', '30 min', 1_800_000],
    ['limits.bodyBytes', '1MiB', 1024 * 1024],
    ['limits.bodyBytes', '64 kib', 64 * 1024],
    ['limits.bodyBytes', '100', 100],
    ['shutdownTimeout', '0', 0],
    ['egress.policy', 'allowlist', 'allowlist'],
    ['egress.deny', '[10.0.0.0/8, "fd00::/8"]', ['10.0.0.0/8', 'fd00::/8']],
    ['egress.deny', '10.0.0.0/8, 192.168.0.0/16', ['10.0.0.0/8', '192.168.0.0/16']],
    ['log.request', 'off', 'off'],
    ['timezone', 'Asia/Shanghai', 'Asia/Shanghai'],
  ])('%s: %s', (name, text, value) => {
    expect(loaded({ yaml: `${name}: ${text}` }).config[name]).toEqual(value);
  });

  it('environment: text is read like YAML values', () => {
    const env = { DQ_RETRY__UNIT: '200ms', DQ_SHUTDOWNTIMEOUT: '5s', DQ_LIMITS__BODYBYTES: '1MiB' };
    expect(loaded({ env }).config).toMatchObject({
      'retry.unit': 200,
      shutdownTimeout: 5_000,
      'limits.bodyBytes': 1024 * 1024,
    });
  });

  it.each([
    ['server.port: 65536', 'dq.yaml:1:1  server.port: must be at least 0 and at most 65535, not 65536'],
    ['server.port: -1', 'dq.yaml:1:1  server.port: must be a whole number'],
    ['server.port: 1.5', 'dq.yaml:1:1  server.port: must be a whole number'],
    ['server.port: abc', 'dq.yaml:1:1  server.port: must be a whole number'],
    ['server: {port: }', 'dq.yaml:1:10  server.port: has no value'],
    ['server: {port: [1]}', 'dq.yaml:1:10  server.port: must be a whole number'],
    ['server.workers: 0', 'dq.yaml:1:1  server.workers: must be at least 1 and at most 64, not 0'],
    ['retry.unit: 1w', 'dq.yaml:1:1  retry.unit: unknown unit "w"; write ms, s, m, h or d'],
    ['shutdownTimeout: 30', 'dq.yaml:1:1  shutdownTimeout: 30 has no unit; write "30s" or "30ms"'],
    ['retry.unit: 2d', 'dq.yaml:1:1  retry.unit: must be at least 1ms and at most 1d, not 2d'],
    ['pollCeiling: 2s', 'dq.yaml:1:1  pollCeiling: must be at least 1ms and at most 1s, not 2s'],
    [
      'limits.bodyBytes: 17MiB',
      'dq.yaml:1:1  limits.bodyBytes: must be at least 1 and at most 16MiB, not 17MiB',
    ],
    ['limits.bodyBytes: 1MB', /must be a number of bytes such as/],
    ['log.level: loud', 'dq.yaml:1:1  log.level: must be one of error, info, debug'],
    ['log.level: true', 'dq.yaml:1:1  log.level: must be one of error, info, debug'],
    [
      'timezone: Mars/Olympus',
      'dq.yaml:1:1  timezone: unknown time zone "Mars/Olympus"; write an IANA name such as Asia/Shanghai',
    ],
    ['dataDir: 5', 'dq.yaml:1:1  dataDir: must be text'],
    ['dataDir: {a: 1}', 'dq.yaml:1:1  dataDir: must be text'],
    ['dataDir: "  "', 'dq.yaml:1:1  dataDir: must not be empty'],
    ['dataDir: "a\\0b"', 'dq.yaml:1:1  dataDir: must not contain control characters'],
    [
      'egress.deny: [10.0.0.0/33]',
      'dq.yaml:1:1  egress.deny: "10.0.0.0/33" must have a prefix length between 0 and 32',
    ],
    ['egress.deny: [10.0.0]', /^dq.yaml:1:1 {2}egress.deny: "10.0.0" must be an address or a CIDR range/],
    ['egress.deny: [5]', 'dq.yaml:1:1  egress.deny: item 1 must be text'],
    ['egress.deny: {a: 1}', 'dq.yaml:1:1  egress.deny: must be a list'],
    ['server.prot: 1', 'dq.yaml:1:1  unknown option "server.prot"; did you mean server.port?'],
    ['sever:\n  port: 1', 'dq.yaml:2:3  unknown option "sever.port"; did you mean server.port?'],
    ['data-dir: x', 'dq.yaml:1:1  unknown option "data-dir"; did you mean dataDir?'],
    ['datadir: x', 'dq.yaml:1:1  unknown option "datadir"; did you mean dataDir?'],
    ['frobnicate: 1', 'dq.yaml:1:1  unknown option "frobnicate"; see `dq config init` for the names'],
    [
      '__proto__: {polluted: 1}',
      'dq.yaml:1:13  unknown option "__proto__.polluted"; see `dq config init` for the names',
    ],
    ['constructor: 1', 'dq.yaml:1:1  unknown option "constructor"; see `dq config init` for the names'],
    ['server: 5', 'dq.yaml:1:1  server: is a group of options; name one of them'],
    ['noAuth: true', 'dq.yaml:1:1  noAuth: is for the command line only; write --no-auth'],
    [
      'server.port: 1\nserver:\n  port: 2',
      'dq.yaml:3:3  server.port: is given twice; remove it here or at dq.yaml:1:1',
    ],
    ['server: {port: 1}\nserver: {port: 2}', /^dq.yaml:2:1 {2}Map keys must be unique/],
    ['a: [1', /^dq.yaml:1:6 {2}/],
    ['- a', 'dq.yaml:1:1  must be a list of "option: value" lines'],
    ['server: &s {port: 1, s: *s}', /aliases are not supported/],
    ['a: 1\n---\nb: 2', /multiple documents/],
    ['redis: [redis+sentinel://x]', /^dq.yaml:1:1 {2}redis: must end with the sentinels' name of the master/],
    [
      'mysql: {url: mysql://u@x}',
      'dq.yaml:1:9  mysql.url: must name a database of letters, digits, _ and - after the host',
    ],
  ])('rejects %j', (yaml, problem) => {
    expect(problemsOf({ yaml })).toEqual([
      typeof problem === 'string' ? problem : expect.stringMatching(problem),
    ]);
  });

  it.each([
    [{ DQ_SERVER__PROT: '1' }, 'DQ_SERVER__PROT  unknown variable; did you mean DQ_SERVER__PORT?'],
    [{ DQ_RETRY_UNIT: '1' }, 'DQ_RETRY_UNIT  unknown variable; did you mean DQ_RETRY__UNIT?'],
    [
      { DQ_EGRESS__DENY: '10.0.0.0/8' },
      'DQ_EGRESS__DENY  egress.deny is for the configuration file only; set it there',
    ],
    [{ DQ_NOAUTH: 'true' }, 'DQ_NOAUTH  is for the command line only; write --no-auth'],
    [{ DQ_MYSQL__URL_FILE: '/x' }, /^DQ_MYSQL__URL_FILE {2}cannot read the file: ENOENT/],
    [
      { DQ_MYSQL__URL: 'mysql://u:p%zz@h/dq' },
      /^DQ_MYSQL__URL {2}mysql.url: must have user and password percent-encoded/,
    ],
    [{ DQ_REDIS: 'http://x' }, /^DQ_REDIS {2}redis: must begin with redis:/],
    [
      { DQ_DATADIR: 'a', DQ_DATA_DIR: 'b' },
      'DQ_DATA_DIR  dataDir: DQ_DATADIR sets another value; remove one of them',
    ],
    [
      { DQ_LIMITS__BODY_BYTES: '1KiB', DQ_LIMITS__BODYBYTES: '2KiB' },
      'DQ_LIMITS__BODYBYTES  limits.bodyBytes: DQ_LIMITS__BODY_BYTES sets another value; remove one of them',
    ],
    [{ DQ_LOG__DAYS_FILE: '/x' }, /^DQ_LOG__DAYS_FILE {2}unknown variable; did you mean DQ_LOG__DAYS\?/],
    [{ DQ_SHUTDOWN_TIMEOT: '1s' }, /unknown variable; did you mean DQ_SHUTDOWN_TIMEOUT\?/],
    [{ DQ_SHUT_DOWN_TIMEOUT: '1s' }, /unknown variable; did you mean DQ_SHUTDOWN_TIMEOUT\?/],
    [{ DQ_PORT: '6790' }, 'DQ_PORT  unknown variable; did you mean DQ_SERVER__PORT?'],
    [{ DQ_SERVER_PORT: '6790' }, 'DQ_SERVER_PORT  unknown variable; did you mean DQ_SERVER__PORT?'],
    [{ DQ_NAME: 'dq' }, /^DQ_NAME {2}unknown variable/],
    [{ DQ_ENV_PATH: '/bin' }, /^DQ_ENV_PATH {2}unknown variable/],
    [{ DQ_SERVICE_PORT: 'tcp' }, /^DQ_SERVICE_PORT {2}unknown variable/],
    [
      { DQ_FROBNICATE: '1' },
      'DQ_FROBNICATE  unknown variable; remove it, or see `dq config init` for the names of all options',
    ],
  ])('rejects %j', (env, problem) => {
    expect(problemsOf({ env })).toEqual([
      typeof problem === 'string' ? problem : expect.stringMatching(problem),
    ]);
  });

  it('flags: a problem names the flag as the user wrote it', () => {
    expect(problemsOf({ flags: { 'server.port': 'x' } })).toEqual([
      '--port  server.port: must be a whole number',
    ]);
  });

  it('problems: all at once, including overridden values', () => {
    const found = problemsOf({
      yaml: 'server:\n  port: x\n  prot: 1\ntimezone: Nowhere\n',
      env: { DQ_LOG__DAYS: '0', DQ_OTHER: '1' },
      flags: { 'server.port': '1' },
    });
    expect(found.map((text) => text.split('  ')[0]).sort()).toEqual(
      ['DQ_LOG__DAYS', 'DQ_OTHER', 'dq.yaml:2:3', 'dq.yaml:3:3', 'dq.yaml:4:1'].sort(),
    );
  });

  it('file: rejects a missing file, a directory and a large file', () => {
    expect(problemsOf({ file: 'absent.yaml' })[0]).toMatch(/^absent.yaml {2}cannot read the file: ENOENT/);
    expect(problemsOf({ env: { DQ_CONFIG: cwd } })[0]).toMatch(/cannot read the file: EISDIR/);
    expect(problemsOf({ yaml: `#${'x'.repeat(1024 * 1024)}` })[0]).toMatch(/larger than 1 MiB/);
  });
});

describe('loadConfig: cross-checks', () => {
  // The start checks whether an address needs an access token.
  it.each(['0.0.0.0', '::', '192.168.1.5', 'dq.example.org'])('other machines: %s', (host) => {
    expect(isLoopback(host)).toBe(false);
    expect(loaded({ flags: { 'server.host': host } }).config['server.host']).toBe(host);
  });

  it.each(['127.0.0.1', '127.0.0.53', '::1', '::ffff:127.0.0.1', 'localhost'])(
    'this machine alone: %s',
    (host) => {
      expect(isLoopback(host)).toBe(true);
    },
  );

  it.each(['::ffff:10.0.0.1', '::ffff:0.0.0.0', 'localhost.example.org', '127.0.0.1.example.org'])(
    'does not take %s for this machine alone',
    (host) => {
      expect(isLoopback(host)).toBe(false);
    },
  );

  it('a journal needs Redis, MySQL, a history and bodies that fit into a packet', () => {
    const both = 'redis: [redis://a]\nmysql: {url: mysql://u@h/d}\n';
    expect(problemsOf({ yaml: 'journal: {mode: sync}\n' })).toEqual([
      expect.stringContaining('journal.mode: sync needs redis and mysql.url'),
    ]);
    expect(
      problemsOf({
        yaml: `${both}journal: {mode: sync}\nhistory: {retention: 30m}\nlimits: {bodyBytes: 2mib}\n`,
      }),
    ).toEqual([
      expect.stringContaining('limits.bodyBytes: must be at most 1mib with journal.mode'),
      expect.stringContaining('history.retention: must be at least 1h with journal.mode'),
    ]);
  });

  it('a journal is on by default with Redis and MySQL; where it cannot work, a warning says so', () => {
    const both = 'redis: [redis://a]\nmysql: {url: mysql://u@h/d}\n';
    const modeOf = (yaml: string) => loaded({ yaml }).config['journal.mode'];
    expect(modeOf('')).toBe('off');
    expect(modeOf('redis: [redis://a]\n')).toBe('off');
    expect(modeOf('mysql: {url: mysql://u@h/d}\n')).toBe('off');
    expect(modeOf(both)).toBe('sync');
    expect(modeOf(`${both}journal: {mode: off}\n`)).toBe('off');
    for (const more of ['limits: {bodyBytes: 2mib}\n', 'history: {retention: 30m}\n']) {
      const { config, warnings } = loaded({ yaml: both + more });
      expect(config['journal.mode']).toBe('off');
      expect(warnings.map(({ message }) => message)).toEqual([
        expect.stringContaining('journal.mode: is off, because'),
      ]);
      expect(loaded({ yaml: `${both}${more}journal: {mode: off}\n` }).warnings).toEqual([]);
    }
  });

  it('warns of slots beyond the open files and of an empty allowlist', () => {
    const { config, origins } = loaded({ yaml: 'egress.policy: allowlist' });
    const { problems, warnings } = crossCheck(config, origins, { openFilesMax: 512 });
    expect(problems).toEqual([]);
    expect(warnings.map(({ message }) => message)).toEqual([
      'egress.allow: is empty with egress.policy allowlist: dq can call nothing',
      'notifier.slots: needs about 704 file descriptors in each notifier; the limit is 512 (ulimit -n)',
    ]);
    expect(crossCheck(config, origins, { openFilesMax: 704 }).warnings).toHaveLength(1);
    expect(crossCheck(config, origins, { openFilesMax: null }).warnings).toHaveLength(1);
  });
});

describe('loadConfig: ports for clients of other queues', () => {
  it('compat: reads flags, environment and file; none listens by default', () => {
    expect(compatPortsOf(loaded({}).config)).toEqual([]);
    for (const input of [
      { flags: { 'compat.php.port': '6780' } },
      { env: { DQ_COMPAT__PHP__PORT: '6780' } },
      { yaml: 'compat: {php: {port: 6780}, allow: [10.0.0.0/8], scopes: [push], topics: ["a.*"]}' },
    ])
      expect(compatPortsOf(loaded(input).config)).toEqual([{ protocol: 'php', port: 6780 }]);
  });

  it('compat: its callers may push, read and pull in all topics unless the file says otherwise', () => {
    const { config } = loaded({});
    expect(config['compat.scopes']).toEqual(['push', 'read', 'pull']);
    expect(config['compat.topics']).toEqual(['*']);
    expect(config['compat.autoTopics']).toBe('pull');
  });

  it.each([
    [
      'compat: {php: {port: 6789}}',
      'compat.php.port: 6789 is also the port of server.port; choose another one',
    ],
    [
      'compat: {php: {port: 7000}}\nconsole: {port: 7000}',
      'compat.php.port: 7000 is also the port of console.port; choose another one',
    ],
    ['compat: {allow: [10/8]}', 'compat.allow: "10/8" must be an address or a CIDR range'],
    ['compat: {scopes: [write]}', 'compat.scopes: unknown scope "write"; write push, pull, read'],
    [
      'compat: {host: 0.0.0.0, php: {port: 7000}}',
      'compat.host: 0.0.0.0 can be reached from other machines; list the callers in compat.allow',
    ],
  ])('compat: rejects %s', (yaml, message) => {
    expect(problemsOf({ yaml }).join()).toContain(message);
  });

  it('compat: accepts other machines with a list of callers, or with --no-auth', () => {
    const yaml = 'compat: {host: 0.0.0.0, php: {port: 7000}}';
    expect(problemsOf({ yaml: 'compat: {host: 0.0.0.0}' })).toEqual([]);
    expect(problemsOf({ yaml: yaml.replace('{', '{allow: [10.0.0.0/8], ') })).toEqual([]);
    expect(problemsOf({ yaml, flags: { noAuth: true } })).toEqual([]);
    expect(problemsOf({ yaml: 'compat: {php: {port: 0}}\nserver: {port: 0}' })).toEqual([]);
  });

  it('compat: the default port of the console makes way', () => {
    expect(consolePortOf(loaded({ flags: { 'compat.php.port': '8088' } }).config)).toBe(0);
  });
});

describe('loadConfig: console', () => {
  it('port: 8088, or a free one beside a free or equal server.port', () => {
    const portOf = (flags: Readonly<Record<string, unknown>>) => consolePortOf(loaded({ flags }).config);
    expect(portOf({})).toBe(8088);
    expect(portOf({ 'server.port': '0' })).toBe(0);
    expect(portOf({ 'server.port': '8088' })).toBe(0);
    expect(portOf({ 'server.port': '0', 'console.port': '8088' })).toBe(8088);
    expect(portOf({ 'console.port': '0' })).toBe(0);
  });

  it('port: rejects the one of the API', () => {
    expect(problemsOf({ yaml: 'console: {port: 6789}' })).toEqual([
      'dq.yaml:1:11  console.port: 6789 is the port of the HTTP API (server.port); choose another one',
    ]);
    expect(problemsOf({ yaml: 'console: {port: 6789, enabled: false}' })).toEqual([]);
    expect(problemsOf({ yaml: 'console: {port: 0}\nserver: {port: 0}' })).toEqual([]);
  });

  it.each([
    ['https://ops.example.org', true],
    ['http://ops.example.org:8443/dq/', true],
    ['ops.example.org', false],
    ['ftp://ops.example.org', false],
    ['https://u:p@ops.example.org', false],
    ['https://ops.example.org/?a=1', false],
    ['https://ops.example.org/#a', false],
    ['https://ops.example.org/"x', false],
    ['https://ops.example.org//x', false],
  ])('publicUrl: %s is accepted: %s', (url, isAccepted) => {
    expect(load({ env: { DQ_CONSOLE__PUBLICURL: url } }).ok).toBe(isAccepted);
  });
});

describe('loadConfig: mail', () => {
  const mail = (values: object) => ({
    yaml: stringify({ smtp: { url: 'smtp://h', from: 'dq@h' }, ...values }),
  });

  it('mail: accepts a server with sender and recipients', () => {
    const { config, warnings } = loaded(mail({ alerts: { emails: ['a@b.c'], window: '1m' } }));
    expect(config).toMatchObject({
      'smtp.url': 'smtp://h',
      'smtp.from': 'dq@h',
      'alerts.emails': ['a@b.c'],
      'alerts.window': 60_000,
    });
    expect(warnings).toEqual([]);
  });

  it.each([
    [{ smtp: { url: 'smtp://h' } }, 'dq.yaml:2:3  smtp.url: needs smtp.from, the sender address of mails'],
    [{ smtp: { from: 'dq@h' } }, 'dq.yaml:2:3  smtp.from: needs smtp.url, the mail server'],
    [
      { smtp: { url: 'smtp://h', from: 'dq <dq@h>' } },
      'dq.yaml:3:3  smtp.from: invalid mail address "dq <dq@h>"; write one such as dq@example.org',
    ],
    [
      { smtp: { url: 'http://h', from: 'dq@h' } },
      'dq.yaml:2:3  smtp.url: must begin with smtp:// or smtps://',
    ],
    [
      { alerts: { emails: ['a@b.c', 'a@b.c,d@e.f'] } },
      'dq.yaml:2:3  alerts.emails: invalid mail address "a@b.c,d@e.f"; write one such as ops@example.org',
    ],
    [
      { alerts: { hooks: ['a=slack+https://h/', 'a=wecom+https://h/'] } },
      'dq.yaml:2:3  alerts.hooks: "a" is named twice',
    ],
    [
      { alerts: { defaultHooks: ['ops'] } },
      'dq.yaml:2:3  alerts.defaultHooks: "ops" is not a name of alerts.hooks; add the hook there',
    ],
    [{ alerts: { window: 0 } }, 'dq.yaml:2:3  alerts.window: must be at least 1s and at most 1d, not 0s'],
  ])('rejects %j', (values, problem) => {
    expect(problemsOf({ yaml: stringify(values) })).toEqual([problem]);
  });

  it('hooks: several in one variable, whose URLs may hold commas; never shown', () => {
    const env = { DQ_ALERTS__HOOKS: 'a=slack+https://h/s3cret,1, b=wecom+https://h/?key=s3cret' };
    const { config, origins } = loaded({ env });
    expect(config['alerts.hooks']).toEqual(['a=slack+https://h/s3cret,1', 'b=wecom+https://h/?key=s3cret']);
    expect(JSON.stringify(describeConfig(config, origins))).not.toContain('s3cret');
  });

  const b = (name: string) => `${name}=amqp091+amqp://u:s3cret@h`;
  it.each([
    [[b('a'), 'b=amqp091+http://u:s3cret@h'], 'item 2 must be NAME=TYPE+URL with a type of amqp091,'],
    [['a=stomp+amqp://u:s3cret@h'], 'item 1 "a" must begin with stomp:// or stomps://'],
    [[b('a'), b('b'), b('a')], '"a" is named twice; give one of them another name'],
    [Array.from({ length: 33 }, (_, n) => b(`b${n}`)), 'must be at most 32 brokers'],
  ])('brokers: %j', (brokers, problem) => {
    const found = problemsOf({ yaml: stringify({ brokers }) });
    expect(found).toEqual([expect.stringContaining(`dq.yaml:1:1  brokers: ${problem}`)]);
    expect(found.join()).not.toContain('s3cret');
  });

  it('brokers: several in one variable or file, whose passwords may hold commas; never shown', () => {
    const url = 'amqps://u:s3cret,1@h?tls.rejectUnauthorized=false';
    const text = `a=amqp091+${url}, b=stomp+stomp://h`;
    writeFileSync(join(cwd, 'brokers'), `${text}\n`);
    for (const env of [{ DQ_BROKERS: text }, { DQ_BROKERS_FILE: join(cwd, 'brokers') }]) {
      const { config, origins, warnings } = loaded({ env });
      expect(config.brokers).toEqual([`a=amqp091+${url}`, 'b=stomp+stomp://h']);
      expect(warnings.map(({ message }) => message)).toEqual([
        'brokers: dq does not check the certificate of a (tls.rejectUnauthorized=false)',
      ]);
      const shown = describeConfig(config, origins);
      expect(shown).toContainEqual({ name: 'brokers', value: '********', origin: Object.keys(env)[0] });
      expect(JSON.stringify([shown, warnings])).not.toContain('s3cret');
    }
  });

  it('mail: problems never repeat the password', () => {
    const url = 'smtp://user:s3cret@h?pool=true';
    expect(problemsOf(mail({ smtp: { url, from: 'dq@h' } })).join()).not.toContain('s3cret');
    const { config, origins } = loaded(mail({ smtp: { url: 'smtp://user:s3cret@h', from: 'dq@h' } }));
    expect(describeConfig(config, origins)).toContainEqual({
      name: 'smtp.url',
      value: '********',
      origin: 'dq.yaml:2:3',
    });
  });

  it('mail: warns of recipients without server and unchecked certificates', () => {
    const warningsOf = (values: object) =>
      loaded({ yaml: stringify(values) }).warnings.map(({ message }) => message);
    expect(warningsOf({ alerts: { emails: ['a@b.c'] } })).toEqual([
      'alerts.emails: has no effect without smtp.url',
    ]);
    const url = 'smtp://h?tls.rejectUnauthorized=false';
    expect(warningsOf({ smtp: { url, from: 'dq@h' } })).toEqual([
      'smtp.url: dq does not check the certificate of the mail server (tls.rejectUnauthorized=false)',
    ]);
  });
});

describe('readEnvironment', () => {
  const declared = { 'console.password': { kind: 'text', default: '', help: 'x', secret: true } } as const;

  it('reads a secret from the file that _FILE names', () => {
    const path = join(cwd, 'secret');
    writeFileSync(path, 'pass word\n');
    expect(readEnvironment({ DQ_CONSOLE__PASSWORD_FILE: path }, cwd, declared).given).toEqual([
      expect.objectContaining({
        name: 'console.password',
        raw: 'pass word',
        where: 'DQ_CONSOLE__PASSWORD_FILE',
      }),
    ]);
    const { problems } = readEnvironment({ DQ_CONSOLE__PASSWORD_FILE: join(cwd, 'absent') }, cwd, declared);
    expect(problems.map(formatProblem)).toEqual([
      expect.stringMatching(/_FILE {2}cannot read the file: ENOENT/),
    ]);
  });
});

describe('formatProblem', () => {
  it('leaves the place of a default out', () => {
    const message = 'notifier.slots: needs more file descriptors';
    expect(formatProblem({ where: 'default', message })).toBe(message);
    expect(formatProblem({ where: 'dq.yaml:3:5', message })).toBe(`dq.yaml:3:5  ${message}`);
  });
});

describe('show', () => {
  it('table of the manual: lists every option once', () => {
    const table = renderConfigTable();
    for (const [name, option] of Object.entries(options))
      expect(table).toContain(option.only === 'flag' ? `| – | \`${option.flag}\` |` : `| \`${name}\` |`);
    expect(table.trimEnd().split('\n')).toHaveLength(Object.keys(options).length + 2);
    expect(table).toContain(
      '| `limits.bodyBytes` | | `DQ_LIMITS__BODYBYTES` | `256KiB` | Largest job body |',
    );
  });

  it('config file: loads as the defaults', () => {
    const text = renderConfigFile();
    expect(problemsOf({ yaml: text })).toEqual([]);
    // A default can have parentheses of its own.
    expect(text).toContain('# HTTP intake processes. Default: 1 (2 from 4 cores)\n');
    expect(text).not.toMatch(/\([^()]*\([^()]*\)\)/);
    const uncommented = text
      .split('\n')
      .filter((line) => !/: *$/.test(line) || !line.includes('#'))
      .map((line) => line.replace(/^( *)# ([A-Za-z]+:)/, '$1$2'))
      .join('\n');
    const { config, origins } = loaded({ yaml: uncommented });
    expect(config['limits.bodyBytes']).toBe(256 * 1024);
    expect(origins['limits.bodyBytes']).toMatch(/^dq.yaml:/);
  });

  it('show: each value as in dq.yaml, with its origin', () => {
    const { config, origins } = loaded({ env: { DQ_RETRY__UNIT: '90s' } });
    const rows = describeConfig(config, origins);
    expect(rows).toContainEqual({ name: 'retry.unit', value: '1m30s', origin: 'DQ_RETRY__UNIT' });
    expect(rows).toHaveLength(Object.keys(options).length);
  });

  it.each([
    [0, '0'],
    [1000, '1000'],
    [1024, '1KiB'],
    [1536, '1536'],
    [16 * 1024 ** 2, '16MiB'],
  ])('formats %d bytes as %s', (n, text) => expect(formatBytes(n)).toBe(text));
});
