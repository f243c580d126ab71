// What commands print and how they read times: without a daemon.
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { reportExamination } from '../../src/cli/commands/store.ts';
import { untilReady } from '../../src/cli/daemon/readiness.ts';
import { Exit, exitCodes } from '../../src/cli/exit.ts';
import { timeOf } from '../../src/cli/flags.ts';
import { escapeControls, excerpt, shownInstant, tableOf, withCaret } from '../../src/cli/output/output.ts';
import { startProgress } from '../../src/cli/output/progress.ts';
import type { FsckJson } from '../../src/contract/api/store.ts';
import { parseInstant } from '../../src/core/duration.ts';
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
