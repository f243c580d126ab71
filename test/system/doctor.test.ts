// Tests dq doctor: no failure on a healthy machine, and each failure on others.
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createConnection } from 'mysql2/promise';
import { describe, expect, it, vi } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import type { Finding } from '../../src/core/finding.ts';
import { checkAuthorities, checkNode, checkOpenFiles, checkProxy } from '../../src/doctor/machine.ts';
import { CallBudget } from '../../src/notifier/call-budget.ts';
import { IncidentFiles, newIncident } from '../../src/process/incident-files.ts';
import { openRegistryDb } from '../../src/registry/sql/registry-db.ts';
import { createAuthority, noCertificates } from '../support/certificates.ts';
import { launcher, startDaemon } from '../support/daemon.ts';
import { testDirectory } from '../support/directory.ts';
import { listening } from '../support/listening.ts';
import { fillUp, mountTmpfs, unmountable } from '../support/mounted.ts';
import { runDq } from '../support/run-dq.ts';
import { lacks, mariadb, owned } from '../support/services.ts';
import { startSmtpSink } from '../support/smtp-sink.ts';
import { until } from '../support/until.ts';

/** The port is free, unless `config` names one. */
async function doctor(cwd: string, config: Record<string, unknown> = {}) {
  writeFileSync(join(cwd, 'dq.yaml'), JSON.stringify({ 'server.port': 0, ...config }));
  const { code, stdout, stderr } = await runDq(['doctor', '--json', '-c', 'dq.yaml'], { cwd });
  expect(stdout, stderr).not.toBe('');
  const findings = JSON.parse(stdout) as readonly Finding[];
  const stateOf = (check: string) => findings.filter((one) => one.check === check).map(({ state }) => state);
  const about = (check: string) => findings.find((one) => one.check === check)?.about;
  return { code, findings, stateOf, about };
}

it('doctor: reports a file of authorities that cannot be read', () => {
  const cwd = testDirectory();
  const absent = join(cwd, 'absent.pem');
  const empty = join(cwd, 'empty.pem');
  writeFileSync(empty, 'no certificate\n');
  expect(checkAuthorities({})).toEqual([]);
  expect(checkAuthorities({ NODE_EXTRA_CA_CERTS: absent })).toMatchObject([
    { state: 'warning', about: expect.stringContaining(`cannot read ${absent} (ENOENT)`) },
  ]);
  expect(checkAuthorities({ NODE_EXTRA_CA_CERTS: cwd })).toMatchObject([
    { state: 'warning', about: expect.stringContaining('is not a file') },
  ]);
  expect(checkAuthorities({ NODE_EXTRA_CA_CERTS: empty })).toMatchObject([
    { state: 'warning', about: expect.stringContaining('has no certificate (PEM)') },
  ]);
  if (noCertificates === null) {
    const { path } = createAuthority();
    expect(checkAuthorities({ NODE_EXTRA_CA_CERTS: path })).toMatchObject([
      { state: 'ok', about: expect.stringContaining('certificates: 1') },
    ]);
    const pem = readFileSync(path, 'latin1');
    // Node reads no certificate of the first one, and one of the second.
    const trusted = pem.replaceAll(' CERTIFICATE-', ' TRUSTED CERTIFICATE-');
    for (const [text, about] of [
      [trusted, 'has no certificate (PEM)'],
      [pem + pem.slice(0, 200), 'certificate 2 of'],
    ] as const) {
      const file = join(cwd, 'odd.pem');
      writeFileSync(file, text);
      expect(checkAuthorities({ NODE_EXTRA_CA_CERTS: file })).toMatchObject([
        { state: 'warning', about: expect.stringContaining(about) },
      ]);
    }
  }
});

