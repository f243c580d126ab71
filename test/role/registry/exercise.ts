// Defines what a registry does, with any database: each case runs on all of them.

import { describe, it } from 'vitest';
import type { RegistryCase, RegistryUnderTest } from './case.ts';
import { changeCases, hintCases, pageCases } from './changes.ts';
import { operationCases } from './operations.ts';
import { scheduleCases } from './schedules.ts';
import { sessionCases } from './sessions.ts';
import { idCases, shardListCases } from './shard-list.ts';
import { seriesCases, statisticsCases } from './statistics.ts';
import { tokenCases } from './tokens.ts';
import { concurrentCases, headerCases, namingCases, topicCases, unreadableCases } from './topics.ts';

const cases: Readonly<Record<string, readonly RegistryCase[]>> = {
  'pages of changes': pageCases,
  'a topic with an unreadable record': unreadableCases,
  topics: topicCases,
  'a topic that names others': namingCases,
  headers: headerCases,
  changes: changeCases,
  series: seriesCases,
  statistics: statisticsCases,
  onChange: hintCases,
  'two connections to one registry': concurrentCases,
  'the id of the registry': idCases,
  'the shard list': shardListCases,
  'a change of a schedule': scheduleCases,
  'access tokens': tokenCases,
  'console sessions': sessionCases,
  operations: operationCases,
};

export function exerciseRegistry(under: RegistryUnderTest): void {
  for (const [subject, facts] of Object.entries(cases))
    describe(subject, () => {
      for (const { title, check } of facts) it(title, () => check(under));
    });
}
