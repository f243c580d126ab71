// Answers the questions of servers and the console (questions.ts) in the role that knows the answers.
// Invariant: a question that this process does not know gets no answer, and one that it cannot answer gets
// null.

import type { Log } from '../telemetry/log.ts';
import type { QuestionName, Questions } from './questions.ts';
import type { MasterLink } from './role.ts';

export type Answerers = {
  readonly [Name in QuestionName]?: (
    params: Questions[Name]['params'],
  ) => Questions[Name]['answer'] | Promise<Questions[Name]['answer']>;
};

/** Answers the questions that arrive from now on. */
export function answerQuestions(link: MasterLink, log: Log, answerers: Answerers): void {
  const byName = new Map(Object.entries(answerers));
  link.onMessage((message) => {
    if (message.kind !== 'ask') return;
    const { call, question } = message;
    const answerer = byName.get(question.name) as ((params: unknown) => unknown) | undefined;
    if (answerer === undefined) return;
    const send = (answer: unknown) => link.send({ kind: 'answer', call, answer });
    void (async () => {
      try {
        send(await answerer(question.params));
      } catch (error) {
        log.error('questions: cannot answer', error, { question: question.name });
        send(null);
      }
    })();
  });
}
