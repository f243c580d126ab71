import { describe, expect, it, onTestFinished } from 'vitest';
import type { LossNote } from '../../src/ports/healing.ts';
import { IncidentFiles } from '../../src/process/incident-files.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { MetricBuffer } from '../../src/telemetry/metrics.ts';
import { Incidents } from '../../src/upkeep/alerts/incidents.ts';
import { JournalWatch } from '../../src/upkeep/journal-watch.ts';
import { testDirectory } from '../support/directory.ts';
import { until } from '../support/until.ts';

const note: LossNote = {
  ...{ partition: {} as LossNote['partition'], place: 's1:0', from: 0, id: 7, phase: 'jobs' },
};
const counts = { done: 9, put: 5, removed: 1, kept: 3 };

async function watching() {
  const dataDir = testDirectory();
  const incidents = new Incidents(new IncidentFiles(dataDir), silentLog);
  const metrics = new MetricBuffer();
  const now = {
    recorder: { lagMs: 0, spoolBytes: 0 },
    notes: [] as readonly LossNote[],
    files: { late: 0, damaged: 0 },
    rejectReason: null as string | null,
    failure: null as Error | null,
    rounds: 0,
  };
  const lines: string[] = [];
  const log = {
    ...silentLog,
    error: (message: string) => void lines.push(message),
    notice: (message: string) => void lines.push(message),
  };
  const watch = new JournalWatch({
    recorder: () => now.recorder,
    looker: {
      get notes() {
        return now.notes;
      },
      hasSeenAll: true,
    },
    spool: {
      async setAsideCounts() {
        now.rounds += 1;
        if (now.failure !== null) throw now.failure;
        return now.files;
      },
    },
    rejectReason: () => now.rejectReason,
    ...{ incidents, metrics, log, spoolBytes: 1_000, everyMs: 5 },
    nameOf: (shard) => `redis-${shard}:6379`,
  });
  await watch.start();
  onTestFinished(() => watch.drain(1_000));
  const open = () => incidents.open().map(({ kind, about }) => `${kind} ${about}`);
  /** Two rounds that began after now. */
  const rounds = async () => {
    const end = now.rounds + 3;
    await until('two rounds', () => now.rounds >= end);
  };
  return { watch, now, incidents, metrics, open, rounds, lines };
}

describe('journal watch', () => {
  it('MySQL that lags for a minute is an incident until the lag is half as long', async () => {
    const { now, open, rounds } = await watching();
    now.recorder = { lagMs: 59_000, spoolBytes: 0 };
    await rounds();
    expect(open()).toEqual([]);
    now.recorder = { lagMs: 60_000, spoolBytes: 0 };
    await until('the incident', () => open().includes('journal shipping'));
    now.recorder = { lagMs: 31_000, spoolBytes: 0 };
    await rounds();
    expect(open()).toEqual(['journal shipping']);
    now.recorder = { lagMs: 29_000, spoolBytes: 0 };
    await until('the end', () => open().length === 0);
  });

  it('a healing that waits for a silent instance is an incident until the wait ends', async () => {
    const { watch, incidents, open, rounds } = await watching();
    const facts = { instance: 0x1f, host: 'far', barrier: 3, highest: 0, spoolBytes: 0 };
    for (const ageMs of [14_000, 15_000]) await watch.waits([{ ...facts, ageMs }]);
    await rounds();
    expect(open()).toEqual(['journal peers']);
    expect(incidents.open()[0]?.detail).toContain('instance 0000001f on far (last sign 14s ago)');
    await watch.goesOn([]);
    expect(open()).toEqual([]);
    // Of a worker that lost its claim.
    await watch.waits([{ ...facts, ageMs: 14_000 }]);
    watch.interrupted();
    await until('the end', () => open().length === 0);
  });

  it('a spool that is half full, that rejects pushes, and segments that need a person', async () => {
    const { now, open, rounds } = await watching();
    now.recorder = { lagMs: 0, spoolBytes: 500 };
    now.rejectReason = 'is full';
    now.files = { late: 1, damaged: 2 };
    await until('all', () => open().length === 4);
    expect([...open()].sort()).toEqual([
      ...['journal damaged', 'journal late', 'journal pushes', 'journal spool'],
    ]);
    now.recorder = { lagMs: 0, spoolBytes: 450 };
    now.rejectReason = null;
    now.files = { late: 0, damaged: 0 };
    await until('the end of three', () => open().length === 1);
    await rounds();
    expect(open()).toEqual(['journal spool']);
    now.recorder = { lagMs: 0, spoolBytes: 399 };
    await until('the end', () => open().length === 0);
  });

  it('a healing is an incident with its counts, also when another worker continues it', async () => {
    const { watch, now, incidents, metrics, open, rounds } = await watching();
    now.notes = [note];
    await watch.lost('s1', 0, false);
    await watch.lost('s1', 0, true);
    watch.compared(counts);
    await rounds();
    expect(open()).toEqual(['went_back redis-s1:6379']);
    await watch.healed('s1', counts);
    expect(open()).toEqual([]);
    const details = (await incidents.due(1)).length;
    expect(details).toBe(1);
    const owed = await incidents.claim('went_back redis-s1:6379');
    expect(owed.map(({ detail }) => detail)).toEqual([
      'Redis at redis-s1:6379 lost all its jobs; dq restores the jobs from the journal',
      'Redis at redis-s1:6379 has its jobs again: 5 jobs put back, 1 removed that had ended, of 9 compared',
    ]);
    const report = metrics.take();
    expect(report?.counts).toEqual([
      ['dq_store_went_back_total', ['redis-s1:6379'], 1],
      ['dq_restored_jobs_total', ['put'], 5],
      ['dq_restored_jobs_total', ['removed'], 1],
      ['dq_restored_jobs_total', ['kept'], 3],
    ]);
    expect(report?.gauges).toContainEqual(['dq_restoring', [[[], 1]]]);
  });

  it('a failed check is logged once, and so is its end', async () => {
    const { now, rounds, lines } = await watching();
    now.failure = new Error('EIO');
    await rounds();
    now.failure = null;
    await rounds();
    expect(lines).toEqual([
      'journal-watch: cannot check the journal',
      'journal-watch: checks the journal again',
    ]);
  });

  it('an incident of a healing that another instance ended, ends', async () => {
    const { watch, now, open } = await watching();
    now.notes = [note];
    await watch.lost('s1', 3, false);
    now.notes = [];
    await until('the end', () => open().length === 0);
  });
});
