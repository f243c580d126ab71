// Asks the master which processes this instance has. Every question has a number, an answer and an end: without an answer
// within limits.masterAnswerMs it is null, because a master that is gone never says no.

import { limits } from '../core/limits.ts';
import type { ProcessInfo } from '../process/messages.ts';
import type { MasterLink } from '../process/role.ts';

type Answer = readonly ProcessInfo[] | null;

export class ProcessQuestions {
  readonly #link: MasterLink;
  readonly #open = new Map<number, (answer: Answer) => void>();
  #last = 0;

  constructor(link: MasterLink) {
    this.#link = link;
    link.onMessage((message) => {
      if (message.kind === 'processes') this.#open.get(message.call)?.(message.processes);
    });
  }

  ask(): Promise<Answer> {
    const call = ++this.#last;
    return new Promise((resolve) => {
      const settle = (answer: Answer) => {
        clearTimeout(timer);
        this.#open.delete(call);
        resolve(answer);
      };
      const timer = setTimeout(() => settle(null), limits.masterAnswerMs);
      this.#open.set(call, settle);
      this.#link.send({ kind: 'processes', call });
    });
  }
}
