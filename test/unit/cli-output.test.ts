// What commands print and how they read times: without a daemon.
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { linesOf } from '../../src/cli/commands/explain.ts';
import { reportExamination } from '../../src/cli/commands/store.ts';
import { untilReady } from '../../src/cli/daemon/readiness.ts';
import { Exit, exitCodes } from '../../src/cli/exit.ts';
import { timeOf } from '../../src/cli/flags.ts';
import { escapeControls, excerpt, shownInstant, tableOf, withCaret } from '../../src/cli/output/output.ts';
import { startProgress } from '../../src/cli/output/progress.ts';
import type { JobJson } from '../../src/contract/api/job.ts';
import type { FsckJson } from '../../src/contract/api/store.ts';
import { parseInstant } from '../../src/core/duration.ts';
import { whyCodes } from '../../src/core/job-why.ts';
import { useJumpingTime } from '../support/jumping-time.ts';

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** Columns a terminal gives to a text of ASCII and Chinese. */
const width = (text: string) => Array.from(text).reduce((sum, c) => sum + (/[⺀-鿿＀-￠]/.test(c) ? 2 : 1), 0);

describe('tableOf', () => {
  it('aligns Chinese text by its width on a screen', () => {
    const lines = tableOf([
      ['TOPIC', 'TITLE', 'STATE'],
      ['order.close', '关闭未支付订单', 'active'],
      ['a', 'short', 'paused'],
    ]).split('\n');
    const starts = lines.map((line, i) =>
      width(line.slice(0, line.indexOf(['STATE', 'active', 'paused'][i] as string))),
    );
    expect(new Set(starts).size).toBe(1);
  });

  it('leaves no blanks at the end of a line', () => {
    expect(
      tableOf([
        ['a', 'long text'],
        ['b', ''],
      ]),
    ).toBe('a  long text\nb');
  });
});

describe('shownInstant', () => {
  const terminal = { isTTY: true };
  const zone = (name: string) => {
    const before = process.env['TZ'];
    process.env['TZ'] = name;
    onTestFinished(() => {
      if (before === undefined) delete process.env['TZ'];
      else process.env['TZ'] = before;
    });
  };

  it.each([
    ['Asia/Shanghai', '2030-01-31T09:30:00.123Z', '2030-01-31T17:30:00.123+08:00'],
    ['America/St_Johns', '2030-01-31T02:00:00.000Z', '2030-01-30T22:30:00.000-03:30'],
    ['Europe/Berlin', '2030-07-01T00:00:00.000Z', '2030-07-01T02:00:00.000+02:00'],
    ['Europe/Berlin', '2030-01-01T00:00:00.000Z', '2030-01-01T01:00:00.000+01:00'],
    ['UTC', '2030-01-01T00:00:00.000Z', '2030-01-01T00:00:00.000Z'],
  ])('a terminal in %s: %s', (name, at, shown) => {
    zone(name);
    expect(shownInstant(at, terminal)).toBe(shown);
    // As --since and --at read it
    expect(parseInstant(shown)).toEqual({ ok: true, value: Date.parse(at) });
  });

  it('a pipe: as dq sent it', () => {
    zone('Asia/Shanghai');
    expect(shownInstant('2030-01-31T09:30:00.123Z', {})).toBe('2030-01-31T09:30:00.123Z');
  });
});

describe('withCaret', () => {
  it('points at the character', () => {
    expect(withCaret('{res.code} <> 200', 11)).toBe('  {res.code} <> 200\n             ^');
  });

  it('points below a character that follows Chinese text', () => {
    const [source, caret] = withCaret("'返回失败' and 1", 7).split('\n') as [string, string];
    expect(width(source.slice(0, source.indexOf('and')))).toBe(caret.indexOf('^'));
  });

  it('keeps the blanks before the place, and points behind the end', () => {
    expect(withCaret('a ==  ', 6)).toBe('  a ==\n        ^');
  });
});

describe('escapeControls', () => {
  it('lets nothing through that moves a cursor or turns text round', () => {
    expect(escapeControls('a\u001b[2Jb\u0007\u009b\u200e\u202e')).toBe(
      'a\\u001b[2Jb\\u0007\\u009b\\u200e\\u202e',
    );
    expect(escapeControls('one\r\n\ttwo')).toBe('one two');
  });
});

