// POST /v1/rules/test evaluates a retry rule on a reply, with the notifier's code. Changes nothing.

import { Type } from 'typebox';
import { invalidField } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { evaluateRule, parseRule, ruleValues } from '../../core/rule/reply-rule.ts';
import type { Api } from '../api-context.ts';
import { closed, problems, reply, text } from '../http/schemas.ts';

const RuleTest = closed(
  {
    rule: text('the retry rule', '{res.code}!=200'),
    status: Type.Optional(
      Type.Integer({
        minimum: 100,
        maximum: 999,
        default: 200,
        description: 'HTTP status of the reply',
        examples: [200],
      }),
    ),
    body: text('text of the reply', '{"code":500}'),
  },
  { title: 'RuleTest' },
);
const RuleResult = closed(
  {
    retry: Type.Boolean({ description: 'dq would retry', examples: [true] }),
    values: Type.Record(Type.String(), Type.Unknown(), {
      description: 'value of each reference of the rule, in a first attempt and without reply headers',
      examples: [{ 'res.code': 500 }],
    }),
  },
  { title: 'RuleResult' },
);
const schema = {
  operationId: 'testRule',
  tags: ['operation'],
  summary: 'Evaluate a retry rule on a reply',
  body: RuleTest,
  response: { 200: reply('the result', RuleResult), ...problems(413, 415) },
};

export function ruleRoute(api: Api): void {
  api.post(
    '/v1/rules/test',
    { schema, config: { access: { scope: 'read', topics: 'none' } } },
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
