// Incidents of an instance: recorded in the data directory, mailed once at the start and once at the end.
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Config } from '../../src/config/options.ts';
import type { Incident } from '../../src/core/incident.ts';
import type { Store, StoreAdmin } from '../../src/ports/job-store.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { IncidentFiles } from '../../src/process/incident-files.ts';
import { upkeepLimits } from '../../src/upkeep/limits.ts';
import { createUpkeep, type UpkeepTimes } from '../../src/upkeep/upkeep.ts';
import { jobOf } from '../conformance/trial.ts';
import { testDirectory } from '../support/directory.ts';
import { useJumpingTime } from '../support/jumping-time.ts';
import { type SmtpSink, startSmtpSink } from '../support/smtp-sink.ts';
import { until } from '../support/until.ts';
import { damage, type Rig, startRig } from './rig.ts';

const windowMs = 60_000;

const times = (health: Partial<UpkeepTimes['health']> = {}): Partial<UpkeepTimes> => ({
  alertPollMs: 20,
  deathPollMs: 20,
  mailBackoff: { min: 50, max: 50 },
  health: { everyMs: 20, afterMs: 1_000, lateMs: 60_000, crashWindowMs: windowMs, ...health },
});

/** Windows end by the jumps of `time`. */
async function setUp() {
  const time = useJumpingTime();
  const rig = await startRig({ clock: time.wall });
  const [smtp, dataDir] = [await startSmtpSink(), testDirectory()];
  /** The second mail: about the end of the incident of the first one. */
  const mailedEnd = async () => {
    await until('its end', async () => (await kept(dataDir)).some((one) => one.includes('over')));
    await time.jump(windowMs);
    await until('the second mail', () => smtp.mails.length === 2);
    return { subject: smtp.mails[1]?.parsed.subject, text: smtp.mails[1]?.parsed.text ?? '' };
  };
  return { time, rig, smtp, dataDir, mailedEnd };
}

interface Setup {
  readonly config?: Partial<Config>;
  readonly store?: Store;
  readonly health?: Partial<UpkeepTimes['health']>;
  readonly takesOver?: boolean;
}

async function startUpkeep(rig: Rig, smtp: SmtpSink | null, dataDir: string, setup: Setup = {}) {
  const config = {
    ...{ dataDir, logDir: dataDir, 'smtp.url': smtp?.url ?? '' },
    ...{ 'smtp.from': smtp === null ? '' : 'dq@x.org', 'alerts.emails': ['ops@x.org'] },
    'alerts.window': windowMs,
    ...setup.config,
  };
  const { store = rig.store, takesOver = false } = setup;
  const context = rig.context({ config, store, takesOver });
  const upkeep = await rig.run(createUpkeep(context, times(setup.health)));
  // Before its directory is removed.
  onTestFinished(() => upkeep.drain(2_000));
  return upkeep;
}

/** The rig's store with another answer of one of its methods. */
const withAdmin = (rig: Rig, admin: Partial<StoreAdmin>): Store => ({
  ...rig.store,
  admin: Object.assign(Object.create(rig.store.admin), admin) as StoreAdmin,
});

/** The rig's store, which counts the calls of this method. */
function watched(rig: Rig, name: 'counts' | 'health') {
  let calls = 0;
  const method = (...asked: never[]) => {
    calls += 1;
    return (rig.store.admin[name] as (...all: never[]) => never)(...asked);
  };
  return { store: withAdmin(rig, { [name]: method }), looks: () => calls };
}

const subjects = (smtp: SmtpSink) => smtp.mails.map(({ parsed }) => parsed.subject);
const errors = (rig: Rig, text: string) =>
  rig.lines.filter(({ kind, message }) => kind === 'error' && message.includes(text)).length;
const kept = async (dataDir: string) =>
  (await new IncidentFiles(dataDir).list()).map(({ kind, about, state, alert }) =>
    [kind, about, state, alert].filter((part) => part !== '').join(' '),
  );

