import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { type Config, type OptionName, options } from '../../src/config/options.ts';
import type { Owner, ReservedJob } from '../../src/core/job.ts';
import type { StatName } from '../../src/core/series.ts';
import { topicDefaults } from '../../src/core/topic/topic.ts';
import type { JobStore, PushJob, Store } from '../../src/ports/job-store.ts';
import type { Registry, TopicDraft } from '../../src/ports/registry.ts';
import type { ToMaster, ToWorker } from '../../src/process/messages.ts';
import type { QuestionName, Questions } from '../../src/process/questions.ts';
import type { Role, RoleContext } from '../../src/process/role.ts';
import { openRegistryDb } from '../../src/registry/sql/registry-db.ts';
import type { TopicBook } from '../../src/registry/topic-book.ts';
import { openDatabase } from '../../src/runtime/database.ts';
import { type LogFields, silentLog } from '../../src/telemetry/log.ts';
import type { MetricReport } from '../../src/telemetry/metrics.ts';
import { startComposed } from '../support/composed.ts';
import { testDirectory } from '../support/directory.ts';
import { type Answer, startSink } from '../support/sink.ts';
import { openSqliteStore } from '../support/sqlite-store.ts';
import { until } from '../support/until.ts';

export const secret = 'whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw';
export const owner = (incarnation = 1): Owner => ({ instance: 7, incarnation });

/** `h0`, `h1`, … */
export const ids = (letter: string, count: number) =>
  Array.from({ length: count }, (_, n) => `${letter}${n}`);

export interface Line extends LogFields {
  readonly kind: 'notice' | 'error' | 'debug' | 'request' | 'notify' | 'audit';
  readonly message: string;
}

export interface Rig {
  readonly store: Store;
  readonly registry: Registry;
  readonly topics: TopicBook;
  readonly lines: readonly Line[];
  readonly sent: readonly ToMaster[];
  notified(): readonly Line[];
  counted(topic: string, name: StatName): number;
  /** since the last call */
  metrics(): MetricReport | null;
  /** to every role */
  tell(message: ToWorker): void;
  /** the answer of the role that knows the question; null: it failed */
  ask<Name extends QuestionName>(
    name: Name,
    params: Questions[Name]['params'],
  ): Promise<Questions[Name]['answer'] | null>;
  context(more?: Partial<Omit<RoleContext, 'config'>> & { config?: Partial<Config> }): RoleContext;
  /** Starts it; drained at the end of the test. */
  run(role: Role): Promise<Role>;
  topic(name: string, callbackUrl: string, more?: Partial<TopicDraft>): Promise<void>;
  push(topic: string, id: string, more?: Partial<PushJob>): Promise<void>;
  pushAll(topic: string, ids: readonly string[], more?: Partial<PushJob>): Promise<void>;
  /** Ready jobs of any topic. */
  reserve(max: number, by?: Owner, leaseMs?: number): Promise<readonly ReservedJob[]>;
}

export const defaultConfig = Object.fromEntries(
  Object.entries(options).map(([name, option]) => [name, option.default]),
) as Record<OptionName, unknown> as Config;

