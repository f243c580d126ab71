// Topics of dq as the import needs them: read once each, by the name in the source.

import { topicOfForeign } from '../../core/topic/foreign-name.ts';
import { type ApiClient, ApiRefusal } from '../daemon/api-client.ts';

export type TopicJson = Readonly<Record<string, unknown>> & { readonly state: string };

export class KnownTopics {
  readonly #client: ApiClient;
  readonly #read = new Map<string, TopicJson | null>();

  constructor(client: ApiClient) {
    this.#client = client;
  }

  /** null: dq has none. `name`: in dq */
  async get(name: string): Promise<TopicJson | null> {
    const known = this.#read.get(name);
    return known === undefined ? this.readAgain(name) : known;
  }

  /** As dq has it now. */
  async readAgain(name: string): Promise<TopicJson | null> {
    const found = await this.#client
      .call<TopicJson>({ path: ['v1', 'topics', name], needs: ['topic', 'state'] })
      .then(({ json }) => json)
      .catch((error: unknown) => {
        if (error instanceof ApiRefusal && error.problem.code === 'topic_not_found') return null;
        throw error;
      });
    this.#read.set(name, found);
    return found;
  }

  /** A name that no topic of dq can have counts as absent. */
  async ofForeign(name: string): Promise<TopicJson | null> {
    const own = topicOfForeign(name);
    return own === null ? null : this.get(own);
  }

  /** After a change, or as a dry run would leave it. */
  set(name: string, topic: TopicJson): void {
    this.#read.set(name, topic);
  }

  async setState(name: string, verb: 'pause' | 'offline'): Promise<void> {
    const path = ['v1', 'topics', name, verb];
    const { json } = await this.#client.call<TopicJson>({ method: 'POST', path, needs: ['state'] });
    this.#read.set(name, json);
  }
}
