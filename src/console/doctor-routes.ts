// POST /v1/doctor runs the checks of dq doctor in this process, GET shows their findings so far. Only the
// console serves them: a check writes to the disk and calls servers, which must not delay a push.
// Invariant: one run at a time. A run that is late is shown as it is, and no other begins before its end.

import { Type } from 'typebox';
import type { Api } from '../api/api-context.ts';
import { closed, nullable, problems, reply, text } from '../api/http/schemas.ts';
import type { MasterQuestions } from '../api/master-questions.ts';
import { readyState } from '../api/routes/health-routes.ts';
import { crossCheck, type Origins } from '../config/cross-checks.ts';
import { openFilesMax } from '../config/open-files.ts';
import { formatInstant } from '../core/duration.ts';
import type { Finding } from '../doctor/finding.ts';
import { doctorLimits } from '../doctor/limits.ts';
import type { RoleContext } from '../process/role.ts';
import { clearTimeout, setTimeout, wallNow } from '../runtime/time.ts';

const tags = ['operation'];
const access = { access: { scope: 'admin', topics: 'every' } } as const;
const Run = closed(
  {
    state: Type.Enum(['none', 'running', 'done', 'late'], {
      description: `\`late\`: not finished after ${doctorLimits.runMs / 1_000} s; the findings are those so far`,
    }),
    startedAt: nullable('string', {
      description: 'when the run began; null: none ran',
      examples: ['2030-01-01T08:00:00.000Z'],
    }),
    endedAt: nullable('string', { description: 'when it ended; null: it has not', examples: [null] }),
    findings: Type.Array(
      closed(
        {
          check: text('what was checked', 'disk sync'),
          state: Type.Enum(['ok', 'warning', 'failed', 'unknown'], { description: 'as in dq doctor --json' }),
          about: text('the fact and the remedy', 'fdatasync of 4 KiB: 0.80 ms'),
        },
        { title: 'Finding' },
      ),
      { description: 'in the order of the checks' },
    ),
  },
  { title: 'Doctor' },
);
const schema = {
  operationId: 'doctorState',
  tags,
  summary: 'Findings of the last checks; on the console port only',
  response: { 200: reply('the run', Run), ...problems(503) },
};
const beginSchema = {
  operationId: 'doctor',
  tags,
  summary: 'Check the machine, the configuration and the servers; on the console port only',
  response: { 202: reply('the run', Run), ...problems(413, 503) },
};

export function doctorRoutes(api: Api, role: RoleContext, questions: MasterQuestions): void {
  const run = new DoctorRun(role, questions);
  api.get('/v1/doctor', { schema, config: access }, () => run.json());
  api.post('/v1/doctor', { schema: beginSchema, config: access }, (_request, answer) => {
    run.begin();
    return answer.code(202).send(run.json());
  });
}

class DoctorRun {
  readonly #role: RoleContext;
  readonly #questions: MasterQuestions;
  #state: 'none' | 'running' | 'done' | 'late' = 'none';
  #isBusy = false;
  #startedAt = 0;
  #endedAt: number | null = null;
  #findings: Finding[] = [];

  constructor(role: RoleContext, questions: MasterQuestions) {
    this.#role = role;
    this.#questions = questions;
  }

  begin(): void {
    if (this.#isBusy) return;
    this.#isBusy = true;
    this.#state = 'running';
    this.#startedAt = wallNow();
    this.#endedAt = null;
    this.#findings = [];
    const late = setTimeout(() => this.#end('late'), doctorLimits.runMs);
    this.#check()
      .catch((error: unknown) => this.#role.log.error('doctor: unhandled error in a check', error))
      .finally(() => {
        clearTimeout(late);
        this.#isBusy = false;
        this.#end('done');
      });
  }

  json(): object {
    return {
      state: this.#state,
      startedAt: this.#state === 'none' ? null : formatInstant(this.#startedAt),
      endedAt: this.#endedAt === null ? null : formatInstant(this.#endedAt),
      findings: this.#findings,
    };
  }

  async #check(): Promise<void> {
    // Its libraries cost memory that a console without a run saves.
    const { runDoctor } = await import('../doctor/doctor.ts');
    const { config } = this.#role;
    const onDisk = await this.#questions.config();
    const file = onDisk?.file ?? null;
    // Those that dq doctor has after it has read the file, which may have changed since.
    const known = new Map((onDisk?.items ?? []).map(({ name, origin }) => [name, origin]));
    const origins = Object.fromEntries(
      Object.keys(config).map((name) => [name, known.get(name) ?? 'default']),
    );
    const { warnings } = crossCheck(config, origins as Origins, { openFilesMax: openFilesMax() });
    const problem = onDisk?.problem ?? null;
    const onReload =
      problem === null ? [] : [{ where: file ?? 'environment', message: `a reload rejects it: ${problem}` }];
    await runDoctor(
      { ok: true, config, file, warnings: [...warnings, ...onReload] },
      () => readyState(this.#role),
      (findings) => this.#findings.push(...findings),
    );
  }

  #end(state: 'done' | 'late'): void {
    if (this.#state !== 'running') {
      // The late run has ended: its last findings count, too.
      if (this.#state === 'late' && state === 'done') this.#state = 'done';
      return;
    }
    this.#state = state;
    this.#endedAt = wallNow();
  }
}
