// Questions of servers to all notifiers: one reply for all, also where a notifier is silent.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { masterLimits } from '../../src/master/limits.ts';
import { ExplainRelay } from '../../src/master/workers/explain-relay.ts';
import type { WorkerProcess } from '../../src/master/workers/worker-process.ts';
import type { ToWorker } from '../../src/process/messages.ts';

function worker(title: string) {
  const received: ToWorker[] = [];
  const send = (message: ToWorker) => void received.push(message);
  return { received, process: { title, send } as unknown as WorkerProcess };
}
const question = { kind: 'explain', call: 7, topic: 't' } as const;
const answer = (call: number) => ({ kind: 'explained', call, reasons: [] }) as const;

describe('explain relay', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('answers when all notifiers have answered', () => {
    const relay = new ExplainRelay();
    const [server, a, b] = [worker('server'), worker('a'), worker('b')];
    relay.ask(server.process, question, [a.process, b.process]);
    expect(a.received).toEqual([{ kind: 'explain', call: 1, topic: 't' }]);
    relay.answered(a.process, answer(1));
    relay.answered(a.process, answer(1));
    relay.answered(server.process, answer(1));
    relay.answered(b.process, answer(99));
    expect(server.received).toEqual([]);
    relay.answered(b.process, answer(1));
    const notifiers = ['a', 'b'].map((notifier) => ({ notifier, reasons: [] }));
    expect(server.received).toEqual([{ kind: 'explained', call: 7, notifiers }]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('shows a silent notifier without reasons', () => {
    const relay = new ExplainRelay();
    const [server, old] = [worker('server'), worker('old')];
    relay.ask(server.process, question, [old.process]);
    vi.advanceTimersByTime(masterLimits.explainMs);
    relay.answered(old.process, answer(1));
    const notifiers = [{ notifier: 'old', reasons: null }];
    expect(server.received).toEqual([{ kind: 'explained', call: 7, notifiers }]);
  });

  it('answers at once without notifiers', () => {
    const server = worker('server');
    new ExplainRelay().ask(server.process, question, []);
    expect(server.received).toEqual([{ kind: 'explained', call: 7, notifiers: [] }]);
  });

  it('keeps a bounded number of questions open', () => {
    const relay = new ExplainRelay();
    const [server, silent] = [worker('server'), worker('silent')];
    for (let n = 0; n < masterLimits.explainsMax + 50; n += 1)
      relay.ask(server.process, question, [silent.process]);
    expect(silent.received).toHaveLength(masterLimits.explainsMax);
    vi.advanceTimersByTime(masterLimits.explainMs);
    relay.ask(server.process, question, [silent.process]);
    expect(silent.received).toHaveLength(masterLimits.explainsMax + 1);
  });
});