describe('excerpt', () => {
  it('cuts between characters, never inside one', () => {
    expect(excerpt('😀😀😀', 2)).toBe('😀😀…');
    expect(excerpt('short', 5)).toBe('short');
  });
});

describe('the times of --since and --until', () => {
  const now = new Date(2030, 2, 1, 9, 30).getTime();

  it.each([
    ['today', new Date(2030, 2, 1)],
    ['Yesterday', new Date(2030, 1, 28)],
    ['24h', new Date(now - 86_400_000)],
    ['1h30m', new Date(now - 5_400_000)],
    ['2030-01-31', new Date(2030, 0, 31)],
    ['2030-01-31T09:00', new Date(2030, 0, 31, 9)],
    ['2030-01-31 09:00:05', new Date(2030, 0, 31, 9, 0, 5)],
    ['2030-01-31T09:00:00+08:00', new Date('2030-01-31T01:00:00Z')],
    ['1893456000000', new Date('2030-01-01T00:00:00Z')],
  ] as const)('%s', (text, at) => {
    expect(timeOf(text, now)).toBe(at.getTime());
  });

  it.each(['noon', '', 'tomorrow', '2030-02-30', '2030-01-31T25:00', '24', '1893456000', '-1h'])(
    '%s is not a time',
    (text) => {
      expect(timeOf(text, now)).toBeNull();
    },
  );
});

it('progress: without a terminal prints a line every 10 s in which something happened', () => {
  vi.useFakeTimers();
  const written: string[] = [];
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => written.push(String(text)) > 0);
  const wasTerminal = process.stderr.isTTY;
  process.stderr.isTTY = false;
  try {
    const known = startProgress('requeued', 400);
    const unknown = startProgress('pushed', null);
    known.add(100);
    unknown.add(7);
    vi.advanceTimersByTime(9_999);
    expect(written).toEqual([]);
    vi.advanceTimersByTime(1);
    known.add(50);
    unknown.stop();
    vi.advanceTimersByTime(30_000);
    known.add(1);
    known.stop();
    vi.advanceTimersByTime(60_000);
    expect(written).toEqual(['dq: 100 of 400 requeued\n', 'dq: 7 pushed\n', 'dq: 150 of 400 requeued\n']);
  } finally {
    process.stderr.isTTY = wasTerminal;
  }
});

describe('the wait of dq start -d and dq restart', () => {
  /** A daemon that gives these reasons, then the last answer for ever; null: it is ready. */
  async function daemonThatSays(reasons: readonly (string | null)[]) {
    const time = useJumpingTime();
    const left = [...reasons];
    const look = async () => {
      const why = (left.length > 1 ? left.shift() : left[0]) ?? null;
      return { why, warnings: why === null ? ['careful'] : [] };
    };
    const lines: string[] = [];
    vi.spyOn(process.stderr, 'write').mockImplementation((text) => lines.push(String(text)) > 0);
    const end = await time.outlast(untilReady('http://127.0.0.1:1', '/nowhere', look));
    return { end, lines: lines.join('') };
  }

  it('waits while the daemon reads its registry, and prints each reason once', async () => {
    expect(
      await daemonThatSays(['registry: no answer', 'registry: no answer', 'store: starts', null]),
    ).toEqual({
      end: null,
      lines:
        'dq: not ready yet: registry: no answer\ndq: not ready yet: store: starts\ndq: warning: careful\n',
    });
  });

  it('ends with the last reason', async () => {
    const { end } = await daemonThatSays(['registry: no answer', 'store: ECONNREFUSED']);
    expect(end).toMatchObject({
      exitCode: exitCodes.notReady,
      message: 'the daemon runs, and is not ready: store: ECONNREFUSED',
    });
  });
});

const found = { what: 'live jobs without an open row', count: 1, examples: ['t/a'] };

it('fsck: differences that await an instance break no invariant; others beside them do', () => {
  const awaiting = { invariant: 'J1', ...found, awaits: ['instance 9 on far'] };
  const report = (problems: NonNullable<FsckJson['problems']>) => () =>
    reportExamination({ state: 'done', jobs: 3, problems }, '{}', false);
  expect(report([])).not.toThrow();
  expect(report([awaiting])).not.toThrow();
  expect(report([awaiting, { invariant: 'J3', ...found }])).toThrow(Exit);
  expect(report([awaiting, { invariant: 'J3', ...found }])).toThrow('1 invariants of the store are broken');
});

