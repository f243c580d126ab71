// Asks the notifiers of this instance why they call no job of a topic, and returns all their answers to the
// server that asked. A notifier that does not answer within masterLimits.explainMs is reported without
// reasons.
// Invariant: at most masterLimits.explainsMax questions are open; further ones get no answer.

import type { ExplainedBy, ToMaster } from '../../process/messages.ts';
import { masterLimits } from '../limits.ts';
import type { WorkerProcess } from './worker-process.ts';

type Ask = Extract<ToMaster, { readonly kind: 'explain' }>;
type Answer = Extract<ToMaster, { readonly kind: 'explained' }>;

interface Question {
  /** null: no answer yet */
  readonly answers: Map<WorkerProcess, Answer['reasons'] | null>;
  readonly timer: NodeJS.Timeout;
  readonly from: WorkerProcess;
  readonly call: number;
}

export class ExplainRelay {
  readonly #open = new Map<number, Question>();
  #last = 0;

  ask(from: WorkerProcess, { call, topic }: Ask, notifiers: readonly WorkerProcess[]): void {
    if (this.#open.size >= masterLimits.explainsMax) return;
    this.#last += 1;
    const id = this.#last;
    const timer = setTimeout(() => this.#end(id), masterLimits.explainMs);
    const answers = new Map(notifiers.map((notifier) => [notifier, null]));
    this.#open.set(id, { answers, timer, from, call });
    if (notifiers.length === 0) this.#end(id);
    for (const notifier of notifiers) notifier.send({ kind: 'explain', call: id, topic });
  }

  answered(from: WorkerProcess, { call, reasons }: Answer): void {
    const answers = this.#open.get(call)?.answers;
    if (answers?.get(from) !== null) return;
    answers.set(from, reasons);
    if (![...answers.values()].includes(null)) this.#end(call);
  }

  #end(id: number): void {
    const question = this.#open.get(id);
    if (question === undefined) return;
    const { answers, timer, from, call } = question;
    clearTimeout(timer);
    this.#open.delete(id);
    const notifiers: ExplainedBy[] = Array.from(answers, ([{ title }, reasons]) => ({
      notifier: title,
      reasons,
    }));
    from.send({ kind: 'explained', call, notifiers });
  }
}
