// POST /v1/rules/test: what a retry rule makes of a reply, by the same code as the notifier's. Reads and changes nothing.

import { Type } from 'typebox';
import { invalidField } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import { evaluateRule, parseRule, ruleValues } from '../../core/rule/reply-rule.ts';
import type { Api } from '../api-context.ts';
import { closed, problems, reply } from '../http/schemas.ts';

export function ruleRoute(api: Api): void {
  api.post(
    '/v1/rules/test',
    {
      schema: {
        operationId: 'testRule',
        tags: ['operation'],
        summary: 'Try a retry rule on a reply',
        body: closed({
          rule: Type.String(),
          status: Type.Optional(Type.Integer({ minimum: 100, maximum: 999, description: 'default 200' })),
          body: Type.String({ description: 'the text of the reply' }),
        }),
        response: {
          200: reply(
            'what comes of it',
            closed({
              retry: Type.Boolean(),
              values: Type.Record(Type.String(), Type.Unknown(), {
                description: 'what each reference of the rule is; in a first attempt, without headers',
              }),
            }),
          ),
          ...problems(413, 415),
        },
      },
      config: { access: { scope: 'read', topics: 'none' } },
    },
    async (request) => {
      const { rule: source, status = 200, body: text } = request.body;
      const parsed = parseRule(source);
      if (!parsed.ok) throw invalidField('rule', parsed.message, parsed.position);
      // A longer reply is a failed attempt, and no rule is asked.
      if (Buffer.byteLength(text) > limits.replyBytesMax)
        throw invalidField('body', `must be at most ${limits.replyBytesMax} bytes`);
      const view = { status, attempt: 1, text, header: () => null };
      return { retry: evaluateRule(parsed.rule, view), values: ruleValues(parsed.rule, view) };
    },
  );
}
