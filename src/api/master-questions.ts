// MasterQuestions asks the master for what only it has: the processes of this instance, and its metrics. Each
// question has a number. Without an answer within apiLimits.masterAnswerMs the result is null, because a dead
// master never answers.

import type { ExplainedBy, ProcessInfo, ToWorker } from '../process/messages.ts';
import type { MasterLink } from '../process/role.ts';
import { apiLimits } from './limits.ts';

type Question =
  | { readonly kind: 'processes' | 'scrape' }
  | { readonly kind: 'explain'; readonly topic: string };

export class MasterQuestions {
  readonly #link: MasterLink;
  readonly #open = new Map<number, (answer: ToWorker) => void>();
  #last = 0;

  constructor(link: MasterLink) {
    this.#link = link;
    link.onMessage((message) => {
      if (message.kind === 'processes' || message.kind === 'scrape' || message.kind === 'explained')
        this.#open.get(message.call)?.(message);
    });
  }

  async processes(): Promise<readonly ProcessInfo[] | null> {
    const answer = await this.#ask({ kind: 'processes' });
    return answer?.kind === 'processes' ? answer.processes : null;
  }

  /** Text in the exposition format of Prometheus. */
  async scrape(): Promise<string | null> {
    const answer = await this.#ask({ kind: 'scrape' });
    return answer?.kind === 'scrape' ? answer.text : null;
  }

  /** Why the notifiers of this instance call no job of a topic, or few. */
  async explain(topic: string): Promise<readonly ExplainedBy[] | null> {
    const answer = await this.#ask({ kind: 'explain', topic });
    return answer?.kind === 'explained' ? answer.notifiers : null;
  }

  #ask(question: Question): Promise<ToWorker | null> {
    const call = ++this.#last;
    return new Promise((resolve) => {
      const settle = (answer: ToWorker | null) => {
        clearTimeout(timer);
        this.#open.delete(call);
        resolve(answer);
      };
      const timer = setTimeout(() => settle(null), apiLimits.masterAnswerMs);
      this.#open.set(call, settle);
      this.#link.send({ ...question, call });
    });
  }
}