/** `more`: of the store */
export async function startRig(
  more: {
    readonly clock?: () => number;
    readonly recoverHoldMs?: number;
    readonly clockHoldMs?: number;
    readonly keepHistory?: boolean;
  } = {},
): Promise<Rig> {
  const directory = testDirectory();
  const registryFile = await openRegistryDb(join(directory, 'registry.db'));
  onTestFinished(() => registryFile.close());
  const { client, close } = await openSqliteStore({ ...more, registry: registryFile });
  onTestFinished(close);
  const { store, registry } = client;

  const lines: Line[] = [];
  const note = (kind: Line['kind'], message: string, fields: LogFields = {}) =>
    lines.push({ ...fields, kind, message });
  const log = {
    ...silentLog,
    notice: (message: string, fields?: LogFields) => void note('notice', message, fields),
    error: (message: string, error?: unknown, fields?: LogFields) =>
      void note('error', message, { error: String(error), ...fields }),
    debug: (message: string, fields?: LogFields) => void note('debug', message, fields),
    request: (fields: LogFields) => void note('request', '', fields),
    notify: (fields: LogFields) => void note('notify', '', fields),
    audit: (fields: LogFields) => void note('audit', '', fields),
  };
  const sent: ToMaster[] = [];
  let asked = 0;
  const { ctx, counted, meter, tell, drain } = await startComposed(
    {
      role: 'notifier',
      config: { ...defaultConfig, dataDir: directory, 'server.port': 1, 'retry.unit': 50, pollCeiling: 20 },
      ...owner(),
    },
    {
      connection: client,
      log,
      onSend: (message) => void sent.push(message),
      // Tests run their own roles with this context.
      create: () => ({
        ...{ name: 'notifier', url: null, inFlight: () => 0 },
        ...{ start: async () => {}, drain: async () => {} },
      }),
    },
  );
  onTestFinished(() => drain(0, true));
  const { topics } = ctx;

  return {
    store,
    registry,
    topics,
    lines,
    sent,
    notified: () => lines.filter(({ kind }) => kind === 'notify'),
    counted: (topic, name) => counted.get(`${topic} ${name}`) ?? 0,
    metrics: () => meter.take(),
    tell,
    ask: async (name, params) => {
      asked += 1;
      const call = asked;
      tell({ kind: 'ask', call, question: { name, params } });
      const find = () => sent.find((message) => message.kind === 'answer' && message.call === call);
      await until(`an answer to ${name}`, () => find() !== undefined, { everyMs: 1 });
      return (find() as unknown as { answer: never }).answer;
    },
    context: ({ config, ...more } = {}) => ({ ...ctx, config: { ...ctx.config, ...config }, ...more }),
    async run(role) {
      await role.start();
      onTestFinished(() => role.drain(0));
      return role;
    },
    async topic(name, callbackUrl, more = {}) {
      const draft: TopicDraft = {
        ...topicDefaults,
        // By default it is shorter than a pause of a busy machine, and the attempt would fail.
        timeoutMs: 30_000,
        ...more,
        topic: name,
        callbackUrl,
        state: more.state ?? 'active',
        secrets: [{ secret, untilAt: null }],
      };
      const known = await registry.get(name);
      const outcome =
        known === null ? await registry.create(draft) : await registry.update(draft, known.revision);
      if (outcome.kind !== 'created' && outcome.kind !== 'updated') throw new Error(outcome.kind);
      await topics.refresh();
    },
    push: (topic, id, more) => pushAll(topic, [id], more),
    pushAll,
    async reserve(max, by = owner(), leaseMs = 60_000) {
      const request = { owner: by, max, others: { room: max, leaseMs }, topics: new Map() };
      return (await store.jobs.reserve(0, request)).jobs;
    },
  };

  async function pushAll(topic: string, ids: readonly string[], more: Partial<PushJob> = {}): Promise<void> {
    const outcomes = await store.jobs.push(
      ids.map((id) => ({
        topic,
        id,
        when: { delayMs: 0 },
        mode: 'replace',
        priority: 'normal',
        contentType: 'application/json',
        body: Buffer.from(`{"id":"${id}"}`),
        ...more,
      })),
    );
    for (const { kind } of outcomes) if (kind !== 'stored') throw new Error(`push: ${kind}`);
  }
}

/** A rig, and a receiver that its topic `t` calls. `answer`: of the receiver, which otherwise accepts */
export async function startTopic(given: Partial<TopicDraft> & { readonly answer?: Answer } = {}) {
  const { answer, ...draft } = given;
  const rig = await startRig();
  const sink = await startSink(answer);
  await rig.topic('t', sink.url, draft);
  return { rig, sink };
}

/** The rig's store with some methods of its jobs replaced. */
export const between = (rig: Rig, jobs: Partial<JobStore>): Store => ({
  ...rig.store,
  jobs: Object.assign(Object.create(rig.store.jobs), jobs) as JobStore,
});

/** Makes the stored record of topic `t` unreadable: a write from outside, with its own revision. */
export function damage(rig: Rig, column: string, text: string): void {
  const db = openDatabase(join(rig.context().config.dataDir, 'registry.db'), { waitMs: 2_000 });
  db.exec(`BEGIN; UPDATE registry SET revision = revision + 1;
    UPDATE topic SET ${column} = '${text}', revision = (SELECT revision FROM registry) WHERE name = 't'; COMMIT`);
  db.close();
}
