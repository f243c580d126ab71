// The trial and the checks, which the port of the console alone serves.

import { Type } from 'typebox';
import { checkNames, findingStates } from '../../core/finding.ts';
import { contractLimits } from './limits.ts';
import {
  AttemptReason,
  closed,
  countOrNull,
  instant,
  instantOrNull,
  type JsonOf,
  orNull,
  problems,
  reply,
  text,
  textOrNull,
  yes,
} from './schema.ts';

const tags = ['access'];

const TrialRequest = closed(
  {
    at: instant('when its last byte arrived'),
    method: text('HTTP method', 'POST'),
    path: text('path', '/hello'),
    headers: Type.Array(closed({ name: text('name', 'dq-topic'), value: text('value', 'trial.hello') }), {
      description: 'as they came',
    }),
    body: text('start of the body', '{"hello":"dq"}'),
    attempt: countOrNull('number of the attempt', 1),
    latenessMs: countOrNull('time since the job was due, ms', 12),
    signature: Type.Enum(['ok', 'wrong', 'not checked'], { description: 'result of the check' }),
    reason: textOrNull('why the signature is wrong'),
  },
  { title: 'TrialRequest' },
);
export type TrialRequestJson = JsonOf<typeof TrialRequest>;

const Trial = closed(
  {
    trial: Type.Union([
      closed(
        {
          topic: text('topic of the trial', 'trial.hello'),
          callbackUrl: text('receiver in dq-console', 'http://127.0.0.1:41877/hello'),
          endsAt: instant('when dq removes the trial'),
          serverUrl: text('address of the API on this machine', 'http://127.0.0.1:6789'),
          id: text('id of the job', '019ab301-77aa-7c3e-8f21-0b9d6a1c2e44'),
          body: text('body of the job', '{"hello":"dq"}'),
          delay: text('delay of the push', '3s'),
          acceptedAt: instant('when the job was pushed'),
          dueAt: instant('when it is due'),
          answeredMs: Type.Number({ description: 'time until the API replied, ms', examples: [2.4] }),
          request: orNull(TrialRequest, 'null: not received yet'),
          failure: orNull(
            closed({ reason: AttemptReason, status: countOrNull('HTTP status') }),
            'of the last attempt; null: none failed',
          ),
        },
        { title: 'RunningTrial' },
      ),
      Type.Null(),
    ]),
  },
  { title: 'Trial' },
);
export type TrialJson = JsonOf<typeof Trial>;

export const beginTrialSchema = {
  operationId: 'beginTrial',
  tags,
  summary: 'Push a job to a receiver in dq-console; on its port only',
  description: 'Makes the topic trial.hello. dq removes it after 10 min, or with DELETE.',
  response: { 201: reply('the trial', Trial), ...problems(409, 413, 503) },
};

export const getTrialSchema = {
  operationId: 'getTrial',
  tags,
  summary: 'Read the trial; on the console port only',
  response: { 200: reply('the trial; null: none runs', Trial), ...problems(503) },
};

export const endTrialSchema = {
  operationId: 'endTrial',
  tags,
  summary: 'Remove the trial, its topic and its jobs; on the console port only. Takes 2 s',
  response: { 200: reply('removed', closed({ deleted: yes })), ...problems(409, 413, 503) },
};

const Doctor = closed(
  {
    state: Type.Enum(['none', 'running', 'done', 'late'], {
      description: `\`late\`: not finished after ${contractLimits.doctorRunMs / 1_000} s; the findings are those so far`,
    }),
    startedAt: instantOrNull('when the run began; null: none ran'),
    endedAt: textOrNull('when it ended; null: it has not'),
    findings: Type.Array(
      closed(
        {
          check: Type.Enum(checkNames, { description: 'what was checked' }),
          state: Type.Enum(findingStates, { description: 'as in dq doctor --json' }),
          code: text('stable; decide by it, not by the text', 'space_low'),
          values: Type.Record(Type.String(), Type.Union([Type.String(), Type.Number()]), {
            description: 'of the text',
            examples: [{ free: '0.80' }],
          }),
          about: text('the fact and the remedy', '0.80 GiB free: dq rejects pushes when the disk is full'),
        },
        { title: 'Finding' },
      ),
      { description: 'in the order of the checks' },
    ),
  },
  { title: 'Doctor' },
);
export type DoctorJson = JsonOf<typeof Doctor>;

export const doctorStateSchema = {
  operationId: 'doctorState',
  tags: ['operation'],
  summary: 'Findings of the last checks; on the console port only',
  response: { 200: reply('the run', Doctor), ...problems(503) },
};

export const doctorSchema = {
  operationId: 'doctor',
  tags: ['operation'],
  summary: 'Check the machine, the configuration and the servers; on the console port only',
  response: { 202: reply('the run', Doctor), ...problems(413, 503) },
};
