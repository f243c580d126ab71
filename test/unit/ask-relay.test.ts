// Questions of servers to the processes of a role: one reply for all, also where one is silent.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { masterLimits } from '../../src/master/limits.ts';
import type { WorkerProcess } from '../../src/master/workers/worker-process.ts';
import { AskRelay } from '../../src/master/workers/worker-relay.ts';
import type { ToWorker } from '../../src/process/messages.ts';

function worker(title: string) {
  const received: ToWorker[] = [];
  const send = (message: ToWorker) => void received.push(message);
  return { received, process: { title, send } as unknown as WorkerProcess };
}
const question = { name: 'capacity', params: { topic: 't' } };
const ask = { kind: 'ask', call: 7, to: 'notifier', question } as const;
const answer = (call: number) => ({ kind: 'answer', call, answer: [] }) as const;

describe('ask relay', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('answers when all notifiers have answered', () => {
    const relay = new AskRelay();
    const [server, a, b] = [worker('server'), worker('a'), worker('b')];
    relay.ask(server.process, ask, [a.process, b.process]);
    expect(a.received).toEqual([{ kind: 'ask', call: 1, question }]);
    relay.answered(a.process, answer(1));
    relay.answered(a.process, answer(1));
    relay.answered(server.process, answer(1));
    relay.answered(b.process, answer(99));
    expect(server.received).toEqual([]);
    relay.answered(b.process, answer(1));
    const answers = ['a', 'b'].map((process) => ({ process, answer: [] }));
    expect(server.received).toEqual([{ kind: 'answers', call: 7, answers }]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('reports a silent process with null', () => {
    const relay = new AskRelay();
    const [server, old] = [worker('server'), worker('old')];
    relay.ask(server.process, ask, [old.process]);
    vi.advanceTimersByTime(masterLimits.askMs);
    relay.answered(old.process, answer(1));
    const answers = [{ process: 'old', answer: null }];
    expect(server.received).toEqual([{ kind: 'answers', call: 7, answers }]);
  });

  it('answers at once without processes', () => {
    const server = worker('server');
    new AskRelay().ask(server.process, ask, []);
    expect(server.received).toEqual([{ kind: 'answers', call: 7, answers: [] }]);
  });

  it('asks one process where one is enough, another one the next time', () => {
    const relay = new AskRelay();
    const [server, a, b] = [worker('server'), worker('a'), worker('b')];
    const one = { ...ask, toOne: true } as const;
    for (let n = 0; n < 4; n += 1) relay.ask(server.process, one, [a.process, b.process]);
    expect([a.received.length, b.received.length]).toEqual([2, 2]);
    relay.answered(b.process, answer(1));
    expect(server.received).toEqual([{ kind: 'answers', call: 7, answers: [{ process: 'b', answer: [] }] }]);
  });

  it('waits as long as the question says, and not for ever', () => {
    const relay = new AskRelay();
    const [server, silent] = [worker('server'), worker('silent')];
    relay.ask(server.process, { ...ask, waitMs: masterLimits.askMs + 1 }, [silent.process]);
    relay.ask(server.process, { ...ask, waitMs: 1e9 }, [silent.process]);
    vi.advanceTimersByTime(masterLimits.askMs);
    expect(server.received).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(server.received).toHaveLength(1);
    vi.advanceTimersByTime(masterLimits.askMsMax);
    expect(server.received).toHaveLength(2);
  });

  it('keeps a bounded number of questions open', () => {
    const relay = new AskRelay();
    const [server, silent] = [worker('server'), worker('silent')];
    for (let n = 0; n < masterLimits.asksMax + 50; n += 1) relay.ask(server.process, ask, [silent.process]);
    expect(silent.received).toHaveLength(masterLimits.asksMax);
    vi.advanceTimersByTime(masterLimits.askMs);
    relay.ask(server.process, ask, [silent.process]);
    expect(silent.received).toHaveLength(masterLimits.asksMax + 1);
  });
});