describe('dq explain of one job', () => {
  const second = (n: number) => new Date(1_000 * n).toISOString();
  const job = {
    ...{ topic: 't', id: 'a', state: 'delayed', attempt: 0, maxAttempts: 3, attempts: [] },
    ...{ dueAt: second(10), why: { code: 'waits_until_due', at: second(10) } },
  } as unknown as JobJson;
  const line = (name: string, more: object, now: number) =>
    linesOf({ ...job, ...more } as JobJson, 1_000 * now).find(([key]) => key === name)?.[1];

  it('each code of a due job has a sentence, not the code', () => {
    for (const code of whyCodes) {
      const text = line('why', { state: 'ready', why: { code, at: second(1) } }, 4);
      expect(text, code).toMatch(/ /);
      expect(text, code).not.toContain(code.includes('_') ? code : '?');
    }
    const pulled = { state: 'ready', why: { code: 'waits_for_pull' } };
    expect(line('why', pulled, 4)).toBe('it is due and waits for a client that pulls its topic');
  });

  it('a delayed job: when it is due, also where the time has just come', () => {
    expect(line('why', {}, 4)).toBe(`attempt 1 of 3 is due at ${second(10)}, in 6s`);
    expect(line('why', {}, 10)).toBe(`attempt 1 of 3 has been due since ${second(10)}`);
  });

  it('a snoozed job: how often', () => {
    const why = { code: 'waits_again', at: second(70) };
    expect(line('why', { why, again: 1 }, 10)).toBe(`snoozed once; attempt 1 of 3 is due at ${second(70)}`);
    expect(line('why', { why, again: 2 }, 10)).toContain('snoozed 2 times;');
  });

  it('a running job: its start and its notifier, as far as the daemon names them', () => {
    const why = { code: 'running', since: second(3), notifier: 'dq-notifier-0' };
    expect(line('why', { why }, 10)).toBe(`attempt 1 of 3 is running since ${second(3)} in dq-notifier-0`);
    expect(line('why', { why: { code: 'running', since: null, notifier: null } }, 10)).toBe(
      'attempt 1 of 3 is running',
    );
  });

  it('a ready job: its next attempt has no time, only jobs before it', () => {
    const waits = { state: 'ready', nextAttempts: [{ attempt: 2, at: second(10.4) }] };
    expect(line('next attempt', { ...waits, why: { code: 'probing', ahead: 345 } }, 10)).toBe(
      '2 of 3, after the jobs before it',
    );
    expect(line('next attempt', { ...waits, why: { code: 'ahead', ahead: 0 } }, 10)).toBe('2 of 3');
    const paced = (ahead: number) =>
      line('next attempt', { ...waits, why: { code: 'ahead', ahead, likelyAt: second(250) } }, 10);
    const pace = `${second(250)}, in 4m, at the pace of the last 5 minutes`;
    expect(paced(345)).toBe(`2 of 3, after the jobs before it: likely at ${pace}`);
    expect(paced(1_000)).toBe(`2 of 3, after the jobs before it: not before ${pace}`);
    const later = { nextAttempts: waits.nextAttempts, why: { code: 'waits_to_retry', at: second(10.4) } };
    expect(line('next attempt', later, 10)).toBe(`2 of 3, at ${second(10.4)}`);
  });

  it('a job past its deadline: what it waits for', () => {
    const dies = (state: string, why: object) => line('deadline', { state, why, deadline: second(20) }, 30);
    expect(dies('ready', { code: 'ahead' })).toMatch(/it dies when its turn comes$/);
    expect(dies('ready', { code: 'topic_paused' })).toMatch(/it dies when the topic is resumed$/);
    expect(dies('delayed', { code: 'not_promoted', held: 'topic_offline' })).toMatch(
      /when the topic is resumed$/,
    );
    expect(dies('ready', { code: 'not_registered' })).toMatch(/it dies when the topic is registered$/);
  });
});
