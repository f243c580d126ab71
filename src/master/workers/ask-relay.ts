// Passes questions of servers and the console to the notifiers or to dq-upkeep of this instance, and returns
// all answers to the process that asked. A process that does not answer in time is reported with null.
// Invariant: at most masterLimits.asksMax questions are open, and none longer than masterLimits.askMsMax;
// further ones get no answer.

import type { ToMaster, ToWorker } from '../../process/messages.ts';
import type { AnswerOf } from '../../process/questions.ts';
import { clearTimeout, setTimeout, type Timer } from '../../runtime/time.ts';
import { masterLimits } from '../limits.ts';
import type { WorkerProcess } from './worker-process.ts';

type Ask = Extract<ToMaster, { readonly kind: 'ask' }>;
type Answer = Extract<ToMaster, { readonly kind: 'answer' }>;

interface OpenAsk {
  /** null: no answer yet */
  readonly answers: Map<WorkerProcess, AnswerOf<unknown> | null>;
  readonly timer: Timer;
  readonly from: WorkerProcess;
  readonly call: number;
}

export class AskRelay {
  readonly #open = new Map<number, OpenAsk>();
  #last = 0;

  /** `workers`: ready processes of the asked role. */
  ask(from: WorkerProcess, { call, question, waitMs, toOne }: Ask, workers: readonly WorkerProcess[]): void {
    if (this.#open.size >= masterLimits.asksMax) return;
    this.#last += 1;
    const id = this.#last;
    // One after the other: a silent process does not get every question.
    const asked = toOne === true && workers.length > 0 ? [workers[id % workers.length]] : workers;
    const longestMs = Math.min(waitMs ?? masterLimits.askMs, masterLimits.askMsMax);
    const timer = setTimeout(() => this.#end(id), longestMs);
    const answers = new Map((asked as readonly WorkerProcess[]).map((worker) => [worker, null]));
    this.#open.set(id, { answers, timer, from, call });
    if (answers.size === 0) this.#end(id);
    const message: ToWorker = { kind: 'ask', call: id, question };
    for (const worker of answers.keys()) worker.send(message);
  }

  answered(from: WorkerProcess, { call, answer }: Answer): void {
    const answers = this.#open.get(call)?.answers;
    if (answers?.get(from) !== null) return;
    answers.set(from, { process: from.title, answer });
    if (![...answers.values()].includes(null)) this.#end(call);
  }

  #end(id: number): void {
    const ask = this.#open.get(id);
    if (ask === undefined) return;
    const { answers, timer, from, call } = ask;
    clearTimeout(timer);
    this.#open.delete(id);
    const all = Array.from(answers, ([{ title }, given]) => given ?? { process: title, answer: null });
    from.send({ kind: 'answers', call, answers: all });
  }
}
