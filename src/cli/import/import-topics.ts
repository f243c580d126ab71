// Registers the topics of a source. A topic that dq has with the same settings is skipped; one with other
// settings is reported, or replaced where the caller wants it.

import { anyPolicy } from '../../core/topic/field-kinds.ts';
import { parseTopicInput } from '../../core/topic/settings.ts';
import { topicOfForeign } from '../../core/topic/topic.ts';
import { type ApiClient, ApiRefusal, sentenceOf } from '../daemon/api-client.ts';
import type { SourceTopic } from './source.ts';

export interface TopicResult {
  readonly name: string;
  /** in dq; null: no name of dq fits */
  readonly topic: string | null;
  readonly outcome: 'new' | 'same' | 'different' | 'replaced' | 'rejected';
  /** that differ */
  readonly fields: readonly string[];
  readonly reason: string;
  readonly notes: readonly string[];
}

export interface TopicOptions {
  readonly replace: boolean;
  readonly dryRun: boolean;
}

export async function importTopics(
  client: ApiClient,
  known: KnownTopics,
  topics: readonly SourceTopic[],
  options: TopicOptions,
): Promise<readonly TopicResult[]> {
  const results: TopicResult[] = [];
  for (const topic of topics) results.push(await importTopic(client, known, topic, options));
  return results;
}

async function importTopic(
  client: ApiClient,
  known: KnownTopics,
  { name, settings, isOffline, notes }: SourceTopic,
  { replace, dryRun }: TopicOptions,
): Promise<TopicResult> {
  const topic = topicOfForeign(name);
  const result = { name, topic, fields: [], reason: '', notes };
  if (topic === null)
    return { ...result, outcome: 'rejected', reason: 'dq has no name for it: empty or too long' };
  const title = topic === name ? settings['title'] : `${settings['title']} (${name})`.trim().slice(0, 200);
  const wanted = { topic, ...settings, title, state: isOffline ? 'offline' : 'active' };
  const found = await known.getTopic(topic);
  const fields = found === null ? [] : differences(found, wanted);
  if (found !== null && fields.length === 0) return { ...result, outcome: 'same' };
  if (found !== null && !replace) return { ...result, outcome: 'different', fields };
  const outcome = found === null ? 'new' : 'replaced';
  if (dryRun) {
    const parsed = parseTopicInput(wanted, anyPolicy, true);
    if (!parsed.ok) return { ...result, outcome: 'rejected', reason: sentence(parsed.error) };
    known.setTopic(topic, wanted);
    return { ...result, outcome, fields };
  }
  try {
    const call = { json: wanted, needs: ['topic', 'state'] };
    const reply =
      found === null
        ? await client.call<FoundTopic>({ ...call, method: 'POST', path: ['v1', 'topics'] })
        : await client.call<FoundTopic>({ ...call, method: 'PUT', path: ['v1', 'topics', topic] });
    known.setTopic(topic, reply.json);
    return { ...result, outcome, fields };
  } catch (error) {
    if (!(error instanceof ApiRefusal) || error.problem.status >= 500) throw error;
    return { ...result, outcome: 'rejected', reason: sentenceOf(error.problem) };
  }
}

/** Names of the fields with another value. An offline topic that is paused counts as offline: an unfinished
 *  import leaves it so. */
function differences(found: FoundTopic, wanted: Readonly<Record<string, unknown>>): readonly string[] {
  return Object.entries(wanted).flatMap(([name, value]) => {
    if (name === 'state' && value === 'offline' && found.state === 'paused') return [];
    return JSON.stringify(found[name]) === JSON.stringify(value) ? [] : [name];
  });
}

function sentence({
  errors,
  message,
}: {
  errors: readonly { field: string; message: string }[];
  message: string;
}) {
  return errors.map((one) => `${one.field}: ${one.message}`).join('; ') || message;
}

type FoundTopic = Readonly<Record<string, unknown>> & { readonly state: string };

/** Topics of dq, read once each, by the name in the source. */
export class KnownTopics {
  readonly #client: ApiClient;
  readonly #read = new Map<string, FoundTopic | null>();

  constructor(client: ApiClient) {
    this.#client = client;
  }

  /** null: dq has none. `name`: in dq */
  async getTopic(name: string): Promise<FoundTopic | null> {
    const known = this.#read.get(name);
    return known === undefined ? this.readAgain(name) : known;
  }

  /** As dq has it now. */
  async readAgain(name: string): Promise<FoundTopic | null> {
    const found = await this.#client
      .call<FoundTopic>({ path: ['v1', 'topics', name], needs: ['topic', 'state'] })
      .then(({ json }) => json)
      .catch((error: unknown) => {
        if (error instanceof ApiRefusal && error.problem.code === 'topic_not_found') return null;
        throw error;
      });
    this.#read.set(name, found);
    return found;
  }

  /** A name that no topic of dq can have counts as absent. */
  async ofForeign(name: string): Promise<FoundTopic | null> {
    const own = topicOfForeign(name);
    return own === null ? null : this.getTopic(own);
  }

  /** After a change, or as a dry run would leave it. */
  setTopic(name: string, topic: FoundTopic): void {
    this.#read.set(name, topic);
  }

  async setState(name: string, verb: 'pause' | 'offline'): Promise<void> {
    const path = ['v1', 'topics', name, verb];
    const { json } = await this.#client.call<FoundTopic>({ method: 'POST', path, needs: ['state'] });
    this.#read.set(name, json);
  }
}