it('doctor: finds no failure on a sound machine, and leaves no file', async () => {
  const cwd = testDirectory();
  const { code, findings, stateOf } = await doctor(cwd);
  expect(findings.filter(({ state }) => state === 'failed')).toEqual([]);
  expect(code).toBe(0);
  expect(stateOf('sqlite')).toEqual(['ok']);
  expect(stateOf('disk sync')).toHaveLength(1);
  expect(readdirSync(cwd)).toEqual(['dq.yaml']);
  const table = await runDq(['doctor', '-c', 'dq.yaml'], { cwd });
  expect(table.stdout).toMatch(/^CHECK +STATE +FINDING\n/);
});

it('doctor: asks a running daemon; without one checks its files', async () => {
  const daemon = await startDaemon();
  const config = { dataDir: daemon.dataDir, logDir: daemon.logDir };
  const running = await doctor(testDirectory(), config);
  expect(running.code).toBe(0);
  expect(running.about('daemon')).toMatch(new RegExp(`pid ${daemon.pid}, ready, 0 restarts$`));
  expect(running.about('store')).toMatch(/survives the death of any process/);
  expect(running.about('topics')).toBe('no waiting jobs are held');

  expect(running.stateOf('mail server')).toEqual([]);
  const mailed = { topic: 'mailed', callbackUrl: 'http://127.0.0.1:1/', alertEmails: ['ops@example.org'] };
  expect((await daemon.api('POST', '/v1/topics', mailed)).status).toBe(201);
  const unsent = await doctor(testDirectory(), config);
  expect([unsent.code, unsent.stateOf('mail server')]).toEqual([0, ['warning']]);
  expect(unsent.about('mail server')).toBe(
    'smtp.url is not set, so no mail goes out to the alert addresses of mailed: set it, and reload',
  );

  await daemon.stop();
  const stopped = await doctor(testDirectory(), config);
  expect(stopped.code).toBe(0);
  expect(stopped.about('store')).toMatch(/^\d+\.\d MiB/);

  utimesSync(join(daemon.dataDir, 'registry.db'), new Date(), new Date(Date.now() + 60_000));
  const ahead = await doctor(testDirectory(), config);
  expect(ahead.stateOf('clock')).toEqual(['failed']);
  expect(ahead.about('clock')).toMatch(/registry\.db is ([1-5]\d|60) s in the future/);
  utimesSync(join(daemon.dataDir, 'registry.db'), new Date(), new Date());

  rmSync(join(daemon.dataDir, 'secret.key'));
  const keyless = await doctor(testDirectory(), config);
  expect(keyless.code).toBe(1);
  expect(keyless.about('store')).toMatch(/secret\.key is missing/);

  writeFileSync(join(daemon.dataDir, 'jobs.db'), 'not a database');
  expect((await doctor(testDirectory(), config)).about('store')).toMatch(/jobs\.db is not a SQLite file$/);
  rmSync(join(daemon.dataDir, 'jobs.db'));
  expect((await doctor(testDirectory(), config)).about('store')).toMatch(/jobs\.db is missing/);
  expect(existsSync(join(daemon.dataDir, 'jobs.db'))).toBe(false);
});