describe('incidents: crash loop', () => {
  const crash = {
    kind: 'crash_loop',
    role: 'timer',
    how: 'died 10 times within 60 s',
    reason: 'dq-timer-1 (pid 5) exited\r\nBcc: x@y.z',
  } as const;

  it('is mailed to alerts.emails at its start and at its end', async () => {
    const { time, rig, smtp, dataDir } = await setUp();
    await startUpkeep(rig, smtp, dataDir);
    rig.tell(crash);
    await until(
      'the alert is settled',
      async () => (await kept(dataDir)).join() === 'crash_loop timer begun sent',
    );
    expect(smtp.mails[0]).toMatchObject({ to: ['ops@x.org'] });
    expect(subjects(smtp)[0]).toMatch(
      /^dq: dq-timer died 10 times within 60 s and is started again and again; .*…$/,
    );
    expect(smtp.mails[0]?.parsed.text).toContain(
      'the last time: dq-timer-1 (pid 5) exited\\u000d\\u000aBcc: x@y.z\n',
    );
    expect(smtp.mails).toHaveLength(1);
    await time.jump(windowMs);
    await until('the second mail', () => smtp.mails.length === 2);
    expect(subjects(smtp)[1]).toBe('dq: dq-timer stays up again');
    await until('both are marked', async () => (await kept(dataDir)).every((one) => one.endsWith('sent')));
    expect(await kept(dataDir)).toEqual(['crash_loop timer begun sent', 'crash_loop timer over sent']);
  });

  it('is mailed once while it lasts; the next process mails its end', async () => {
    const { time, rig, smtp, dataDir } = await setUp();
    const first = await startUpkeep(rig, smtp, dataDir);
    rig.tell(crash);
    rig.tell(crash);
    await until('the alert is settled', async () =>
      (await kept(dataDir)).includes('crash_loop timer begun sent'),
    );
    await first.drain(1_000);
    await startUpkeep(rig, smtp, dataDir);
    rig.tell(crash);
    await time.jump(windowMs);
    await until('the end is mailed', () => subjects(smtp).includes('dq: dq-timer stays up again'));
    expect(smtp.mails).toHaveLength(2);
    expect(errors(rig, 'dq-timer died 10 times')).toBe(1);
  });

  it('is mailed by one of two processes', async () => {
    const { rig, smtp, dataDir } = await setUp();
    const first = await startUpkeep(rig, smtp, dataDir);
    const next = await startUpkeep(rig, smtp, dataDir, { takesOver: true });
    rig.tell(crash);
    await until('the mail', () => smtp.mails.length === 1);
    expect(await kept(dataDir)).toHaveLength(1);
    await until('the alert is settled', async () =>
      (await kept(dataDir)).every((one) => one.endsWith('sent')),
    );
    await first.drain(1_000);
    await next.takeOver?.();
    rig.tell(crash);
    rig.tell({ ...crash, role: 'server', reason: 'x' });
    await until('the other is mailed', () => smtp.mails.length === 2);
    expect(subjects(smtp)[1]).toContain('dq-server died');
    expect(await kept(dataDir)).toHaveLength(2);
    expect(errors(rig, 'dq-timer died 10 times')).toBe(1);
  });

  it('start and end within a window are one mail; other incidents have their own', async () => {
    const { time, rig, smtp, dataDir } = await setUp();
    await startUpkeep(rig, smtp, dataDir, { config: { 'alerts.window': 10 * windowMs } });
    for (let mails = 1; mails <= 2; mails += 1) {
      rig.tell(crash);
      await until('it has begun', async () => (await kept(dataDir)).length === 2 * mails - 1);
      await until('the mail that is sent at once', () => smtp.mails.length === 1);
      await time.jump(windowMs);
      await until(
        'it is over',
        async () => (await kept(dataDir)).filter((one) => one.includes('over')).length >= mails,
      );
    }
    rig.tell({ ...crash, role: 'server', reason: 'x' });
    // The end of this incident may be in the same mail. The subject then names the end.
    await until('the other is mailed', () =>
      smtp.mails.some(({ parsed }) => parsed.text?.includes('dq-server died')),
    );
    // A jump during a mail would end it, or begin its window later.
    await until('it is settled', async () => (await kept(dataDir)).includes('crash_loop server begun sent'));
    await time.jump(10 * windowMs);
    await until('all alerts are settled', async () =>
      (await kept(dataDir)).every((one) => one.endsWith('sent')),
    );
    const ofTimer = smtp.mails.filter(({ parsed }) => parsed.text?.includes('dq-timer'));
    expect(ofTimer).toHaveLength(2);
    expect(ofTimer[0]?.parsed.text).not.toContain('dq-timer stays up again');
    expect(ofTimer[1]?.parsed.text?.match(/dq-timer stays up again/g)).toHaveLength(2);
  });
});

