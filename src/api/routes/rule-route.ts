// POST /v1/rules/test evaluates a retry rule on a reply, with the notifier's code. Changes nothing.

import { testRuleSchema } from '../../contract/api/topic.ts';
import { invalidField } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { evaluateRule, parseRule, ruleValues } from '../../core/rule/reply-rule.ts';
import type { Api } from '../api-context.ts';

export function ruleRoute(api: Api): void {
  api.post(
    '/v1/rules/test',
    { schema: testRuleSchema, config: { access: { scope: 'read', topics: 'none' } } },
    async (request) => {
      const { rule: source, status = 200, body } = request.body;
      const parsed = parseRule(source);
      if (!parsed.ok) throw invalidField('rule', parsed.message, parsed.position);
      // A longer reply fails the attempt without the rule.
      if (Buffer.byteLength(body) > limits.replyBytesMax)
        throw invalidField('body', `must be at most ${limits.replyBytesMax} bytes`);
      const view = { status, attempt: 1, text: body, header: () => null };
      return { retry: evaluateRule(parsed.rule, view), values: ruleValues(parsed.rule, view) };
    },
  );
}