it('doctor: finds beside a daemon what the console finds', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'dq-doctor-'));
  // Only an instance with a journal would end it.
  const lost = { kind: 'went_back', about: 'a', state: 'begun', detail: 'a lost jobs' } as const;
  await new IncidentFiles(join(directory, 'data')).write(newIncident(lost, []));
  const logDir = join(directory, 'logs');
  const config = {
    egress: { policy: 'allowlist' },
    alerts: { hooks: ['ops=slack+http://127.0.0.1:2/'] },
    logDir,
  };
  const absent = join(directory, 'absent.pem');
  const extra = { NODE_EXTRA_CA_CERTS: absent };
  const daemon = await startDaemon({ directory, config, console: true, env: extra });
  for (const topic of ['held', 'empty', 'open']) {
    const settings = { topic, delivery: 'pull', delay: '1h' };
    expect((await daemon.api('POST', '/v1/topics', settings)).status).toBe(201);
    if (topic !== 'empty') await daemon.push(topic, '1');
    if (topic !== 'open') expect((await daemon.api('POST', `/v1/topics/${topic}/pause`)).status).toBe(200);
  }
  await daemon.push('held', '2');
  expect(daemon.output()).toContain(`dq: warning: NODE_EXTRA_CA_CERTS: cannot read ${absent} (ENOENT)`);
  const { warnings } = (await daemon.api('GET', '/readyz')).body;
  expect(warnings).toContainEqual(expect.stringContaining(`cannot read ${absent} (ENOENT)`));
  const cli = ['doctor', '--json', '-c', 'dq.yaml', '--data-dir', daemon.dataDir];
  const env = { DQ_CONSOLE__ENABLED: 'true', ...extra };
  const { stdout } = await runDq(cli, { cwd: directory, env });
  const url = await daemon.consoleUrl();
  const json = { 'content-type': 'application/json' };
  const begun = await fetch(`${url}/v1/session`, { method: 'POST', headers: json, body: '{}' });
  const { key } = (await begun.json()) as { key: string };
  const headers = { cookie: begun.headers.get('set-cookie')?.split(';')[0] ?? '', 'x-dq-key': key };
  await fetch(`${url}/v1/doctor`, { method: 'POST', headers });
  const inConsole = await until('the checks have ended', async () => {
    const run = (await (await fetch(`${url}/v1/doctor`, { headers })).json()) as {
      state: string;
      findings: readonly Finding[];
    };
    return run.state === 'done' ? run.findings : null;
  });
  // Times and free space differ, so also the state of the disk, which a time decides; the limits are those of
  // the own process.
  const comparable = (findings: readonly Finding[]) =>
    findings
      .filter(({ check }) => check !== 'open files')
      .map(({ check, state, about }) =>
        check === 'disk sync' ? check : `${check} ${state} ${about.replace(/\d+(\.\d+)?/g, '#')}`,
      );
  const found = comparable(JSON.parse(stdout));
  expect(comparable(inConsole)).toEqual(found);
  expect(found.join('\n')).toMatch(/configuration warning .*egress\.allow: is empty/);
  expect(found).toContain(
    'topics warning dq calls no job of these topics: held (paused, # waiting); dq explain TOPIC says what to do',
  );
  expect(found.join('\n')).toMatch(
    /readyz warning .*a lost jobs \(reported at \S+\); dq journal shows the restore/,
  );
});

it('doctor: logs in to the mail server and connects to each hook, and sends neither anything', async () => {
  const [user, password] = ['dq', 'pw-canary'];
  const mails = await startSmtpSink({
    allowInsecureAuth: true,
    onAuth: ({ username, password: given }, _session, done) =>
      given === password ? done(null, { user: username ?? '' }) : done(new Error('wrong password')),
  });
  let requests = 0;
  let connections = 0;
  const hook = createHttpServer(() => (requests += 1));
  hook.on('connection', () => (connections += 1));
  const port = await listening(hook);
  const of = (given: string) => ({
    'smtp.url': `smtp://${user}:${given}@127.0.0.1:${mails.port}?ignoreTLS=true`,
    'smtp.from': 'dq@example.org',
    'alerts.hooks': [
      `ops=slack+http://127.0.0.1:${port}/services/T0-canary`,
      'gone=slack+http://127.0.0.1:2/services/T0-canary',
      'nowhere=wecom+https://nowhere.invalid/send?key=T0-canary',
    ],
  });
  const { code, findings, stateOf, about } = await doctor(testDirectory(), of(password));
  expect(about('mail server')).toMatch(
    new RegExp(`^127\\.0\\.0\\.1:${mails.port} accepts the login, in \\d+ ms$`),
  );
  expect(stateOf('hook')).toEqual(['ok', 'failed', 'failed']);
  const hooks = findings.filter(({ check }) => check === 'hook').map((finding) => finding.about);
  expect(hooks[0]).toMatch(/^ops at 127\.0\.0\.1:\d+ accepts the connection, in \d+ ms$/);
  expect(hooks[1]).toMatch(/^gone at 127\.0\.0\.1:2: .*ECONNREFUSED.*; no alert reaches it: /);
  expect(hooks[2]).toMatch(/^nowhere at nowhere\.invalid:443: /);
  expect(JSON.stringify(findings)).not.toContain('canary');
  expect(code).toBe(1);
  expect([mails.mails.length, mails.asked.length, requests, connections]).toEqual([0, 0, 0, 1]);
  const wrong = await doctor(testDirectory(), of('other-canary'));
  expect(wrong.stateOf('mail server')).toEqual(['failed']);
  expect(wrong.about('mail server')).toMatch(/wrong password.*; no alert by mail goes out/);
  expect(JSON.stringify(wrong.findings)).not.toContain('canary');
});

