// MasterQuestions asks the master for what only it has: the processes of this instance, its metrics, and the
// answers of its notifiers and of dq-upkeep, which give them by answerQuestions. Each question has a number.
// Without an answer within processLimits.masterAnswerMs the result is null, because a dead master never
// answers, and an older one ignores questions that it does not know.

import { mergeFailures, type TopicFailures } from '../core/endpoint.ts';
import { clearTimeout, setTimeout } from '../runtime/time.ts';
import type { Log } from '../telemetry/log.ts';
import { processLimits } from './limits.ts';
import type { ConfigState, ProcessInfo, ReloadState, ToMaster, ToWorker } from './messages.ts';
import type { AnswerOf, QuestionName, Questions } from './questions.ts';
import type { MasterLink } from './role.ts';

type Asked = Extract<ToMaster, { readonly call: number }>;
type WithoutCall<T> = T extends unknown ? Omit<T, 'call'> : never;

type Answer = Extract<ToWorker, { readonly call: number }>;
const answerKinds: ReadonlySet<ToWorker['kind']> = new Set<Answer['kind']>([
  'processes',
  'scrape',
  'answers',
  'reload',
  'config',
]);

const roleOf = {
  capacity: 'notifier',
  running: 'notifier',
  endpoints: 'notifier',
  failures: 'notifier',
  past_failures: 'upkeep',
  test_call: 'notifier',
  attempts: 'upkeep',
  move_problem: 'upkeep',
  journal_lag: 'upkeep',
  journal_fsck: 'upkeep',
} as const satisfies {
  readonly [Name in QuestionName]: Questions[Name]['to'];
};

export class MasterQuestions {
  readonly #link: MasterLink;
  readonly #open = new Map<number, (answer: ToWorker) => void>();
  #last = 0;

  constructor(link: MasterLink) {
    this.#link = link;
    link.onMessage((message) => {
      if (answerKinds.has(message.kind)) this.#open.get((message as Answer).call)?.(message);
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

  /** The running and the last reload; `begins`: after beginning one. */
  async reload(begins: boolean): Promise<ReloadState | null> {
    const answer = await this.#ask({ kind: 'reload', begins });
    return answer?.kind === 'reload' ? answer.reload : null;
  }

  async config(): Promise<ConfigState | null> {
    const answer = await this.#ask({ kind: 'config' });
    return answer?.kind === 'config' ? answer.config : null;
  }

  /** Asks the processes of this instance that answer the question; none of them ready: an empty list.
   *  `waitMs`: time of the processes where they need longer than usual; `toOne`: only one of them is
   *  asked. */
  async ask<Name extends QuestionName>(
    name: Name,
    params: Questions[Name]['params'],
    { waitMs, toOne }: { readonly waitMs?: number; readonly toOne?: boolean } = {},
  ): Promise<readonly AnswerOf<Questions[Name]['answer']>[] | null> {
    const question = { name, params };
    const more = { ...(waitMs === undefined ? {} : { waitMs }), ...(toOne === undefined ? {} : { toOne }) };
    const longestMs =
      waitMs === undefined ? processLimits.masterAnswerMs : waitMs + processLimits.masterAnswerMs;
    const answer = await this.#ask({ kind: 'ask', to: roleOf[name], question, ...more }, longestMs);
    if (answer?.kind !== 'answers') return null;
    return answer.answers as readonly AnswerOf<Questions[Name]['answer']>[];
  }

  #ask(
    question: WithoutCall<Asked>,
    longestMs: number = processLimits.masterAnswerMs,
  ): Promise<ToWorker | null> {
    const call = ++this.#last;
    return new Promise((resolve) => {
      const settle = (answer: ToWorker | null) => {
        clearTimeout(timer);
        this.#open.delete(call);
        resolve(answer);
      };
      const timer = setTimeout(() => settle(null), longestMs);
      this.#open.set(call, settle);
      this.#link.send({ ...question, call } as Asked);
    });
  }
}

type Answerers = {
  readonly [Name in QuestionName]?: (
    params: Questions[Name]['params'],
  ) => Questions[Name]['answer'] | Promise<Questions[Name]['answer']>;
};

/** Answers the questions that arrive from now on: null for one that this process cannot answer, and nothing
 *  for one that it does not know. */
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

/** The failures of topics, as the notifiers of this instance count them, and dq-upkeep those of earlier ones.
 *  By topic: `also`, then those with the most failures, at most failingTopicsMax, so that all notifiers are
 *  asked about each: one without failures does not name a topic by itself. `ask`: one question, answered by
 *  all */
export async function topicFailures(
  ask: (asked: Questions['failures']['params']) => Promise<readonly TopicFailures[]>,
  topics: readonly string[],
  also: readonly string[] = [],
): Promise<ReadonlyMap<string, TopicFailures>> {
  const found = mergeFailures(await ask({ topics }));
  const worst = Array.from(found.values())
    .sort((a, b) => b.failed - a.failed || b.failuresInRow - a.failuresInRow)
    .map(({ topic }) => topic);
  const names = [...new Set([...also, ...worst])].slice(0, processLimits.failingTopicsMax);
  if (names.length === 0) return found;
  const named = new Set(names);
  return new Map([
    ...[...found].filter(([topic]) => named.has(topic)),
    ...mergeFailures(await ask({ topics, names })),
  ]);
}

/** Asks the notifiers about the failures of topics, and dq-upkeep about those of earlier notifiers. `all`:
 *  the answers of the notifiers, then that of dq-upkeep. null: as of MasterQuestions.ask */
export async function askFailures(
  questions: Pick<MasterQuestions, 'ask'>,
  asked: Questions['failures']['params'],
  wait?: { readonly waitMs: number },
): Promise<FailureAnswers | null> {
  const [now, past] = await Promise.all([
    questions.ask('failures', asked, wait),
    questions.ask('past_failures', asked, wait ?? { waitMs: processLimits.pastFailuresMs }),
  ]);
  return now && { notifiers: now, all: [...now, ...(past ?? [])] };
}

interface FailureAnswers {
  readonly notifiers: readonly AnswerOf<readonly TopicFailures[]>[];
  readonly all: readonly AnswerOf<readonly TopicFailures[]>[];
}

/** Of the processes that answered. */
export const failuresIn = (
  answers: readonly AnswerOf<readonly TopicFailures[]>[] | null,
): readonly TopicFailures[] => (answers ?? []).flatMap(({ answer }) => answer ?? []);