describe('incidents: daemon that gives up', () => {
  it('is mailed before dq-upkeep exits; its end when a later start lasts', async () => {
    const { time, rig, smtp, dataDir } = await setUp();
    const first = await startUpkeep(rig, smtp, dataDir);
    rig.tell({ kind: 'gave_up', reason: 'dq-timer died 10 times' });
    await first.drain(30_000);
    expect(subjects(smtp)).toEqual(['dq: the daemon has ended by itself: dq-timer died 10 times']);
    const second = await startUpkeep(rig, smtp, dataDir);
    rig.tell({ kind: 'gave_up', reason: 'dq-timer died 10 times' });
    await second.drain(30_000);
    expect(smtp.mails).toHaveLength(1);
    await startUpkeep(rig, smtp, dataDir);
    await time.jump(windowMs);
    await until('the second mail', () => smtp.mails.length === 2);
    expect(subjects(smtp)[1]).toBe('dq: the daemon stays up again');
  });

  it('does not wait for an unavailable mail server: the next start mails it', async () => {
    const { time, rig, smtp, dataDir } = await setUp();
    smtp.judgeMail(() => 'hang');
    const first = await startUpkeep(rig, smtp, dataDir);
    rig.tell({ kind: 'gave_up', reason: 'x' });
    await time.outlast(first.drain(2_000));
    expect(await kept(dataDir)).toEqual(['given_up begun owed']);
    smtp.judgeMail(() => null);
    await startUpkeep(rig, smtp, dataDir);
    await until('the mail', () => smtp.mails.length === 1);
  });
});

describe('incidents: job store', () => {
  it('a failure is mailed at once, and its end', async () => {
    const { rig, smtp, dataDir, mailedEnd } = await setUp();
    let ok = false;
    const health = async () => ({
      ok,
      durability: '',
      warnings: ok ? [] : ['disk full: pushes are refused'],
    });
    await startUpkeep(rig, smtp, dataDir, { store: withAdmin(rig, { health }) });
    await until('the mail', () => smtp.mails.length === 1);
    ok = true;
    await mailedEnd();
    expect(subjects(smtp)).toEqual([
      'dq: the job store has failed: disk full: pushes are refused',
      'dq: the job store works again',
    ]);
  });

  it('no answer is an incident only after its least duration', async () => {
    const { time, rig, smtp, dataDir } = await setUp();
    let asked = 0;
    let isAway = true;
    const health: StoreAdmin['health'] = async () => {
      asked += 1;
      if (isAway) throw new StoreError({ kind: 'not_stored', code: 'store_away' });
      return rig.store.admin.health();
    };
    const looked = async () => {
      const before = asked;
      await until('it looks again', () => asked > before + 1);
    };
    const store = withAdmin(rig, { health });
    await startUpkeep(rig, smtp, dataDir, { store, health: { afterMs: windowMs } });
    await looked();
    isAway = false;
    await looked();
    await time.jump(windowMs);
    isAway = true;
    await looked();
    expect(await kept(dataDir)).toEqual([]);
    await time.jump(windowMs);
    await until('the mail', () => smtp.mails.length === 1);
    expect(subjects(smtp)[0]).toContain('the job store does not answer: store: not_stored (store_away)');
  });
});