it('doctor: fails for a used port and for files instead of directories', async () => {
  const port = await listening(createServer());
  const cwd = testDirectory();
  const file = join(cwd, 'file');
  writeFileSync(file, '');
  const { code, stateOf, about } = await doctor(cwd, {
    'server.port': port,
    logDir: file,
    // A port of no service.
    brokers: ['main=stomp+stomp://u:s3cret@127.0.0.1:2'],
  });
  expect(about('broker')).toBe(
    'main at stomp+stomp://127.0.0.1:2: connect (connect ECONNREFUSED 127.0.0.1:2); check that the broker runs and that its port serves stomp without TLS',
  );
  expect(code).toBe(1);
  expect(about('port')).toBe(`another program uses 127.0.0.1:${port}`);
  expect(stateOf('log directory')).toEqual(['failed']);
  const nowhere = await doctor(cwd, { dataDir: join(file, 'data') });
  expect(nowhere.about('data directory')).toBe(`${file} is not a directory`);
  expect(nowhere.stateOf('log directory')).toEqual(['ok']);
});

it.skipIf(await lacks('redis'))('doctor: names the owner of a Redis and dangerous settings', async () => {
  const server = await owned('test', startRedis({ config: ['maxmemory-policy allkeys-lru'] }));
  const cwd = testDirectory();
  const dataDir = join(cwd, 'data');
  const look = () => doctor(cwd, { dataDir, redis: [server.url] });
  const fresh = await look();
  expect(fresh.code).toBe(0);
  expect(fresh.findings.filter(({ check }) => check === 'redis')).toMatchObject([
    {
      state: 'ok',
      about: expect.stringMatching(/^redis:\/\/127\.0\.0\.1:\d+ answers in \d+ ms, version \d/),
    },
    { state: 'ok', about: expect.stringContaining('in memory only') },
    { state: 'warning', about: expect.stringContaining('maxmemory-policy is allkeys-lru') },
    { state: 'warning', about: expect.stringContaining('set appendonly yes') },
    { state: 'ok', about: expect.stringContaining('has no marker yet') },
  ]);
  expect(await server.ask('DBSIZE')).toBe('0');

  const marked = (id: string) =>
    server.ask('HSET', '{dq:0}:n', 'marker', `dq 1 shard aa registry ${id} buckets 1`);
  await marked('0123456789abcdef');
  const foreign = await look();
  expect(foreign.code).toBe(1);
  expect(foreign.findings.filter(({ state }) => state === 'failed')).toMatchObject([
    {
      check: 'redis',
      about: expect.stringMatching(/is not ours: .* registry 0123456789abcdef, and this one is new:/),
    },
  ]);
  mkdirSync(dataDir);
  const registry = await openRegistryDb(join(dataDir, 'registry.db'));
  await marked(await registry.id());
  await registry.close();
  const ours = (await look()).findings.filter(({ check }) => check === 'redis');
  expect(ours.at(-1)).toMatchObject({
    state: 'ok',
    about: expect.stringContaining('belongs to this registry: shard aa'),
  });
  await server.process.kill();
  const away = await look();
  expect([away.code, away.stateOf('redis')]).toEqual([75, ['failed']]);
});

