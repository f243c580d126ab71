// POST /v1/rules/test evaluates a rule on a reply, or judges the reply as a topic or a draft does, with the
// notifier's code. Changes nothing.

import { testRuleSchema } from '../../contract/api/topic.ts';
import { invalidField } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { evaluateRule, parseRule, ruleValues } from '../../core/rule/reply-rule.ts';
import { readRules, tryReply } from '../../core/sample-replies.ts';
import { anyPolicy } from '../../core/topic/field-kinds.ts';
import { parseTopicInput, settingsJson, type TopicJson } from '../../core/topic/settings.ts';
import { topicDefaults } from '../../core/topic/topic.ts';
import { getTopic, topicNotFound } from '../../use-cases/change-topic.ts';
import type { Api, ApiContext } from '../api-context.ts';
import { needs, requireTopic } from '../http/route-access.ts';

export function ruleRoute(api: Api, { role }: ApiContext): void {
  api.post(
    '/v1/rules/test',
    { schema: testRuleSchema, config: needs('read', 'handler') },
    async (request) => {
      const { rule: source, topic, draft, headers = {}, status = 200, body } = request.body;
      // A longer reply is cut, and rules do not read half of it.
      if (Buffer.byteLength(body) > limits.replyBytesMax)
        throw invalidField('body', `must be at most ${limits.replyBytesMax} bytes`);
      const names = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value] as const);
      const reply = { status, attempt: 1, text: body, headers: new Map(names) };
      if (topic !== undefined) requireTopic(request, topic);
      if (topic === undefined && draft === undefined) {
        if (source === undefined) throw invalidField('rule', 'is required, or topic or draft');
        const parsed = parseRule(source);
        if (!parsed.ok) throw invalidField('rule', parsed.message, parsed.position);
        const view = { ...reply, header: (name: string) => reply.headers.get(name) ?? null };
        return { retry: evaluateRule(parsed.rule, view), values: ruleValues(parsed.rule, view) };
      }
      if (source !== undefined) throw invalidField('rule', 'not with topic or draft; leave it out');
      const judging = await judgingOf(topic, draft);
      const rules = readRules(judging);
      if (rules === undefined) throw invalidField('topic', 'has a rule that this version cannot read');
      return tryReply(judging, rules, reply);
    },
  );

  /** Rejects with topic_not_found, or with invalid for a bad draft. */
  async function judgingOf(name: string | undefined, draft: object = {}): Promise<TopicJson> {
    const known = name === undefined ? topicDefaults : await getTopic(role.registry, name);
    if (known === null) throw topicNotFound(name ?? '');
    const parsed = parseTopicInput(draft, anyPolicy, false);
    if (!parsed.ok) throw parsed.error;
    return settingsJson({ ...known, ...parsed.input.settings }) as TopicJson;
  }
}