describe('incidents: lateness', () => {
  it('of ready jobs is mailed, and its end', async () => {
    const { time, rig, smtp, dataDir, mailedEnd } = await setUp();
    await rig.topic('t', 'http://127.0.0.1:9/');
    await rig.push('t', 'a');
    await startUpkeep(rig, smtp, dataDir);
    await time.jump(windowMs);
    await until('the mail', () => smtp.mails.length === 1);
    expect(subjects(smtp)[0]).toMatch(/^dq: jobs are late: the oldest was due \S+ ago \(topic t\)$/);
    await rig.reserve(1);
    expect((await mailedEnd()).subject).toBe('dq: jobs are delivered in time again');
  });

  it('names the oldest job, the command and the link; the end names its report and how long after it', async () => {
    const { time, rig, smtp, dataDir, mailedEnd } = await setUp();
    await rig.topic('t', 'http://127.0.0.1:9/');
    await rig.push('t', 'later');
    await rig.push('t', 'a\nb');
    const [oldest] = (await rig.store.jobs.search({ state: 'ready' }, 1, null)).items;
    const config = { 'console.publicUrl': 'https://dq.example.org/console/' };
    await startUpkeep(rig, smtp, dataDir, { config });
    await time.jump(windowMs);
    await until('the mail', () => smtp.mails.length === 1);
    const due = new Date(oldest?.dueAt ?? 0).toISOString();
    expect(smtp.mails[0]?.parsed.text).toContain(
      `
  oldest job  ${oldest?.id.replace('\n', '\\u000a')}
  due         ${due}
  waiting     2 of t

This command says what holds the jobs of the topic:

  dq explain t

In the console: https://dq.example.org/console/topics/t
`,
    );
    const [incident] = await new IncidentFiles(dataDir).list();
    expect(incident?.oldest).toEqual({ topic: 't', id: oldest?.id, dueAt: oldest?.dueAt });
    await rig.reserve(2);
    const { text: end } = await mailedEnd();
    expect(end).toContain(`Reported at ${new Date(incident?.at ?? 0).toISOString()}, over after `);
    expect(end).toContain('In the console: https://dq.example.org/console/');
    expect(end).not.toContain('This command');
  });

  it('ends by a pause with what waits and how to go on, not as delivered', async () => {
    const { time, rig, smtp, dataDir, mailedEnd } = await setUp();
    await rig.topic('t', 'http://127.0.0.1:9/');
    await rig.pushAll('t', ['a', 'b']);
    await startUpkeep(rig, smtp, dataDir);
    await time.jump(windowMs);
    await until('the mail', () => smtp.mails.length === 1);
    await rig.topic('t', 'http://127.0.0.1:9/', { state: 'paused' });
    expect((await mailedEnd()).subject).toBe(
      'dq: t was paused: 2 jobs wait, none is called; dq topic resume t',
    );
  });

  it('of jobs that no timer promotes is mailed', async () => {
    const { time, rig, smtp, dataDir } = await setUp();
    await rig.topic('t', 'http://127.0.0.1:9/');
    // No timer runs here.
    await rig.store.jobs.push([jobOf('a', { when: { delayMs: 1_000 } })]);
    await startUpkeep(rig, smtp, dataDir);
    await time.jump(windowMs);
    await time.passUntil('the mail', () => smtp.mails.length === 1);
    expect(subjects(smtp)[0]).toMatch(/^dq: jobs are late: /);
  });

  it('of jobs of a pull topic that no timer promotes begins', async () => {
    const { rig, dataDir } = await setUp();
    await rig.topic('pulled', 'http://127.0.0.1:9/', { delivery: 'pull' });
    // No timer runs here.
    await rig.store.jobs.push([jobOf('a', { topic: 'pulled', when: { delayMs: 1 } })]);
    await startUpkeep(rig, null, dataDir, { health: { lateMs: 1, afterMs: 0 } });
    await until('it begins', async () => (await kept(dataDir)).length > 0);
    const found = (await new IncidentFiles(dataDir).list()).map(({ kind, about }) => [kind, about]);
    expect(found).toEqual([['late', '']]);
  });

  it('names a topic whose jobs dq delivers, and no paused one', async () => {
    const { time, rig, smtp, dataDir } = await setUp();
    await rig.topic('t', 'http://127.0.0.1:9/');
    await rig.topic('paused', 'http://127.0.0.1:9/', { state: 'paused' });
    await rig.store.jobs.push([jobOf('a', { topic: 'paused', when: { delayMs: 1 } })]);
    await rig.store.jobs.push([jobOf('b', { when: { delayMs: 1_000 } })]);
    await startUpkeep(rig, smtp, dataDir);
    await time.jump(windowMs + 1_000);
    await time.passUntil('the mail', () => smtp.mails.length === 1);
    expect(subjects(smtp)[0]).toMatch(/\(topic t\)$/);
  });

  it('of pull topics is mailed only with alerts.pullLate', async () => {
    const { time, rig, smtp, dataDir, mailedEnd } = await setUp();
    await rig.topic('pulled', 'http://127.0.0.1:9/', { delivery: 'pull' });
    await rig.push('pulled', 'a');
    const { store, looks } = watched(rig, 'counts');
    const upkeep = await startUpkeep(rig, smtp, dataDir, { store, health: { lateMs: 1, afterMs: 0 } });
    await until('some checks', () => looks() >= 20);
    expect(await kept(dataDir)).toEqual([]);
    await upkeep.drain(2_000);

    const config = { 'alerts.pullLate': 600_000 };
    await startUpkeep(rig, smtp, dataDir, { config, health: { lateMs: 1, afterMs: 0 } });
    await time.jump(600_000);
    await until('the mail', () => smtp.mails.length === 1);
    expect(subjects(smtp)[0]).toMatch(
      /^dq: jobs of pull topics wait for a client: the oldest was due \S+ ago \(/,
    );
    expect(smtp.mails[0]?.parsed.text).toMatch(/ago \(topic pulled\)/);
    await rig.reserve(1);
    expect((await mailedEnd()).subject).toBe('dq: jobs of pull topics wait no longer than alerts.pullLate');
  });

  it('of pull topics does not begin by a job of another topic that no timer promotes', async () => {
    const { rig, dataDir } = await setUp();
    await rig.topic('t', 'http://127.0.0.1:9/');
    await rig.topic('pulled', 'http://127.0.0.1:9/', { delivery: 'pull' });
    await rig.store.jobs.push([jobOf('a', { topic: 'pulled', when: { delayMs: 3_600_000 } })]);
    await rig.store.jobs.push([jobOf('a', { when: { delayMs: 1 } })]);
    const { store, looks } = watched(rig, 'counts');
    const config = { 'alerts.pullLate': 1 };
    await startUpkeep(rig, null, dataDir, { store, config, health: { lateMs: 1, afterMs: 0 } });
    await until('it is late', async () => (await kept(dataDir)).length > 0);
    const seen = looks();
    await until('some checks', () => looks() > seen + 10);
    const found = (await new IncidentFiles(dataDir).list()).map(({ kind, about }) => [kind, about]);
    expect(found).toEqual([['late', '']]);
  });

  it('ignores paused, offline, unknown and unreadable topics', async () => {
    const { rig, dataDir } = await setUp();
    await rig.topic('t', 'http://127.0.0.1:9/');
    damage(rig, 'settings', '{');
    await rig.topics.refresh();
    await rig.push('t', 'a');
    await rig.topic('paused', 'http://127.0.0.1:9/', { state: 'paused' });
    await rig.topic('offline', 'http://127.0.0.1:9/', { state: 'offline' });
    for (const topic of ['paused', 'offline', 'unknown']) {
      await rig.push(topic, 'a');
      // No timer runs here.
      await rig.store.jobs.push([jobOf('b', { topic, when: { delayMs: 1 } })]);
    }
    const { store, looks } = watched(rig, 'counts');
    await startUpkeep(rig, null, dataDir, { store, health: { lateMs: 1, afterMs: 0 } });
    await until('it has polled', () => looks() > 20);
    expect(await kept(dataDir)).toEqual([]);
    await rig.topic('paused', 'http://127.0.0.1:9/', { state: 'active' });
    await until('it counts', async () => (await kept(dataDir)).length === 1);
  });
});

describe('incidents', () => {
  const crash = (role: 'timer' | 'server') =>
    ({ kind: 'crash_loop', role, how: 'died 10 times within 60 s', reason: 'x' }) as const;

  it('are mailed although the data directory takes no file; written when it does', async () => {
    const { rig, smtp, dataDir } = await setUp();
    writeFileSync(join(dataDir, 'alerts'), 'in the way');
    const { store, looks } = watched(rig, 'health');
    await startUpkeep(rig, smtp, dataDir, { store });
    rig.tell(crash('timer'));
    await until('it is reported', () => errors(rig, 'cannot write an incident file') === 1);
    await until('it was mailed', () =>
      rig.lines.some(({ message }) => message === 'mailer: sent a mail about incidents'),
    );
    // Long enough to write its record: no later event would write it.
    const seen = looks();
    await until('time has passed', () => looks() > seen + 10);
    // Before the file is removed: a write that runs at that moment can fail in another way.
    expect(errors(rig, 'cannot write an incident file')).toBe(1);
    rmSync(join(dataDir, 'alerts'));
    await until('it is kept', async () => (await kept(dataDir)).includes('crash_loop timer begun sent'));
    expect(smtp.mails).toHaveLength(1);
  });

  it('without a recipient are in the log and in the directory', async () => {
    const { rig, dataDir } = await setUp();
    await startUpkeep(rig, null, dataDir);
    rig.tell(crash('timer'));
    await until(
      'the alert is settled',
      async () => (await kept(dataDir)).includes('crash_loop timer begun nobody'), // check-words: data
    );
    expect(errors(rig, 'not mailed: smtp.url is not set')).toBe(1);
  });

  it('are bounded: the oldest mailed ones are removed first', async () => {
    const { rig, dataDir } = await setUp();
    const files = new IncidentFiles(dataDir);
    const past: Incident = {
      ...{ id: 0, kind: 'crash_loop', about: 'timer', state: 'over', at: 1, detail: 'past' },
      ...{ alert: 'sent', sentAt: 1 },
    };
    for (let id = 1; id <= upkeepLimits.incidentsKept; id += 1)
      await files.write({ ...past, id, ...(id === 1 ? { alert: 'owed', sentAt: null } : {}) });
    await startUpkeep(rig, null, dataDir, {
      config: { 'smtp.url': 'smtp://127.0.0.1:1', 'smtp.from': 'dq@x.org' },
    });
    rig.tell(crash('server'));
    await until('the new one is written', async () => (await files.list()).at(-1)?.about === 'server');
    await until('one is removed', async () => (await files.list()).length === upkeepLimits.incidentsKept);
    expect((await files.list()).slice(0, 2).map(({ id }) => id)).toEqual([1, 3]);
  });

  it('of many receivers displace no others', async () => {
    const { rig, dataDir } = await setUp();
    const files = new IncidentFiles(dataDir);
    const past = { state: 'over', at: 1, detail: 'past', alert: 'sent', sentAt: 1 } as const;
    for (let id = 1; id <= 10; id += 1)
      await files.write({ ...past, id, kind: 'crash_loop', about: 'timer' });
    for (let id = 11; id <= upkeepLimits.incidentsKept; id += 1)
      await files.write({ ...past, id, kind: 'failing', about: `http://127.0.0.1:${id}` });
    await startUpkeep(rig, null, dataDir);
    rig.tell(crash('server'));
    await until('one is removed', async () => {
      const [first, ...ids] = (await files.list()).map(({ id }) => id);
      return first !== 1 || !ids.includes(11);
    });
    expect((await files.list()).filter(({ about }) => about === 'timer')).toHaveLength(10);
  });

  it('that last are kept, however old', async () => {
    const { rig, smtp, dataDir } = await setUp();
    const files = new IncidentFiles(dataDir);
    const past = { detail: 'past', alert: 'sent', sentAt: 1 } as const;
    await files.write({ ...past, id: 1, kind: 'late', about: '', state: 'begun', at: 1 });
    for (let id = 2; id <= upkeepLimits.incidentsKept; id += 1)
      await files.write({ ...past, id, kind: 'crash_loop', about: 'timer', state: 'over', at: 1 });
    await startUpkeep(rig, smtp, dataDir, { health: { everyMs: 500 } });
    rig.tell(crash('server'));
    await until('the new one is written', async () => (await files.list()).at(-1)?.about === 'server');
    await until('its end is mailed', () => subjects(smtp).includes('dq: jobs are delivered in time again'));
  });

  it('files: damaged and foreign ones are ignored', async () => {
    const dataDir = testDirectory();
    const files = new IncidentFiles(dataDir);
    expect(await files.list()).toEqual([]);
    mkdirSync(join(dataDir, 'alerts'));
    for (const [name, text] of [
      ['0000000000000001.json', '{"id":1'],
      ['0000000000000002.json', '{"id":2,"kind":"other"}'],
      ['0000000000000003.json.77.new', '{}'],
      ['note.txt', 'x'],
      ['0000000000000004.json', 'null'],
    ] as const)
      writeFileSync(join(dataDir, 'alerts', name), text);
    expect(await files.list()).toEqual([]);
    const incident: Incident = {
      ...{ id: 5, kind: 'late', about: '', state: 'begun', at: 1, detail: 'x', alert: 'owed', sentAt: null },
    };
    await files.write(incident);
    expect(await files.list()).toEqual([incident]);
    expect(readdirSync(join(dataDir, 'alerts')).filter((name) => name.includes('.new'))).toHaveLength(1);
  });
});