it.skipIf(await lacks('redis'))(
  'doctor: names missing rights of a Redis user, and writes nothing',
  async () => {
    const server = await owned('test', startRedis({ config: ['appendonly yes', 'rename-command HLEN ""'] }));
    await server.ask('ACL', 'SETUSER', 'dq', 'on', '>pw', '~{dq:*', '+@all', '-zadd', '-hset', '-get');
    const cwd = testDirectory();
    const url = server.url.replace('//', '//dq:pw@');
    const look = async () => {
      const { code, findings } = await doctor(cwd, { dataDir: join(cwd, 'data'), redis: [url] });
      return { code, wrong: findings.filter(({ check, state }) => check === 'redis' && state !== 'ok') };
    };
    const { code, wrong } = await look();
    expect(code).toBe(1);
    expect(wrong).toMatchObject([
      {
        state: 'failed',
        about: expect.stringMatching(
          / denies its user dq HSET, ZADD, which dq needs: ACL SETUSER dq \+hset \+zadd; has no command HLEN, .*rename-command/,
        ),
      },
      { state: 'warning', about: expect.stringMatching(/ACL SETUSER dq \+get &\{dq:\*; without them/) },
    ]);
    expect(JSON.stringify(wrong)).not.toContain('pw@');
    expect(await server.ask('DBSIZE')).toBe('0');
  },
);

it('doctor: exits with 78 and all problems of the configuration', async () => {
  const { code, findings } = await doctor(testDirectory(), { 'log.dayz': 1, 'retry.unit': 'soon' });
  expect(code).toBe(78);
  const wrong = findings.filter(({ check }) => check === 'configuration');
  expect(wrong.map(({ state }) => state)).toEqual(['failed', 'failed']);
});

it('doctor: checks Node and the limit of open files', async () => {
  expect(['v18.20.0', 'v20.18.9', 'v20.19.0', 'v22.1.0'].map((version) => checkNode(version).state)).toEqual([
    'failed',
    'failed',
    'warning',
    'ok',
  ]);
  const limit = (n: number | string, slots = 512) =>
    checkOpenFiles(`Max open files            ${n}                 1048576              files\n`, slots);
  const states = [703, 704, 4_095, 4_096, 65_536, 'unlimited'].map((n) => limit(n).state);
  expect(states).toEqual(['failed', 'warning', 'warning', 'ok', 'ok', 'ok']);
  expect(checkOpenFiles(null, 512).state).toBe('unknown');
  // The recommended limit covers the whole call budget.
  const slowMax = (openFilesMax: number) =>
    new CallBudget({ slots: 2_000, openFilesMax, onSlow: () => {} }).slowMax;
  expect(limit(4_096, 2_000).about).toMatch(/: 508 of 8000 slow calls fit; raise it to 14086 /);
  expect([slowMax(4_096), slowMax(14_085), slowMax(14_086)]).toEqual([508, 7_999, 8_000]);
  expect([limit(14_085, 2_000).state, limit(14_086, 2_000).state]).toEqual(['warning', 'ok']);
  const cwd = testDirectory();
  writeFileSync(join(cwd, 'dq.yaml'), 'server: { port: 0 }\n');
  let stdout = '';
  try {
    execFileSync('bash', ['-c', `ulimit -n 500; exec "$@"`, 'bash', process.execPath, launcher, 'doctor'], {
      cwd,
      encoding: 'utf8',
      stdio: 'pipe',
    });
  } catch (error) {
    stdout = (error as { stdout: string }).stdout;
  }
  expect(stdout).toMatch(
    /^open files +failed +limit 500 .* needs 704, .* raise it to 4096 \(ulimit -n 4096 as root,/m,
  );
});

describe.skipIf((await lacks('redis')) || (await lacks('mysql')))('doctor with a journal', () => {
  it('checks packets, the space for the spool, and clocks', async () => {
    const [redis, mysql] = [await owned('test', startRedis()), await owned('test', mariadb())];
    const config = {
      ...{ redis: [redis.url], 'mysql.url': await mysql.createDatabase('doctor') },
      ...{ 'journal.mode': 'sync', dataDir: testDirectory() },
    };
    const sound = await doctor(testDirectory(), config);
    expect(sound.stateOf('journal')).toEqual(['ok', 'ok']);
    expect(sound.code).toBe(0);

    const connection = await createConnection({ uri: mysql.url('mysql') });
    await connection.query('SET GLOBAL max_allowed_packet = 2097152');
    await connection.end();
    // The reported difference lacks the time until the server runs the query. No warning below 500 ms.
    const realNow = Date.now.bind(Date);
    const clock = vi.spyOn(Date, 'now').mockImplementation(() => realNow() + 900);
    const broken = await doctor(testDirectory(), { ...config, 'journal.spoolBytes': '1024gib' });
    clock.mockRestore();
    const found = broken.findings.filter(({ check }) => check === 'journal');
    expect(found.map(({ state, about }) => [state, about])).toEqual([
      ['warning', expect.stringMatching(/the disk is full before the spool is/)],
      ['failed', expect.stringMatching(/max_allowed_packet of MySQL is 2097152: set it to at least 4194304/)],
      ['warning', expect.stringMatching(/the clock of MySQL \S+ is [5-9]\d\d ms behind/)],
      ['warning', expect.stringMatching(/the clock of Redis at \S+ is [5-9]\d\d ms behind/)],
    ]);
    expect(broken.code).toBe(1);
  });
});

describe.skipIf(await lacks('mysql'))('doctor with MySQL', () => {
  it('names a column whose character set lacks emoji', async () => {
    const mysql = await owned('test', mariadb());
    const config = { 'mysql.url': await mysql.createDatabase('doctor'), dataDir: testDirectory() };
    const before = await doctor(testDirectory(), config);
    expect(before.code).toBe(0);
    await mysql.run('CREATE TABLE topic (title TEXT CHARACTER SET utf8mb3)', 'doctor');
    const after = await doctor(testDirectory(), config);
    expect(after.code).toBe(1);
    expect(after.findings.filter(({ check }) => check === 'mysql').map(({ about }) => about)).toContainEqual(
      expect.stringMatching(/^topic\.title has the character set utf8mb3, which lacks emoji/),
    );
  });
});

describe.skipIf(unmountable !== null)(`disks${unmountable === null ? '' : `: ${unmountable}`}`, () => {
  it('doctor: warns of a tmpfs, and fails on a full disk', async () => {
    const directory = mountTmpfs(8 * 1024 * 1024);
    const dataDir = join(directory, 'data');
    mkdirSync(dataDir, { mode: 0o700 });
    const config = { dataDir, logDir: testDirectory() };
    const empty = await doctor(testDirectory(), config);
    expect(empty.code).toBe(0);
    expect(empty.about('data directory')).toMatch(/tmpfs: a reboot loses everything$/);
    expect(empty.stateOf('disk space')).toEqual(['warning']);
    fillUp(directory);
    const full = await doctor(testDirectory(), config);
    expect(full.code).toBe(1);
    expect(full.stateOf('disk space')).toEqual(['failed']);
    expect(full.stateOf('disk sync')).toEqual(['failed']);
    truncateSync(join(directory, 'filler'), 0);
    expect(readdirSync(dataDir)).toEqual([]);
  });
});

it('doctor: names the variables of a proxy, which dq does not use, without their values', () => {
  expect(checkProxy({ HTTP_PROXY: '', NO_PROXY: '*' })).toEqual([]);
  const [finding] = checkProxy({ https_proxy: 'http://u:s3cret@proxy:3128', ALL_PROXY: 'socks://p' });
  expect(finding).toMatchObject({ check: 'proxy', state: 'warning' });
  expect(finding?.about).toMatch(/^https_proxy, ALL_PROXY: dq uses no outgoing proxy/);
  expect(finding?.about).not.toContain('s3cret');
});
